"""The GPU's busy time in an iteration, and its number of kernels, by torch.profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile, supported_activities

from flashlab.measuring.protocols import synchronize

ITERATIONS = 5
"""Profiled iterations, over which the mean is taken."""

COPIES = ("Memcpy", "Memset")
"""The beginnings of the profiler's names of copies and fills, which are no kernels."""

Interval = tuple[float, float]
"""The beginning and the end of an event."""


@dataclass(frozen=True)
class Busy:
    """The busy time of an iteration in ms, and its number of kernels."""

    milliseconds: float
    kernels: float


def covered(intervals: Iterable[Interval]) -> float:
    """The length of the union of intervals, in any order."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def busy_iteration(step: Callable[[], object], device: str) -> Busy | None:
    """Run `step` a few times under the profiler, which sees the device alone.

    None where the profiler cannot be had, or sees nothing: the device's counters may be another
    process's.
    """
    activity = getattr(ProfilerActivity, device.upper())
    if activity not in supported_activities():  # type: ignore[no-untyped-call]
        return None
    try:
        synchronize(device)
        with profile(activities=[activity]) as profiler:
            for _ in range(ITERATIONS):
                step()
            synchronize(device)
        events = profiler.events() or ()
    except RuntimeError:  # what the profiler raises, of memory too: the training is over by now
        return None
    of_device = [e for e in events if e.device_type.name == activity.name]
    seen = [e for e in of_device if not e.is_user_annotation]
    if not seen:
        return None
    microseconds = covered((e.time_range.start, e.time_range.end) for e in seen)
    kernels = sum(not e.name.startswith(COPIES) for e in seen)
    return Busy(microseconds / 1e3 / ITERATIONS, kernels / ITERATIONS)
