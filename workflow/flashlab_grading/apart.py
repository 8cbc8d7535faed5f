"""Submissions, and a report to verify, each in a process of its own with bounded memory and time.

A submission that takes all memory or time gets a line about that; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import psutil

from flashlab.forks import forked
from flashlab_grading.grade import CheckedSubmission, check_alone
from flashlab_grading.model import GradingError, Line, Submission
from flashlab_grading.submissions import read_submission

MAX_SECONDS = 60.0
"""Longest time for one submission; forty records take less than one second."""

MAX_MEMORY = 1024**3
"""Most bytes that a process may take beyond those it starts with."""

POLL_SECONDS = 0.05

T = TypeVar("T")


class LimitError(Exception):
    """A function took more than the limit that this names, or was killed."""


def _answer(output: Connection, function: Callable[..., object], *arguments: Any) -> None:
    try:
        found = function(*arguments)
    except (GradingError, ImportError) as error:
        found = error
    output.send_bytes(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


class Apart(Generic[T]):
    """A function that runs in a fork, and is ended when it takes too much memory or time."""

    def __init__(self, most_seconds: float, function: Callable[..., T], *arguments: Any) -> None:
        self._input, output = multiprocessing.Pipe(duplex=False)
        self._process = forked(_answer, output, function, *arguments)
        output.close()
        self._seconds, self._ends = most_seconds, time.monotonic() + most_seconds
        self._most = self._memory() + MAX_MEMORY
        self._limit = ""

    def _memory(self) -> int:
        with suppress(psutil.NoSuchProcess):
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def is_done(self, seconds: float = 0.0) -> bool:
        """True once it has ended, or been ended; waits for that so long at most."""
        if self._limit or self._input.poll(seconds):
            return True
        if time.monotonic() > self._ends:
            self._limit = f"{self._seconds:g} s"
        elif self._memory() > self._most:
            self._limit = f"{MAX_MEMORY // 1024**2} MiB"
        if self._limit:
            self._process.kill()
        return bool(self._limit)

    def result(self) -> T:
        """The function's result or error; LimitError if it took too much or was killed."""
        try:
            while not self.is_done(POLL_SECONDS):
                pass
            if self._limit:
                raise LimitError(self._limit)
            found: T | Exception = pickle.loads(self._input.recv_bytes())
        except EOFError:
            raise LimitError(f"{MAX_MEMORY // 1024**2} MiB") from None
        finally:
            self._process.kill()
            self._process.join()
            self._input.close()
        if isinstance(found, Exception):
            raise found
        return found


def _check(folder: str, name: str, device: str | None, nonce: str | None) -> CheckedSubmission:
    return check_alone(read_submission(folder, name, device), nonce)


def _next(running: deque[tuple[str, Apart[CheckedSubmission]]]) -> CheckedSubmission:
    """The result of the first; all of them are held within their bounds meanwhile."""
    while not running[0][1].is_done(POLL_SECONDS):
        for _, child in running:
            child.is_done()
    name, child = running.popleft()
    try:
        return child.result()
    except LimitError as error:
        params = {"limit": str(error)}
        line = Line("fail", "form.budget", params=params, submission=name)
        return check_alone(Submission(name, (), (line,)))


def check_apart(
    folder: str, names: Iterable[str], device: str | None, nonce: str | None = None
) -> Iterator[CheckedSubmission]:
    """Each submission of a folder, read and checked in a process of its own, in their order.

    `device` is the class's device, `nonce` the grader's word, where there are any.
    """
    running: deque[tuple[str, Apart[CheckedSubmission]]] = deque()
    slots = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    for name in names:
        if len(running) == slots:
            yield _next(running)
        running.append((name, Apart(MAX_SECONDS, _check, folder, name, device, nonce)))
    while running:
        yield _next(running)
