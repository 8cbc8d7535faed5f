"""A submission, and a report to verify, each in a process of its own with bounded memory and time.

A submission that takes all memory or time gets a line about that; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

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


def apart(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """A function's result or error, in a fork; LimitError if that took too much or was killed."""
    received, output = multiprocessing.Pipe(duplex=False)
    process = forked(_answer, output, function, *arguments)
    output.close()
    ends, limit = time.monotonic() + seconds, f"{MAX_MEMORY // 1024**2} MiB"
    most = psutil.Process().memory_info().rss + MAX_MEMORY  # a fork starts with as much
    try:
        while not received.poll(POLL_SECONDS):
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > ends:
                    limit = f"{seconds:g} s"
                if time.monotonic() > ends or psutil.Process(process.pid).memory_info().rss > most:
                    process.kill()
        found: T | Exception = received.recv()
    except EOFError:  # also of what ends without an answer
        raise LimitError(limit) from None
    finally:
        process.kill()
        process.join()
        received.close()
    if isinstance(found, Exception):
        raise found
    return found


def _check(folder: str, name: str, device: str | None) -> Graded:
    return check_alone(read_submission(folder, name, device))


def check_apart(folder: str, names: Iterable[str], device: str | None) -> Iterator[Graded]:
    """Each submission of a folder, read and checked apart, in order; `device` is the class's."""
    shipped()  # known to all forks
    for name in names:
        try:
            yield apart(MAX_SECONDS, _check, folder, name, device)
        except LimitError as error:
            line = Line("fail", "form.budget", params={"limit": str(error)})
            yield check_alone(Submission(name, lines=[line]))
