"""The energy of a pass on a GPU, from the counter that its driver keeps of the whole board (NVML).

The counter moves in steps, some tens of milliseconds apart. So calls follow one another without a
pause, and only the spans between two moments at which it was seen to move are counted: what is
uncertain is then the time since it moved, at most the few milliseconds of a batch of calls, and not
the counter's own step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from flashlab import machine
from flashlab.measuring.clocks import gpu_uuid
from flashlab.measuring.protocols import Pass, synchronize, warm_up

BATCH_SECONDS = 0.002
"""Approximate seconds of calls between two readings of the counter."""

SETTLE_SECONDS = 0.5
"""Seconds that the calls run before energy counts: the counter follows the power with a delay."""

SPAN_SECONDS = 0.1
"""Least span of a sample, in seconds."""


class Reading(NamedTuple):
    """A step of the counter: its time (s), its new value (J), and the calls so far."""

    seconds: float
    joules: float
    calls: int


def spans(readings: Sequence[Reading]) -> dict[str, Any] | None:
    """The energy of a call in J, as a metric of a record; None where there is no whole span."""
    ends = list(readings[:1])
    for reading in readings[1:]:
        is_long = reading.seconds - ends[-1].seconds >= SPAN_SECONDS
        if is_long and reading.calls > ends[-1].calls and reading.joules > ends[-1].joules:
            ends.append(reading)
    if len(ends) < 2:
        return None
    samples = [(b.joules - a.joules) / (b.calls - a.calls) for a, b in pairwise(ends)]
    return {"unit": "J", "value": median(samples), "samples": samples, "stopped": "time"}


def consumed() -> float | None:
    """The GPU's energy since its driver was loaded, in J; None where nothing counts it."""
    pynvml = machine.nvml()
    if pynvml is None:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid())
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)
    except pynvml.NVMLError:
        return None


def measure_energy(timed: Pass, seconds: float) -> dict[str, Any] | None:
    """The energy of a call of a pass (`spans`), run back to back for about so many seconds.

    L2 is not flushed between the calls, as a buffer's overwriting takes energy too. None where the
    GPU has no such counter.
    """
    joules = consumed()
    if joules is None:
        return None
    warm_up(timed, "cuda")
    begin = perf_counter()
    timed.run()
    synchronize("cuda")
    batch = max(1, int(BATCH_SECONDS / max(perf_counter() - begin, 1e-7)))
    readings: list[Reading] = []
    calls, begin, elapsed = 0, perf_counter(), 0.0
    while elapsed < SETTLE_SECONDS + seconds:
        for _ in range(batch):
            timed.run()
        synchronize("cuda")
        calls += batch
        before, joules = joules, consumed() or 0.0
        elapsed = perf_counter() - begin
        if joules != before and elapsed >= SETTLE_SECONDS:
            readings.append(Reading(elapsed, joules, calls))
    return spans(readings)
