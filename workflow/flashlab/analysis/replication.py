"""A run measured in several processes: one estimate from those of its processes.

Processes of identical code differ by more than their calls tell: memory is laid out differently,
clocks settle elsewhere. So the interval is a t interval on the logarithms of the processes'
medians, and what the calls tell only bounds it from below. Where most processes agree and others
are far off, the value is what those agree on: a mean with one that was disturbed is no process's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.special

from flashlab.statistics import DRAWS, MARGIN, WITHIN_TICK, Estimate, Floats, function_estimate

GREATER_LEVEL = 0.05
"""Level of the F test by which a run scatters more than the others of its kind."""

ODD_LEVEL = 1e-6
"""Level of the same test by which a run says nothing about the others: one of its processes was
disturbed, say. Ordinary runs are never so odd, so the pool stays unbiased. Of two processes none is
odd: of two states, both may have had the same one in all runs but it."""

MEAN_COUNT = 0
"""The samples of a mean of many calls: how they scatter is not known, but it has averaged that out,
so that the spread between processes alone decides."""

LARGEST_FACTOR = 1e6
"""Farthest that a distribution reaches from its value."""

MIN_PROCESSES, MIN_FREEDOM = 3, 3
"""A spread is known from a run of so many processes, or from several runs that have together so
many more processes than runs. By two processes alone, with one degree of freedom, the interval of a
speed-up of 1.41 was one of 0.009 to 216."""

FAR_APART = 16
"""Least distance of two groups of processes, over the standard deviation within them. Of three
normal processes two agree so by chance in 14% of runs, of four and five in 2 and 1%."""


MOST_LOADED = 1 / 8
"""Share of a kind's processes that a load may have slowed: where more are apart from the others of
their run, it is how processes of this code are, in two states."""


@dataclass(frozen=True)
class Spread:
    """Between processes: the standard deviation of the logarithm of a median, and its freedom.

    `freedom` is the number of degrees of freedom.
    """

    deviation: float
    freedom: float


UNREPLICATED = Spread(deviation=0.03, freedom=1e6)
"""The spread assumed between processes where too few were measured (`tells_spread`).

