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

from flashlab.statistics import CONFIDENCE, DRAWS, Estimate, Floats, function_estimate

GREATER_LEVEL = 0.05
"""Level of the F test by which a run scatters more than the others of its kind."""

ODD_LEVEL = 1e-6
"""Level of the same test by which a run says nothing about the others: one of its processes was
disturbed, say. Ordinary runs are never so odd, so the pool stays unbiased."""

MEAN_COUNT = 0
"""The samples of a mean of many calls: how they scatter is not known, but it has averaged that out,
so that the spread between processes alone decides."""

LARGEST_FACTOR = 1e6
"""Farthest that a distribution reaches from its value: of two processes it has no bounds."""


@dataclass(frozen=True)
class Spread:
    """Between processes: the standard deviation of the logarithm of a median, and its freedom.

    `freedom` is the number of degrees of freedom.
    """

    deviation: float
    freedom: float


UNREPLICATED = Spread(deviation=0.02, freedom=20)
"""What is assumed of a run of one process, where no run at all was measured in several.

So did two recordings of identical code on different days differ, in 226 comparisons, which count as
fewer since they share the days and the implementations. By it the interval of a ratio spans ±6%:
single processes never show that two are equal, nor a difference of less than 11%."""


@dataclass(frozen=True)
class Replicated:
    """What is known of a run from all of its processes.

    `spread` is that between processes by which the interval was computed; None where no run of the
    kind was measured in several.
    """

    estimate: Estimate
    processes: int
    spread: Spread | None


def _spreads(logs: Sequence[Floats]) -> list[Spread | None]:
    """By what to judge each run of a kind: the pooled spread, or its own where that is greater.

    Its own is where it exceeds that of all others by an F test (`GREATER_LEVEL`); one that does so
    beyond doubt (`ODD_LEVEL`) is not pooled. One that is smaller may be so by chance, as of
    processes that go between two states. None where no run has several processes.
    """
    own = {
        position: _own_spread(medians) for position, medians in enumerate(logs) if len(medians) > 1
    }
    if not own:
        return [None] * len(logs)

    def chance(run: Spread) -> float:
        """The probability of so great a spread, were it that of all others."""
        others = _pooled([spread for spread in own.values() if spread is not run])
        if others is None or not others.deviation:
            return float(others is None or not run.deviation)
        ratio = (run.deviation / others.deviation) ** 2
        return float(scipy.special.fdtrc(run.freedom, others.freedom, ratio))

    chances = {position: chance(run) for position, run in own.items()}
    usual = [own[position] for position, each in chances.items() if each >= ODD_LEVEL]
    pooled = _pooled(usual or list(own.values()))
    greater = {position for position, each in chances.items() if each < GREATER_LEVEL}
    return [own[i] if i in greater else pooled for i in range(len(logs))]


def _own_spread(medians: Floats) -> Spread:
    """The spread of one run, by the logarithms of the medians of at least two processes."""
    return Spread(float(np.std(medians, ddof=1)), len(medians) - 1)


def _pooled(spreads: Sequence[Spread]) -> Spread | None:
    """The spread of several runs together; None of none."""
    freedom = sum(spread.freedom for spread in spreads)
    squares = math.fsum(spread.freedom * spread.deviation**2 for spread in spreads)
    return Spread(math.sqrt(squares / freedom), freedom) if freedom else None


def shared_spread(runs: Sequence[Sequence[Estimate]]) -> Spread | None:
    """The spread between processes of runs of any kinds, pooled; None where each has but one."""
    logs = [np.log([process.median for process in run]) for run in runs if len(run) > 1]
    return _pooled([_own_spread(medians) for medians in logs])


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
    if spread is None or (within is None and len(processes) == 1 and count != MEAN_COUNT):
        return Estimate(math.exp(centre), count, None)
    error = spread.deviation / math.sqrt(len(processes))
    farthest = math.log(LARGEST_FACTOR)
    between = np.clip(_t_quantiles(spread.freedom) * error, -farthest, farthest) + centre
    if within is None:  # too few calls to tell anything, as of a program that is run once or twice
        return Estimate(math.exp(centre), count, np.exp(between))
    own = np.log(within)
    low = np.arange(DRAWS) < DRAWS // 2
    quantiles = np.where(low, np.minimum(own, between), np.maximum(own, between))
    return Estimate(math.exp(centre), count, np.exp(quantiles))


def combine_processes(
    kind: Sequence[Sequence[Estimate]], unreplicated: Spread | None = None
) -> list[Replicated]:
    """The estimate of each run of a kind from those of its processes, by one quantity above 0.

    The value is the geometric mean of the processes' medians. Its distribution is that of Student's
    t on their logarithms, by the variance between processes, and nowhere narrower than what the
    calls within each process tell of that mean, where there are enough of them.

    The variance is pooled over the runs of the kind, but a run that scatters more than the others
    has its own. A run of one process is judged by the spread of its kind, if any is known.

    Args:
        kind: the processes of each run, at least one, in any order.
        unreplicated: the spread to assume where no run of the kind has several processes.

    Returns:
        An estimate for each run, without an interval where its only process has none.
    """
    logs: list[Floats] = [np.log([process.median for process in run]) for run in kind]
    found = []
    for processes, known in zip(kind, _spreads(logs), strict=True):
        spread = known or unreplicated
        found.append(Replicated(combine_with_spread(processes, spread), len(processes), spread))
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of values above 0; exactly the value where there is one alone."""
    return values[0] if len(values) == 1 else math.exp(float(np.log(values).mean()))


def interval_of(estimate: Estimate, error: float = 1 - CONFIDENCE) -> tuple[float, float] | None:
    """Its interval, which misses the truth with a probability of `error`; None for few samples."""
    if estimate.quantiles is None:
        return None
    outside = round((DRAWS + 1) * error / 2)  # on either side
    return float(estimate.quantiles[outside - 1]), float(estimate.quantiles[-outside])
