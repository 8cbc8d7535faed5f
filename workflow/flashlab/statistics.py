"""Medians and what is computed from them, with 95% intervals by the methods of scipy.

With 5% of samples 20% slow, a nominal 95% interval of the mean holds the truth in 68 to 83% of
cases, the median's in 95 to 96%: so there is no mean here.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats

Floats = npt.NDArray[np.float64]

MIN_SAMPLES = 10
"""Fewest samples that the measuring takes."""

MIN_INTERVAL_SAMPLES = 5
"""Fewest samples for which any interval is given."""

CONFIDENCE = 0.95

MARGIN = 0.05
"""A difference counts only where the interval of the ratio lies wholly beyond this; wholly within
it is an equivalence. (On identical code that drifts by 1%, "the interval excludes 1" is wrong half
the time.)"""

RESAMPLES = 999


@dataclass(frozen=True)
class Interval:
    """A median and its 95% interval, in the samples' unit; None for few samples."""

    median: float
    low: float | None
    high: float | None

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the median; infinite where there is no interval."""
        if self.low is None or self.high is None:
            return float("inf")
        return (self.high - self.low) / 2 / self.median


@functools.lru_cache(maxsize=4096)
def _interval_ranks(count: int) -> tuple[int, int] | None:
    """0-based ranks of the order statistics that bound the median of `count` samples.

    They are read off scipy's quantile_test, whose interval depends on the count alone; None where
    no pair of order statistics has the confidence.
    """
    ranks = np.arange(count, dtype=float)
    interval: Any = scipy.stats.quantile_test(ranks, q=0, p=0.5).confidence_interval(CONFIDENCE)
    if not (np.isfinite(interval.low) and np.isfinite(interval.high)):
        return None
    return int(interval.low), int(interval.high)


def median_interval(samples: Sequence[float]) -> Interval:
    """The median with its 95% interval from order statistics, whatever the distribution."""
    ordered = np.sort(np.asarray(samples, dtype=float))
    ranks = _interval_ranks(len(ordered)) if len(ordered) >= MIN_INTERVAL_SAMPLES else None
    low, high = (ordered[ranks[0]], ordered[ranks[1]]) if ranks else (None, None)
    return Interval(
        float(np.median(ordered)), *(None if x is None else float(x) for x in (low, high))
    )


@dataclass(frozen=True)
class Estimate:
    """The median of a sample, and how it varies: what intervals of its functions are read off.

    `resampled` holds the medians of `RESAMPLES` bootstrap resamples, None for a sample that is too
    small. A function of independent medians has the function of their resampled medians as its
    bootstrap distribution: the resampling is done once a sample, however many ratios it enters.
    """

    median: float
    count: int
    resampled: Floats | None


def _median(values: Floats, axis: int = -1) -> Floats:
    """np.median of the last axis, in a fraction of its time for the many short rows here.

    np.median partitions each row three times, once for the sake of NaN; sorting is vectorised.
    """
    ordered = np.sort(values, axis=axis)
    count = values.shape[-1]
    middle: Floats = (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2
    return middle


def resampled_median(samples: Sequence[float], seed: str) -> Estimate:
    """The median with its bootstrap distribution (scipy.stats.bootstrap).

    Samples that meet in one function need different seeds, or they would vary together; the same
    sample and seed give the same resamples.
    """
    values = np.asarray(samples, dtype=float)
    if len(values) < MIN_SAMPLES:
        return Estimate(float(np.median(values)), len(values), None)
    resample: Any = scipy.stats.bootstrap
    digest = hashlib.sha256(seed.encode()).digest()
    result = resample(
        [values],
        _median,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        random_state=np.random.default_rng(int.from_bytes(digest[:8], "big")),
    )
    return Estimate(float(np.median(values)), len(values), result.bootstrap_distribution)


def function_interval(
    function: Callable[..., Floats], estimates: Sequence[Estimate]
) -> tuple[float, float] | None:
    """95% percentile-bootstrap interval of a function of independent medians.

    `function` takes one array of resampled medians an estimate, and works element by element. None
    where one of the samples is too small.
    """
    resampled = [estimate.resampled for estimate in estimates]
    if any(distribution is None for distribution in resampled):
        return None
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(function(*resampled), [outside, 1 - outside])
    return float(low), float(high)
