"""What grading speaks of: checks, verdicts, submissions, and the devices that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashlab.devices import find_device
from flashlab.lab5.checks import Line as Line
from flashlab.lab5.checks import Verdict as Verdict
from flashlab.lab5.checks import samples_of as samples_of
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result

OWN_CHECKS = ("form", "arithmetic", "identity", "physics", "plausibility", "coverage")
CHECKS = (*OWN_CHECKS, "copies", "reproduction")
PASSES = ("forward", "backward")
"""The passes that are timed; the third time is their sum."""

LAUNCH_SECONDS = 0.3e-3
"""Shorter times are mostly kernel launches: they have no order, and vary between sessions."""

VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "not_checked", "pass")
"""From the worst on; a whole check's verdict is the worst of its lines. What was not checked has
not passed, so it outweighs a pass."""

BADGES = ("available", "functional", "reproduced")  # in the sense of the ACM's


class GradingError(Exception):
    """Grading is impossible."""


@dataclass(frozen=True)
class Submission:
    """One subfolder or archive: its results, the lines from reading it, and its device.

    `contradicted` are the files of which two things are stated.
    """

    name: str
    results: Sequence[Result] = ()
    lines: Sequence[Line] = ()
    device: str | None = None
    contradicted: Sequence[str] = ()


def family(option: Option) -> Option:
    """A run's family, of which results cannot be told apart: the same B·H, N, d and mask."""
    who, shape = option
    groups = shape.batch_size * shape.num_heads
    return who, type(shape)(groups, shape.seq_len, 1, shape.head_dim, shape.causal)


def kind_of_device(name: str | None) -> str | None:
    """One name for all ways to write a known device's; any other name as it is."""
    device = find_device(name)
    return device.name if device else name


def is_same_device(one: str, other: str | None) -> bool:
    """True if two names are of one kind of device; False where one is not known."""
    return other is not None and kind_of_device(one) == kind_of_device(other)
