"""Limits with a dead zone, for what was measured once and has no interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """A rule with its dead zone: it fails at `low` and under, and holds at `high` and over."""

    low: float
    high: float

    def holds(self, value: float) -> bool | None:
        """Whether it holds of a value; None within the dead zone."""
        if value >= self.high:
            return True
        return False if value <= self.low else None


IDLE = Limits(10.0, 20.0)
"""Percent of the time in which no kernel or operator runs."""

EXCESS = Limits(1.5, 2.0)
"""Bytes moved or allocated over those that any implementation must move."""
