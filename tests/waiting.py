"""Waiting for what another process does: soon on an idle machine, later on a busy one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60
"""Seconds that a busy machine may take for what otherwise takes a moment."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return as soon as the condition holds; fail where it does not within these seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} took more than {seconds:.0f} s"
        time.sleep(0.02)


class Clock:
    """A supervisor's time, which stands still until a file has been written, and then flies."""

    def __init__(self, written: Path) -> None:
        self.written = written
        self.asked = 0

    def monotonic(self) -> float:
        """Seconds, 1000 a look once the file is there."""
        if self.written.exists() and self.written.read_text():
            self.asked += 1
        return 1000.0 * self.asked
