"""Submissions, and a report to verify, each in a process of its own with bounded memory and time.

A submission that takes all memory or time gets a line about that; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import psutil

from flashlab.forks import forked
from flashlab_grading.copies import shipped
from flashlab_grading.grade import Graded, check_alone
from flashlab_grading.model import GradingError, Line, Submission
from flashlab_grading.submissions import read_submission

MAX_SECONDS, MAX_MEMORY, POLL_SECONDS = 60.0, 1024**3, 0.05
"""Longest time for one submission, of which forty records take less than a second; and most bytes
that a process may take beyond those it starts with."""

T = TypeVar("T")


class LimitError(Exception):
    """A function took more than the limit that this names, or was killed."""


def _answer(output: Connection, function: Callable[..., object], *arguments: Any) -> None:
    try:
        output.send(function(*arguments))
    except (GradingError, ImportError) as error:
        output.send(error)


class Apart(Generic[T]):
    """A function that runs in a fork, and is ended when it takes too much memory or time."""

    def __init__(self, most_seconds: float, function: Callable[..., T], *arguments: Any) -> None:
        self._input, output = multiprocessing.Pipe(duplex=False)
        self._process = forked(_answer, output, function, *arguments)
        output.close()
        self._seconds, self._ends = most_seconds, time.monotonic() + most_seconds
        self._most = self._memory() + MAX_MEMORY
        self._limit = f"{MAX_MEMORY // 1024**2} MiB"  # also of what ends without an answer

    def _memory(self) -> int:
        with suppress(psutil.NoSuchProcess):
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def result(self, beside: Iterable[Apart[T]] = ()) -> T:
        """The function's result or error; LimitError if it took too much or was killed.

        Those that run `beside` it are held within their bounds meanwhile.
        """
        try:
            while not self._input.poll(POLL_SECONDS):
                for child in (self, *beside):
                    is_late = time.monotonic() > child._ends
                    if is_late or child._memory() > child._most:
                        child._limit = f"{child._seconds:g} s" if is_late else child._limit
                        child._process.kill()
            found: T | Exception = self._input.recv()
        except EOFError:
            raise LimitError(self._limit) from None
        finally:
            self._process.kill()
            self._process.join()
            self._input.close()
        if isinstance(found, Exception):
            raise found
        return found


def _check(folder: str, name: str, device: str | None) -> Graded:
    return check_alone(read_submission(folder, name, device))


def check_apart(folder: str, names: Iterable[str], device: str | None) -> Iterator[Graded]:
    """Each submission of a folder, read and checked apart, in order; `device` is the class's."""
    shipped()  # known to all forks
    running, waiting = dict[str, Apart[Graded]](), [*names]
    slots = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    while waiting or running:
        while waiting and len(running) < slots:
            name = waiting.pop(0)
            running[name] = Apart(MAX_SECONDS, _check, folder, name, device)
        name = next(iter(running))
        try:
            yield running.pop(name).result(running.values())
        except LimitError as error:
            line = Line("fail", "form.budget", params={"limit": str(error)})
            yield check_alone(Submission(name, lines=[line]))
