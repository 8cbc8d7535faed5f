"""A device's measured ceilings, by state: initial first, and sustained where the rate fell.

A GPU at its power limit slows down some calls after the load begins, often in several steps.
Such a ceiling is no one number: initial are the calls before the first step, sustained those
after the one that explains most; a run may have been measured in either state or in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from flashlab.analysis.ratios import ratio
from flashlab.statistics import MIN_SAMPLES, Estimate, estimate_median

COPY = "copy"

STEP = 0.45
"""Largest share of the deviations from the median that remains about two medians, one before and
one after a step. About a half remains of a steady drift, which has no states."""

JUMP = 0.5
"""Least share of the change between the medians before and after a step that happens from
`MIN_SAMPLES` samples to the next ones. A steady drift of many samples changes little in so few."""

BEYOND = {"cuda": 1.15, "cpu": 1.5}
"""Above which share of the measured matrix-product rate a rate is implausible, by kind of device.

A ceiling is a measurement too: beside other load it comes out low. On a machine shared with others
FlashAttention, honestly timed, reached 1.14 of it; a CPU is shared more often than a GPU."""

JUDGED_BY_JUMP = 10 * MIN_SAMPLES
"""From how many samples on that tells a step from a drift."""


def is_implausible(share: float, device: str) -> bool:
    """True if a rate, as a share of the measured ceiling, is more than the device can do."""
    return share > BEYOND[device]


@dataclass(frozen=True)
class Ceiling:
    """The best that a device was measured to do: the work of a call, and its time in ms.

    Attributes:
        work: operations of a matrix product, or bytes of a copy.
        time: of a call, before the rate first fell where it fell.
        sustained: of a call after the rate fell most; None where it did not fall.
    """

    work: float
    time: Estimate
    sustained: Estimate | None = None

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.time.median * 1e3

    @property
    def sustained_rate(self) -> float | None:
        """Work a second after the rate fell."""
        return self.work / self.sustained.median * 1e3 if self.sustained else None


@dataclass(frozen=True)
class Ceilings:
    """A device's ceilings: the matrix product of each dtype, and a large copy."""

    device_name: str | None
    matrix: Mapping[str, Ceiling]
    copy: Ceiling


def _median(samples: np.ndarray[Any, Any]) -> float:
    """As numpy's, which takes four times as long for so few: steps need hundreds of them."""
    half = len(samples) // 2
    if len(samples) % 2:
        return float(np.partition(samples, half)[half])
    ends = np.partition(samples, (half - 1, half))
    return float((ends[half - 1] + ends[half]) / 2)


def _deviation(samples: np.ndarray[Any, Any], median: float) -> float:
    return float(np.abs(samples - median).sum())


def find_step(samples: Sequence[float], on_gpu: bool) -> int | None:
    """The first sample after the one step that describes these best; None where none does.

    A GPU that goes on for long after its clocks fell drifts there more than one step explains; then
    the step is where the time changes at once by most of what it changes in all. On a CPU other
    processes change the time in this way too.
    """
    values = np.log(np.asarray(samples, dtype=float))
    splits = range(MIN_SAMPLES, len(values) - MIN_SAMPLES + 1)
    halves = {k: (_median(values[:k]), _median(values[k:])) for k in splits}
    remaining = {
        k: _deviation(values[:k], before) + _deviation(values[k:], after)
        for k, (before, after) in halves.items()
    }
    if not remaining:
        return None
    best = min(remaining, key=lambda k: remaining[k])
    if remaining[best] <= STEP * _deviation(values, _median(values)):
        return best
    if not on_gpu or len(values) < JUDGED_BY_JUMP:
        return None
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, MIN_SAMPLES), axis=1)
    changes = {}
    for k, (before, after) in halves.items():
        change = after - before
        jump = float(medians[k] - medians[k - MIN_SAMPLES])
        if jump * change >= JUMP * change**2:
            changes[k] = abs(change)
    return max(changes, key=lambda k: changes[k], default=None)


def _falls(samples: Sequence[float], on_gpu: bool) -> Iterator[tuple[Estimate, Estimate]]:
    """The times before and after the fall that explains most, then before that, until none is."""
    while step := find_step(samples, on_gpu):
        first, rest = estimate_median(samples[:step]), estimate_median(samples[step:])
        if ratio(0, rest, first).verdict != "above":
            return
        yield first, rest
        samples = samples[:step]


def _ceiling(found: Mapping[str, Any], work: float, on_gpu: bool) -> Ceiling:
    seconds = found["samples"] or [found["time(s)"]]
    return _ceiling_of(tuple([each * 1e3 for each in seconds]), work, on_gpu)


@lru_cache  # each experiment's figures ask for all of them
def _ceiling_of(samples: tuple[float, ...], work: float, on_gpu: bool) -> Ceiling:
    if falls := list(_falls(samples, on_gpu)):
        return Ceiling(work, falls[-1][0], falls[0][1])
    return Ceiling(work, estimate_median(samples))


def read_ceilings(document: Mapping[str, Any]) -> Ceilings:
    """The ceilings of a record by ``flashlab.measuring.ceilings``."""
    on_gpu = document["device"] == "cuda"
    products = {
        dtype: _ceiling(found, 2.0 * found["size"] ** 3, on_gpu)
        for dtype, found in document["matrix_product"].items()
    }
    copied = _ceiling(document[COPY], 2.0 * document[COPY]["bytes"], on_gpu)
    return Ceilings(document["environment"].get("device_name"), products, copied)
