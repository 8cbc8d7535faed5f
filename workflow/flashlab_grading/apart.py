"""Submissions, and reports to verify, each in a process of its own, with bounds on memory and time.

Whatever a submission does to its process, such as taking all memory or time, is a line about that
submission; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

import psutil

from flashlab_grading.grade import CheckedSubmission, check_alone
from flashlab_grading.model import Line, Submission
from flashlab_grading.submissions import read_submission

MAX_SECONDS = 60.0
"""Longest time for one submission; forty records take less than one second."""

MAX_MEMORY = 1024**3
"""Most bytes that a submission's process may take beyond those it starts with."""


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_AS, (min(now + MAX_MEMORY, most), hard))


def _check_in_child(
    folder: str, name: str, device: str | None, nonce: str | None, output: Connection
) -> None:
    with suppress(OSError, ValueError):  # no /proc: the time limit still holds
        _limit_memory()
    try:
        checked = check_alone(read_submission(folder, name, device), nonce)
        output.send_bytes(pickle.dumps(checked, pickle.HIGHEST_PROTOCOL))
    except MemoryError:
        pass  # the parent reads nothing, and says so
    output.close()
    os._exit(0)  # nothing is left to clean up, and nothing of the parent's may be flushed here


class _Child:
    """A process that checks one submission."""

    def __init__(self, folder: str, name: str, device: str | None, nonce: str | None) -> None:
        self.name = name
        self.input, output = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self.process = context.Process(
            target=_check_in_child, args=(folder, name, device, nonce, output), daemon=True
        )
        self.process.start()
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
    waiting = list(names)
    running: list[_Child] = []
    done: dict[str, CheckedSubmission] = {}
    order = list(waiting)
    slots = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    while waiting or running:
        while waiting and len(running) < slots:
            running.append(_Child(folder, waiting.pop(0), device, nonce))
        left = min(child.ends for child in running) - time.monotonic()
        ready = wait([child.input for child in running], max(0.0, left))
        for child in list(running):
            if child.input in ready or time.monotonic() >= child.ends:
                running.remove(child)
                done[child.name] = child.result()
        while order and order[0] in done:
            yield done.pop(order.pop(0))


# Reports

MAX_VERIFYING = 900.0
"""Longest time for one report, in seconds."""

POLL_SECONDS = 0.05


class LimitError(Exception):
    """A command that took more than it may; the message says of what."""


def _family(process: psutil.Process) -> list[psutil.Process]:
    """A process and those that it started, the last ones first; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return [*reversed(process.children(recursive=True)), process]
    return []


def run_within_limits(
    command: Sequence[str], most_bytes: int = MAX_MEMORY, most_seconds: float = MAX_VERIFYING
) -> int:
    """Run a command with this process's output; its exit status.

    LimitError if it takes more than `most_bytes` of memory or `most_seconds`, or is killed.
    """
    until = time.monotonic() + most_seconds
    with subprocess.Popen(command) as child:
        process = psutil.Process(child.pid)
        try:
            while child.poll() is None:
                if time.monotonic() > until:
                    raise LimitError(f"it took more than {most_seconds:g} s, as no report does")
                taken = 0
                for own in _family(process):
                    with suppress(psutil.NoSuchProcess):
                        taken += own.memory_info().rss
                if taken > most_bytes:
                    most = f"{most_bytes / 1024**2:g} MiB of memory"
                    raise LimitError(f"it took more than {most}, as no report does")
                with suppress(subprocess.TimeoutExpired):
                    child.wait(POLL_SECONDS)
        finally:
            for own in _family(process):
                with suppress(psutil.NoSuchProcess):
                    own.kill()
    if child.returncode < 0:
        raise LimitError(f"it was ended by signal {-child.returncode}")
    return child.returncode
