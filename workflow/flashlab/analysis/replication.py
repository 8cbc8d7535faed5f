"""A run measured in several processes: one estimate from those of its processes.

Processes of identical code differ by more than their calls tell: memory is laid out differently,
clocks settle elsewhere. So the interval is a t interval on the logarithms of the processes'
medians, and what the calls tell only bounds it from below.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special

from flashlab.statistics import DRAWS, Estimate, Floats, function_estimate

UNEQUAL_LEVEL = 0.05
"""Level of the tests for runs of one kind whose processes scatter unequally.

At 10% the intervals of runs that do are better by a point or two, but of the differences of twice
the margin 17% are missed rather than 9% (three processes that differ by 1.2%).
"""


LARGEST_FACTOR = 1e6
"""Farthest that a distribution reaches from its value: of two processes it has no bounds."""


@dataclass(frozen=True)
class Spread:
    """Between processes: the standard deviation of the logarithm of a median, and its freedom.

    `freedom` is the number of degrees of freedom.
    """

    deviation: float
    freedom: float


@dataclass(frozen=True)
class Replicated:
    """What is known of a run from all of its processes.

    `spread` is that between processes by which the interval was computed; None where no run of the
    kind was measured in several.
    """

    estimate: Estimate
    processes: int
    spread: Spread | None


@dataclass(frozen=True)
class _Variances:
    """The variance between processes of each run of a kind that has several, by its position."""

    own: dict[int, Spread]

    @property
    def pooled(self) -> Spread:
        """That of all runs together."""
        freedom = sum(spread.freedom for spread in self.own.values())
        squares = sum(spread.freedom * spread.deviation**2 for spread in self.own.values())
        return Spread(math.sqrt(squares / freedom), freedom)

    def without(self, run: int) -> _Variances:
        """Those of all other runs."""
        return _Variances({key: spread for key, spread in self.own.items() if key != run})

    @property
    def are_unequal(self) -> bool:
        """Whether the runs scatter unequally, by Bartlett's test.

        A run whose processes agree to the last digit, as a coarse clock makes them, says nothing.
        """
        known = [spread for spread in self.own.values() if spread.deviation > 0]
        if len(known) < 2:
            return False
        pooled = _Variances(dict(enumerate(known))).pooled
        logs = sum(s.freedom * math.log(s.deviation / pooled.deviation) for s in known)
        inverses = sum(1 / s.freedom for s in known) - 1 / pooled.freedom
        statistic = -2 * logs / (1 + inverses / (3 * (len(known) - 1)))
        return bool(scipy.special.chdtrc(len(known) - 1, statistic) < UNEQUAL_LEVEL)

    def is_greater(self, run: int) -> bool:
        """Whether a run scatters more than all others, by an F test."""
        others = self.without(run)
        if not others.own:
            return False
        own, pooled = self.own[run], others.pooled
        if not pooled.deviation:
            return own.deviation > 0
        ratio = (own.deviation / pooled.deviation) ** 2
        return bool(scipy.special.fdtrc(own.freedom, pooled.freedom, ratio) < UNEQUAL_LEVEL)

    def spread_of(self, run: int) -> Spread:
        """By what to judge a run: the pooled spread, or its own where runs scatter unequally.

        A run of one process has none of its own: then the largest of the kind.
        """
        if not self.are_unequal:
            return self.own[run] if run in self.own and self.is_greater(run) else self.pooled
        if run not in self.own:
            return max(self.own.values(), key=lambda spread: spread.deviation)
        return self.own[run] if self.own[run].deviation else self.pooled


def _variances(logs: Sequence[Floats]) -> _Variances:
    return _Variances(
        {
            position: Spread(float(np.std(medians, ddof=1)), len(medians) - 1)
            for position, medians in enumerate(logs)
            if len(medians) > 1
        }
    )


@functools.lru_cache(maxsize=256)
def _t_quantiles(freedom: float) -> Floats:
    levels = np.arange(1, DRAWS + 1) / (DRAWS + 1)
    return np.asarray(scipy.special.stdtrit(freedom, levels), dtype=np.float64)


def _geometric_mean(*medians: Floats) -> Floats:
    mean: Floats = np.exp(sum(map(np.log, medians)) / len(medians))
    return mean


def combine_with_spread(processes: Sequence[Estimate], spread: Spread | None) -> Estimate:
    """One estimate of several processes of a run, from the spread between processes.

    That of the only process where no spread is known. See `combine_processes`.
    """
    if len(processes) == 1 and spread is None:
        return processes[0]
    medians: Floats = np.log([process.median for process in processes])
    count = sum(process.count for process in processes)
    centre = float(medians.mean())
    within = function_estimate(_geometric_mean, processes).quantiles
    if within is None or spread is None:
        return Estimate(math.exp(centre), count, None)
    own = np.log(within)
    error = spread.deviation / math.sqrt(len(processes))
    farthest = math.log(LARGEST_FACTOR)
    between = np.clip(_t_quantiles(spread.freedom) * error, -farthest, farthest) + centre
    low = np.arange(DRAWS) < DRAWS // 2
    quantiles = np.where(low, np.minimum(own, between), np.maximum(own, between))
    return Estimate(math.exp(centre), count, np.exp(quantiles))


def combine_processes(
    kind: Sequence[Sequence[Estimate]], unreplicated: Spread | None = None
) -> list[Replicated]:
    """The estimate of each run of a kind from those of its processes, by one quantity above 0.

    The value is the geometric mean of the processes' medians. Its distribution is that of Student's
    t on their logarithms, by the variance between processes, and nowhere narrower than what the
    calls within each process tell of that mean.

    The variance is pooled over the runs of the kind, unless they scatter unequally: each run's own
    counts if Bartlett's test says so of the kind, or an F test of that run (`UNEQUAL_LEVEL`). A run
    of one process is judged by the spread of its kind, if any is known.

    Args:
        kind: the processes of each run, at least one, in any order.
        unreplicated: the spread to assume where no run of the kind has several processes.

    Returns:
        An estimate for each run, without an interval where a process has none.
    """
    logs: list[Floats] = [np.log([process.median for process in run]) for run in kind]
    variances = _variances(logs)
    found = []
    for position, processes in enumerate(kind):
        spread = variances.spread_of(position) if variances.own else unreplicated
        found.append(Replicated(combine_with_spread(processes, spread), len(processes), spread))
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of values above 0; exactly the value where there is one alone."""
    return values[0] if len(values) == 1 else math.exp(float(np.log(values).mean()))
