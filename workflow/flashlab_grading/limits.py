"""A command run as a process of its own, ended where it takes more memory or time than it may."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

MAX_BYTES = 1024**3
MAX_SECONDS = 900.0
POLL_SECONDS = 0.05


class LimitError(Exception):
    """A command that took more than it may; the message says of what."""


def _resident_bytes(process: psutil.Process) -> int:
    """The memory of a process and of those that it started."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for own in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += own.memory_info().rss
    return total


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        for own in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                own.kill()


def run_within_limits(
    command: Sequence[str], most_bytes: int = MAX_BYTES, most_seconds: float = MAX_SECONDS
) -> int:
    """Run a command with this process's output, and return its exit status.

    Raises:
        LimitError: it took more than `most_bytes` of memory or `most_seconds`, or was killed.
    """
    until = time.monotonic() + most_seconds
    with subprocess.Popen(command) as child:
        process = psutil.Process(child.pid)
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    status = child.wait(POLL_SECONDS)
                    break
                if time.monotonic() > until:
                    raise LimitError(f"it took more than {most_seconds:g} s, as no report does")
                if _resident_bytes(process) > most_bytes:
                    raise LimitError(
                        f"it took more than {most_bytes / 1024**2:g} MiB of memory, as no report "
                        "does"
                    )
        finally:
            _end(process)
    if status < 0:
        raise LimitError(f"it was ended by signal {-status}")
    return status
