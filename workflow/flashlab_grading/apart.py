"""Submissions, and reports to verify, each in a process of its own, with bounds on memory and time.

Whatever a submission does to its process, such as taking all memory or time, is a line about that
submission; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from flashlab.children import Program
from flashlab.forks import forked
from flashlab_grading.grade import CheckedSubmission, check_alone
from flashlab_grading.model import Line, Submission
from flashlab_grading.submissions import read_submission

MAX_SECONDS = 60.0
"""Longest time for one submission; forty records take less than one second."""

MAX_MEMORY = 1024**3
"""Most bytes that a submission's process may take beyond those it starts with."""


def _check_in_child(output: Connection, nonce: str | None, *submission: Any) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # such a limit is not allowed: that of time still holds
        most = psutil.Process().memory_info().vms + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        checked = check_alone(read_submission(*submission), nonce)
        output.send_bytes(pickle.dumps(checked, pickle.HIGHEST_PROTOCOL))
    except MemoryError:
        pass  # the parent reads nothing, and says so


class _Child:
    """A process that checks one submission."""

    def __init__(self, folder: str, name: str, device: str | None, nonce: str | None) -> None:
        self.name = name
        self.input, output = multiprocessing.Pipe(duplex=False)
        self.process = forked(_check_in_child, output, nonce, folder, name, device)
        output.close()
        self.ends = time.monotonic() + MAX_SECONDS

    def result(self) -> CheckedSubmission:
        """What it found, or that it found nothing within its bounds."""
        limit = f"{MAX_SECONDS:g} s"
        try:
            if self.input.poll(max(0.0, self.ends - time.monotonic())):
                checked = pickle.loads(self.input.recv_bytes())
                assert isinstance(checked, CheckedSubmission)
                return checked
        except EOFError:
            limit = f"{MAX_MEMORY // 1024**2} MiB"
        finally:
            self.process.kill()
            self.process.join()
            self.input.close()
        line = Line("fail", "form.budget", params={"limit": limit}, submission=self.name)
        return check_alone(Submission(self.name, (), (line,)))


def check_apart(
    folder: str, names: Iterable[str], device: str | None, nonce: str | None = None
) -> Iterator[CheckedSubmission]:
    """Each submission of a folder, read and checked in a process of its own, in their order.

    `device` is the class's device, `nonce` the grader's word, where there are any.
    """
    running: deque[_Child] = deque()
    slots = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    for name in names:
        if len(running) == slots:
            yield running.popleft().result()
        running.append(_Child(folder, name, device, nonce))
    while running:
        yield running.popleft().result()


# Reports

MAX_VERIFYING = 900.0
"""Longest time for one report, in seconds."""

POLL_SECONDS = 0.05


class LimitError(Exception):
    """A command that took more than it may; the message says of what."""


def run_within_limits(
    command: Sequence[str], most_bytes: int = MAX_MEMORY, most_seconds: float = MAX_VERIFYING
) -> int:
    """Run a command with this process's output; its exit status.

    LimitError if it takes more than `most_bytes` of memory or `most_seconds`, or is killed.
    """
    until = time.monotonic() + most_seconds
    child = Program(command, os.environ, leads=False)
    family: list[psutil.Process] = []
    try:
        while (status := child.wait(POLL_SECONDS)) is None:
            if time.monotonic() > until:
                raise LimitError(f"it took more than {most_seconds:g} s, as no report does")
            taken = 0
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(child.pid)
                family = [process, *process.children(recursive=True)]
                taken = sum(own.memory_info().rss for own in family)
            if taken > most_bytes:
                most = f"{most_bytes / 1024**2:g} MiB of memory"
                raise LimitError(f"it took more than {most}, as no report does")
    finally:
        for own in reversed(family):
            with suppress(psutil.NoSuchProcess):
                own.kill()
        child.kill()
    if status < 0:
        raise LimitError(f"it was ended by signal {-status}")
    return status


def verify_within_limits(pdf: Path | None, order: Path | None) -> int:
    """Verify a report, or that which a call's order names, within limits; the exit status."""
    given = ("--order", order) if order else ("--pdf", pdf)
    command = (sys.executable, "-m", "flashlab", "verify-unlimited", *map(str, given))
    try:
        return run_within_limits(command)
    except LimitError as error:
        print(f"error: the report was not verified to its end: {error}", file=sys.stderr)
        return 1
