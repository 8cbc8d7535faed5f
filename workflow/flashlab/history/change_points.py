"""Change points by E-divisive means, stated by the ±5% rule.

E-divisive (Matteson and James, 2014) splits a series where the energy distance between both parts
is greatest, and splits the parts again. MongoDB and Hunter watch their benchmarks with it. As in
Hunter (Fleming and others, 2023), splits are first made on weak evidence, so that a second change
does not hide the first, and those that prove nothing are taken back one by one. What proves a
change is the rule that all findings here obey: the interval of the ratio between its two sides must
lie wholly beyond the margin, and so must the ratio of the medians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special

from flashlab import statistics
from flashlab.statistics import Floats

LEAST_SEGMENT = 3
"""Fewest commits between two changes: one or two may have been measured on a disturbed machine. So
a change is stated once three commits have it."""

WEAK_LEVEL = 0.05
"""Level of the t test by which a split is made at first."""

WINDOW = 60
"""Most commits that are looked at on either side of a change: a slow drift adds up to no step."""


@dataclass(frozen=True)
class Change:
    """A change point: the series is another one from position `at` on.

    `ratio` is the new level over the old one, with its interval; `of_medians` that of the medians,
    which one disturbed commit among three does not move.
    """

    at: int
    ratio: float
    low: float
    high: float
    of_medians: float


def _energies(values: Floats) -> Floats:
    """E-divisive's statistic for a split before each position of a series; 0 where none may be.

    It is m n / (m + n) times the energy distance of the m values before and the n from there on:
    twice the mean distance between the two parts, less the mean distance within each.
    """
    count = len(values)
    distances = np.abs(values[:, None] - values[None, :])
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    found: Floats = np.zeros(count)
    for at in range(LEAST_SEGMENT, count - LEAST_SEGMENT + 1):
        m, n = at, count - at
        within_first, whole = sums[at, at], sums[count, count]
        between = sums[at, count] - within_first
        within_second = whole - within_first - 2 * between
        energy = (
            2 * between / (m * n)
            - within_first / max(m * (m - 1), 1)
            - within_second / max(n * (n - 1), 1)
        )
        found[at] = energy * m * n / (m + n)
    return found


def _difference(before: Floats, after: Floats) -> tuple[float, float, int]:
    """The difference of two means, its standard error and the degrees of freedom, pooled."""
    m, n = len(before), len(after)
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    freedom = m + n - 2
    error = math.sqrt(squares / freedom * (1 / m + 1 / n))
    return float(after.mean() - before.mean()), error, freedom


def _is_likely(before: Floats, after: Floats) -> bool:
    difference, error, freedom = _difference(before, after)
    if error == 0:
        return difference != 0
    return bool(2 * scipy.special.stdtr(freedom, -abs(difference) / error) < WEAK_LEVEL)


def _splits(logs: Floats, begin: int, end: int) -> list[int]:
    """Positions at which a series between two bounds is split, on weak evidence, in order."""
    values = logs[begin:end]
    if len(values) < 2 * LEAST_SEGMENT:
        return []
    energies = _energies(values)
    at = int(np.argmax(energies))
    if energies[at] <= 0 or not _is_likely(values[:at], values[at:]):
        return []
    middle = begin + at
    return [*_splits(logs, begin, middle), middle, *_splits(logs, middle, end)]


def _change(logs: Floats, bounds: Sequence[int], position: int) -> Change:
    """The change at a bound, from the segments on both sides as far as the window reaches."""
    at = bounds[position]
    before = logs[max(bounds[position - 1], at - WINDOW) : at]
    after = logs[at : min(bounds[position + 1], at + WINDOW)]
    difference, error, freedom = _difference(before, after)
    half = float(scipy.special.stdtrit(freedom, (1 + statistics.CONFIDENCE) / 2)) * error
    low, middle, high = (math.exp(x) for x in (difference - half, difference, difference + half))
    of_medians = math.exp(float(np.median(after) - np.median(before)))
    return Change(at, middle, low, high, of_medians)


def _evidence(change: Change) -> float:
    """By how much a change is beyond the margin, in its logarithm.

    That is the near end of its interval, or the medians if they are nearer.
    """
    medians = math.log(change.of_medians)
    up, down = min(math.log(change.low), medians), min(-math.log(change.high), -medians)
    return max(up, down) - math.log1p(statistics.MARGIN)


def find_changes(values: Sequence[float]) -> list[Change]:
    """The changes in a series of values above 0, in order.

    Each is beyond the margin with its whole interval, and has `LEAST_SEGMENT` values or more on
    either side. A series of fewer than twice as many has none.
    """
    logs: Floats = np.log(np.asarray(values, dtype=float))
    bounds = [0, *_splits(logs, 0, len(logs)), len(logs)]
    while len(bounds) > 2:
        changes = [_change(logs, bounds, i) for i in range(1, len(bounds) - 1)]
        weakest = min(changes, key=_evidence)
        if _evidence(weakest) > 0:
            return changes
        bounds.remove(weakest.at)
    return []
