"""The GPU's busy time in an iteration, and its number of kernels, by torch.profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch.profiler import ProfilerActivity, profile, supported_activities

from flashlab.measuring.protocols import synchronize

ITERATIONS = 5
"""Profiled iterations, over which the mean is taken."""

COPIES = ("Memcpy", "Memset")
"""The beginnings of the profiler's names of copies and fills, which are no kernels."""


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals, each its beginning and its end, in any order."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def busy_iteration(step: Callable[[], object], device: str) -> tuple[float, float] | None:
    """The busy time of an iteration in ms, and its number of kernels: a few calls of `step`.

    The profiler sees the device alone.

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
    return microseconds / 1e3 / ITERATIONS, kernels / ITERATIONS
