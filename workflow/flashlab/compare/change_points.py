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

import numpy as np
import scipy.special

from flashlab import statistics
from flashlab.compare.rule import Ratio
from flashlab.statistics import Floats

LEAST_SEGMENT = 3
"""Fewest commits between two changes: one or two may have been measured on a disturbed machine. So
a change is stated once three commits have it."""

WINDOW = 60
"""Most commits that are looked at on either side of a change: a slow drift adds up to no step."""


def _energies(values: Floats) -> Floats:
    """E-divisive's statistic for a split before each position of a series; 0 where none may be.

    It is m n / (m + n) times the energy distance of the m values before and the n from there on:
    twice the mean distance between the two parts, less the mean distance within each.
    """
    distances = np.abs(values[:, None] - values[None, :]).cumsum(axis=0).cumsum(axis=1)
    at = np.arange(LEAST_SEGMENT, len(values) - LEAST_SEGMENT + 1)
    m, n = at, len(values) - at
    within_first = distances[at - 1, at - 1]
    between = distances[at - 1, -1] - within_first
    within_second = distances[-1, -1] - within_first - 2 * between
    energy = 2 * between / (m * n) - within_first / (m * (m - 1)) - within_second / (n * (n - 1))
    energies: Floats = np.zeros(len(values))
    energies[at] = energy * m * n / (m + n)
    return energies


def _difference(before: Floats, after: Floats) -> tuple[float, float]:
    """The difference of two means, and the half-width of its 95% interval, by a pooled t test."""
    m, n = len(before), len(after)
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    error = math.sqrt(squares / (m + n - 2) * (1 / m + 1 / n))
    quantile = float(scipy.special.stdtrit(m + n - 2, (1 + statistics.CONFIDENCE) / 2))
    return float(after.mean() - before.mean()), quantile * error


def _splits(logs: Floats, begin: int, end: int) -> list[int]:
    """Positions at which a series between two bounds is split, in order.

    The evidence is weak: that the 95% interval of the difference leaves out zero.
    """
    values = logs[begin:end]
    if len(values) < 2 * LEAST_SEGMENT:
        return []
    energies = _energies(values)
    at = int(np.argmax(energies))
    if energies[at] <= 0:
        return []
    difference, half = _difference(values[:at], values[at:])
    if abs(difference) <= half:
        return []
    middle = begin + at
    return [*_splits(logs, begin, middle), middle, *_splits(logs, middle, end)]


def _judge(logs: Floats, begin: int, at: int, end: int) -> tuple[float, Ratio]:
    """The ratio of the levels on both sides of a position, as far as the window reaches.

    With it, by how much it is beyond the margin, in its logarithm: by the near end of its interval,
    or by the ratio of the medians if that is nearer. One disturbed commit among three does not move
    the medians.
    """
    before, after = logs[max(begin, at - WINDOW) : at], logs[at : min(end, at + WINDOW)]
    difference, half = _difference(before, after)
    medians = float(np.median(after) - np.median(before))
    beyond = max(min(difference - half, medians), min(-difference - half, -medians))
    low, middle, high = (math.exp(difference + x) for x in (-half, 0, half))
    return beyond - math.log1p(statistics.MARGIN), Ratio(middle, low, high)


def find_changes(values: Sequence[float]) -> list[tuple[int, Ratio]]:
    """The changes in a series of values above 0, in order.

    Each is the position from which on the series is another one, with the ratio of the new level to
    the old. It is beyond the margin with its whole interval, and has `LEAST_SEGMENT` values or more
    on either side. A series of fewer than twice as many has none.
    """
    logs: Floats = np.log(np.asarray(values, dtype=float))
    positions = _splits(logs, 0, len(logs))
    while positions:
        bounds = [0, *positions, len(logs)]
        judged = [_judge(logs, *bounds[i : i + 3]) for i in range(len(positions))]
        weakest = min(range(len(positions)), key=lambda i: judged[i][0])
        if judged[weakest][0] > 0:
            return [(at, ratio) for at, (_, ratio) in zip(positions, judged, strict=True)]
        del positions[weakest]
    return []