By it, single processes never show that two runs are equal, nor a difference of less than 14%.
Recordings of identical code on two days differed by about 2%; between two H200s some
implementations differed by up to 11%."""


@dataclass(frozen=True)
class Replicated:
    """The estimate of a run from its processes, and their number.

    `spread` is that between processes by which the interval was computed; None where no run of the
    kind was measured in several. `kept` are the positions of the processes that it is from.
    """

    estimate: Estimate
    processes: int
    spread: Spread | None
    kept: Sequence[int] = ()


def tells_spread(processes: Iterable[int]) -> bool:
    """True if runs with these numbers of processes suffice to estimate the spread between them."""
    counts = [count for count in processes if count > 1]
    several = max(counts, default=0) >= MIN_PROCESSES
    return several or sum(count - 1 for count in counts) >= MIN_FREEDOM


def _groups(medians: Sequence[float]) -> tuple[list[int], list[int]] | None:
    """The positions of two groups of processes, the smaller first; None where there are no two.

    They are apart by more than the margin, and far (`FAR_APART`) by the scatter within both.
    """
    if len(medians) < MIN_PROCESSES or min(medians) <= 0:
        return None
    logs = np.log(medians)
    order = np.argsort(logs)
    gaps = np.diff(logs[order])
    split = int(np.argmax(gaps)) + 1
    lower, upper = order[:split], order[split:]
    within = sum(((logs[part] - logs[part].mean()) ** 2).sum() for part in (lower, upper))
    scatter = math.sqrt(within / (len(logs) - 2))
    if gaps[split - 1] <= max(math.log1p(MARGIN), FAR_APART * scatter):
        return None
    fewer, more = sorted((lower.tolist(), upper.tolist()), key=len)
    return fewer, more


def agreeing(medians: Sequence[float]) -> Sequence[int] | None:
    """The positions of the processes that agree, more than half of all; None without others."""
    groups = _groups(medians)
    return groups[1] if groups and len(groups[0]) < len(groups[1]) else None


def agreed_value(medians: Sequence[float]) -> float:
    """The geometric mean of processes' medians, above 0; of those that agree, where most do.

    Exactly the median where there is one alone.
    """
    agreed = [medians[i] for i in agreeing(medians) or range(len(medians))]
    return agreed[0] if len(agreed) == 1 else math.exp(float(np.log(agreed).mean()))


def _without_loads(kind: Sequence[Sequence[float]], slower: int) -> list[Sequence[int]]:
    """The positions of each run's processes, by their medians, but of those that a load slowed.

    These are the ones apart from what most of their run agree on, if all such of the kind are
    slower (a load makes nothing faster), they are few (`MOST_LOADED`), and no run is split in
    halves. `slower` is 1 where more is slower, -1 where less is, and 0 where that is not known:
    then none is left out.
    """
    every: list[Sequence[int]] = [range(len(run)) for run in kind]
    split = {i: groups for i, run in enumerate(kind) if (groups := _groups(run))}
    off = sum(len(fewer) for fewer, _ in split.values())
    are_loads = off <= MOST_LOADED * sum(map(len, kind)) and all(
        len(fewer) < len(more) and slower * (kind[i][fewer[0]] - kind[i][more[0]]) > 0
        for i, (fewer, more) in split.items()
    )
    return [split[i][1] if are_loads and i in split else of for i, of in enumerate(every)]


@dataclass(frozen=True)
class _Judged:
    """The spread that a run's interval uses: the pooled one, or its own if that is greater.

    It is greater than that `of_others`, of all other runs, which only then is given.
    """

    spread: Spread | None
    of_others: Spread | None = None


def _judge(logs: Sequence[Floats], unreplicated: Spread | None) -> list[_Judged]:
    """The spread for the interval of each run of a kind.

    It is the run's own where that exceeds that of all others by an F test (`GREATER_LEVEL`); one
    that does so at `ODD_LEVEL` is neither pooled nor among the others of the test. A smaller one
    may be so by chance, as of processes that go between two states. `unreplicated` stands in where
    too few runs have processes.
    """
    own = {i: _own_spread(medians) for i, medians in enumerate(logs) if len(medians) > 1}
    is_known = tells_spread(map(len, logs))
    if not own or not (is_known or unreplicated):
        return [_Judged(unreplicated or _pooled(list(own.values())))] * len(logs)

    def of_others(position: int, odd: Collection[int]) -> Spread | None:
        others = [i for i in own if i != position and i not in odd]
        if tells_spread(len(logs[i]) for i in others) or (others and unreplicated is None):
            return _pooled([own[i] for i in others])
        return unreplicated

    def chance(run: Spread, others: Spread | None) -> float:
        """The probability of so great a spread, were it that of all others."""
        if others is None or not others.deviation:
            return float(others is None or not run.deviation)
        ratio = (run.deviation / others.deviation) ** 2
        return float(scipy.special.fdtrc(run.freedom, others.freedom, ratio))

    odd: set[int] = set()
    while True:  # one that is odd hides others from the test
        others = {i: of_others(i, odd) for i in own}
        chances = {i: chance(run, others[i]) for i, run in own.items()}
        found = {i for i, each in chances.items() if each < ODD_LEVEL}
        found = odd | {i for i in found if len(logs[i]) >= MIN_PROCESSES}
        if found == odd or len(found) == len(own):
            break
        odd = found
    pooled = _pooled([own[i] for i in own if i not in odd]) if is_known else unreplicated
    return [
        _Judged(own[i], others[i]) if chances.get(i, 1.0) < GREATER_LEVEL else _Judged(pooled)
        for i in range(len(logs))
    ]


def scatters_more(logs: Sequence[Floats]) -> list[bool]:
    """Of each run of a kind, if its processes scatter more than those of all others (`_judge`)."""
    return [judged.of_others is not None for judged in _judge(logs, None)]


def _own_spread(medians: Floats) -> Spread:
    """The spread of one run, by the logarithms of the medians of at least two processes."""
    return Spread(float(np.std(medians, ddof=1)), len(medians) - 1)


def _pooled(spreads: Sequence[Spread]) -> Spread | None:
    """The spread of several runs together; None of none."""
    freedom = sum(spread.freedom for spread in spreads)
    squares = math.fsum(spread.freedom * spread.deviation**2 for spread in spreads)
    return Spread(math.sqrt(squares / freedom), freedom) if freedom else None


def shared_spread(runs: Sequence[Sequence[Estimate]]) -> Spread | None:
    """The spread between processes of runs of any kinds, pooled; None where too few tell it."""
    if not tells_spread(map(len, runs)):
        return None
    logs = [np.log([process.median for process in run]) for run in runs if len(run) > 1]
    return _pooled([_own_spread(medians) for medians in logs])


@functools.lru_cache(maxsize=256)
def _t_quantiles(freedom: float) -> Floats:
    levels = np.arange(1, DRAWS + 1) / (DRAWS + 1)
    return np.asarray(scipy.special.stdtrit(freedom, levels), dtype=np.float64)


def combine_with_spread(processes: Sequence[Estimate], spread: Spread | None) -> Estimate:
    """One estimate of several processes of a run, from the spread between processes.

    That of the only process where no spread is known. See `combine_processes`.
    """
    count = sum(process.count for process in processes)
    is_few = processes[0].quantiles is None and count != MEAN_COUNT
    if len(processes) == 1 and (spread is None or is_few):
        return processes[0]
    medians = [process.median for process in processes]
    value = agreed_value(medians)
    if spread is None:
        return Estimate(value, count, None)
    held = np.full(DRAWS, value)  # by what most agree on, that of all may not hold it
    quantiles = _widest([_quantiles(processes, spread), held])
    return Estimate(value, count, quantiles, max(process.tick for process in processes))


def _quantiles(processes: Sequence[Estimate], spread: Spread) -> Floats:
    """Of the geometric mean: by the spread between processes, and no narrower than by the calls."""
    centre = float(np.log([process.median for process in processes]).mean())
    error = spread.deviation / math.sqrt(len(processes))
    farthest = math.log(LARGEST_FACTOR)
    between = np.exp(np.clip(_t_quantiles(spread.freedom) * error, -farthest, farthest) + centre)
    within = function_estimate(lambda *of: np.exp(sum(np.log(of)) / len(of)), processes).quantiles
    clock = np.exp(centre) * (1 + max(process.tick for process in processes) * WITHIN_TICK)
    # With too few calls to tell anything, as of a program that is run once or twice, without them.
    return _widest([between, clock, *([] if within is None else [within])])


def _widest(quantiles: Sequence[Floats]) -> Floats:
    """From the lowest of several distributions to the highest."""
    low = np.arange(DRAWS) < DRAWS // 2
    found: Floats = np.where(low, np.min(quantiles, axis=0), np.max(quantiles, axis=0))
    return found


def _combine(processes: Sequence[Estimate], judged: _Judged) -> Estimate:
    """One estimate of a run's processes.

    Where they scatter more than those of other runs, nothing tells which of them were disturbed: it
    may be all but one. So the interval reaches from the least to the greatest of them, each with
    the spread of other runs, and of more than two that are in no groups as far as Student's t says.
    """
    combined = combine_with_spread(processes, judged.spread)
    if judged.of_others is None:
        return combined
    parts = [_quantiles([process], judged.of_others) for process in processes]
    if len(processes) > 2 and agreeing([process.median for process in processes]) is None:
        parts.append(_quantiles(processes, judged.spread or judged.of_others))
    return replace(combined, quantiles=_widest(parts))


def combine_processes(
    kind: Sequence[Sequence[Estimate]], unreplicated: Spread | None = None, slower: int = 0
) -> list[Replicated]:
    """The estimate of each run of a kind from those of its processes, by one quantity above 0.

    The value is the geometric mean of the processes' medians, or of those that agree where others
    are far off (`agreeing`). Its distribution is that of Student's t on the logarithms of all, by
    the variance between processes, and nowhere narrower than what the calls within each process
    tell of that mean, where there are enough of them.

    The variance is pooled over the runs of the kind; the interval of a run that scatters more than
    the others leaves out none of its processes, but for those that a load slowed while most agree.
    A run of one process is judged by the spread of its kind, if any is known.

    Args:
        kind: the processes of each run, at least one, in any order.
        unreplicated: the spread to assume where the runs of the kind do not tell any.
        slower: 1 where more is slower, -1 where less is, 0 where that is not known.

    Returns:
        An estimate for each run, without an interval where its only process has none.
    """
    kept = _without_loads([[process.median for process in run] for run in kind], slower)
    quiet = [[run[i] for i in of] for run, of in zip(kind, kept, strict=True)]
    logs: list[Floats] = [np.log([process.median for process in run]) for run in quiet]
    return [
        Replicated(_combine(processes, judged), len(of), judged.spread, of)
        for processes, of, judged in zip(quiet, kept, _judge(logs, unreplicated), strict=True)
    ]
