"""How a pass is timed: `lab5`, the course's mean of back-to-back calls, and `sampled`.

`sampled` times every call alone until the 95% interval of the median, which allows for dependent
calls, is narrow enough or the time is spent, and keeps every sample in order.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from flashlab.measuring import clocks
from flashlab.statistics import median_interval

BATCH = 10
"""Calls between two looks at the clock."""

MIN_CALLS = 20
"""Fewest calls of a pass, whatever the time spent: twice what any interval here needs."""

ENOUGH_CALLS = 500
"""Fewest calls that end a pass before its time is spent, however narrow the interval is.

Fewer calls cannot show a dependence that lasts for a hundred of them: a state of the clock that
lasts for 100 calls on average is taken for the only one in 82% of passes of 20 calls, in 14% of
passes of 200, and in 1% of passes of 500.
"""

GROWTH = 1.1
"""Factor by which the samples grow between two looks at the interval.

To look more often takes time from the calls, and stops more often by chance.
"""

HEAD_START, MAX_HEAD_START = 8, 512
"""Fewest and most flushes queued before a batch; a launch blocks behind 1,024 others."""

WARM_UP_CALLS = 3
WARM_UP_SECONDS = 0.05

LONG_PASS_SECONDS = 1e-3
"""From where on a pass may meet the power limit, and its clock is given time to settle."""

WINDOW_SECONDS, AGREEING_WINDOWS, SETTLED, MAX_SETTLE_SECONDS = 0.1, 3, 0.01, 0.6
"""It has settled when the medians of so many windows agree within a share, at most after a time."""


@dataclass(frozen=True)
class Timing:
    """One pass as timed: its time in seconds, every sample, and why sampling stopped.

    `clocks` is the state of the GPU meanwhile (`measuring.clocks`), None where it is not known.
    """

    seconds: float
    samples: tuple[float, ...]
    stopped: str
    clocks: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The timing as a metric of a record, in ms."""
        return {
            "unit": "ms",
            "value": self.seconds * 1e3,
            "samples": [seconds * 1e3 for seconds in self.samples],
            "stopped": self.stopped,
        }


def synchronize(device: str) -> None:
    """Wait until the device has done all that was launched on it."""
    if device == "cuda":
        torch.cuda.synchronize()


def _flush_buffer() -> torch.Tensor:
    """A buffer of twice the L2 cache; overwriting it leaves nothing of the inputs in the cache."""
    size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return torch.empty(2 * size, dtype=torch.int8, device="cuda")


class _CudaSampler:
    """Times batches of calls on the GPU, each call launched before the GPU comes to it.

    Where a call runs shorter than it takes to launch, its sample would otherwise hold the GPU's
    wait for the launch. So each batch waits behind as many flushes as keep the GPU busy while the
    CPU launches it.
    """

    def __init__(self, call: Callable[[], Any], calls: int) -> None:
        self._call, self._calls = call, calls
        self._flush, self._head_start = _flush_buffer(), HEAD_START

    def _timed(self) -> tuple[list[float], bool]:
        """Seconds of each call, and whether the GPU was ever there before a call's launch."""
        events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(self._calls)
        ]
        waited = False
        for _ in range(self._head_start):
            self._flush.zero_()
        for start, end in events:
            self._flush.zero_()
            start.record()
            self._call()
            waited |= start.query()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events], waited

    def __call__(self) -> list[float]:
        """One batch; a batch in which the GPU waited is timed again behind twice the flushes."""
        samples, waited = self._timed()
        while waited and self._head_start < MAX_HEAD_START:
            self._head_start *= 2
            samples, waited = self._timed()
        return samples


def _sample_cpu(call: Callable[[], Any], calls: int) -> list[float]:
    samples = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        call()
        samples.append((time.perf_counter_ns() - start) / 1e9)
    return samples


def warm_up(call: Callable[[], Any], device: str) -> None:
    """Call a pass until what its first calls set up is there."""
    begin = time.perf_counter()
    calls = 0
    while calls < WARM_UP_CALLS or time.perf_counter() - begin < WARM_UP_SECONDS:
        call()
        calls += 1
        synchronize(device)  # or the clock would see launches alone, hundreds of them queued


def sampler(call: Callable[[], Any], device: str, calls: int = BATCH) -> Callable[[], list[float]]:
    """What times so many calls of a pass, each alone: their times in seconds, in order."""
    return _CudaSampler(call, calls) if device == "cuda" else partial(_sample_cpu, call, calls)


def settle(sample: Callable[[], list[float]]) -> None:
    """Time a long pass, for nothing, until the GPU's clock has settled.

    A long pass of matrix products meets the power limit, and the clock falls within some tenths of
    a second. It has settled where the last windows agree.
    """
    windows: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < MAX_SETTLE_SECONDS:
        window: list[float] = []
        start = time.perf_counter()
        while time.perf_counter() - start < WINDOW_SECONDS:
            window += sample()
            if window[0] < LONG_PASS_SECONDS:
                return
        windows = [*windows, statistics.median(window)][-AGREEING_WINDOWS:]
        if len(windows) == AGREEING_WINDOWS and max(windows) <= (1 + SETTLED) * min(windows):
            return


def sampled(
    call: Callable[[], Any], protocol: Mapping[str, Any], device: str, settled: bool = True
) -> Timing:
    """Time `call` by the `sampled` protocol.

    Args:
        call: the pass, without synchronisation of its own.
        protocol: ``relative_interval``, the half-width of the median's 95% interval to reach as a
            share of it, and ``max_seconds``, after which to stop in any case.
        device: ``cuda`` (CUDA events, L2 flushed before each call, every call launched before the
            GPU comes to it) or ``cpu`` (perf_counter_ns).
        settled: whether a long pass is timed only after the GPU's clock has settled.

    Returns:
        The median, with at least `MIN_CALLS` samples whatever the time spent. It stopped at the
        ``interval`` where that was reached, by the end of the time at the latest.
    """
    warm_up(call, device)
    sample = sampler(call, device)
    if device == "cuda" and settled:
        settle(sample)
    watch = clocks.Watch(device)
    samples: list[float] = []
    relative_interval = protocol["relative_interval"]
    next_look: float = ENOUGH_CALLS
    begin = time.perf_counter()
    while True:
        samples += sample()
        watch.look()
        is_spent = time.perf_counter() - begin >= protocol["max_seconds"]
        if len(samples) < (MIN_CALLS if is_spent else next_look):
            continue
        interval = median_interval(samples)
        is_reached = interval.relative_half_width <= relative_interval
        if is_spent or is_reached:
            stopped = "interval" if is_reached else "time"
            return Timing(interval.median, tuple(samples), stopped, watch.seen())
        next_look = GROWTH * len(samples)


def lab5(call: Callable[[], Any], protocol: Mapping[str, Any], device: str) -> Timing:
    """Time `call` as the course's script does: the mean of ``repeats`` back-to-back calls.

    max(2, repeats // 100) warm-up calls, then the calls between two synchronisations.
    """
    repeats = protocol["repeats"]
    for _ in range(max(2, repeats // 100)):
        call()
    synchronize(device)
    begin = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    synchronize(device)
    return Timing((time.perf_counter_ns() - begin) / 1e9 / repeats, (), "count")


PROTOCOLS = {"sampled": sampled, "lab5": lab5}
