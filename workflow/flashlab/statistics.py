"""Medians and functions of them, with 95% intervals that hold for dependent calls too.

With 5% of samples 20% slow, a nominal 95% interval of the mean holds the truth in 68 to 83% of
cases, the median's in 95 to 96%: so there is no mean here.

Calls that follow one another resemble one another: clocks settle, caches warm. So each interval
comes from a sign test of blocks of calls that are longer than this dependence lasts. Calls that are
independent are blocks of one, and their interval is that of the order statistics.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.special

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MIN_SAMPLES = 10
"""Fewest samples that the measuring takes."""

MIN_INTERVAL_SAMPLES = 6
"""Fewest samples for which any interval is given: of five, not even the range is one of 95%."""

CONFIDENCE = 0.95

MARGIN = 0.05
"""A difference counts only where the interval of the ratio lies wholly beyond 1 + this, or below
the inverse; wholly within both it is an equivalence. (On identical code that drifts by 1%, "the
interval excludes 1" is wrong half the time.)"""

TICK_DIGITS = 8
"""Significant digits in which two samples differ if they do: what floats add is beyond them."""

DRAWS = 999
"""Quantiles that stand for a median's distribution. One more than these is a multiple of 40, so
that both ends of a 95% interval are among them, with no interpolation."""

BLOCK_TIMES = 6
"""Calls in a block, as a multiple of the time that the dependence lasts."""

MIN_BLOCKS, MAX_BLOCKS = 4, 256
"""Fewest blocks that samples are cut into, however long the dependence lasts, and most."""

LEVELS = 33
"""Shares of the samples at which the sign test is made; between them it is interpolated."""


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


@functools.lru_cache(maxsize=256)
def _permutation(count: int, seed: int) -> Integers:
    """A fixed permutation of so many."""
    return np.random.default_rng(seed).permutation(count)


def _ranks(values: Floats) -> Integers:
    """0-based ranks in order of the values; ties, as a coarse clock gives, in no order of time."""
    shuffled = _permutation(len(values), 0)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[shuffled[np.argsort(values[shuffled], kind="stable")]] = np.arange(len(values))
    return ranks


def _dependence_time(ranks: Integers) -> float:
    """The integrated autocorrelation time in calls: 1 where they are independent.

    The autocorrelations of the ranks are summed up to the first that is within half a standard
    error of none. About the sample's own mean they come out too small; the last line makes up for
    it to the first order in 1 / n.
    """
    count = len(ranks)
    centred = ranks - (count - 1) / 2
    spectrum = np.fft.rfft(centred, 1 << (2 * count - 1).bit_length())
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[: count // 2] / (centred @ centred)
    ended = np.flatnonzero(correlation < 0.5 / math.sqrt(count))
    end = int(ended[0]) if len(ended) else len(correlation)
    time = 1 + 2 * float(correlation[1:end].sum())
    return 1 + (time - 1) * (1 + 3 * time / count)


@functools.lru_cache(maxsize=2 * MAX_BLOCKS)
def _t_quantiles(freedom: int, levels: tuple[float, ...]) -> Floats:
    quantiles: Floats = scipy.special.stdtrit(freedom, np.array(levels))
    return quantiles


MIN_STATE_SHARE = 0.1
"""Least share of the samples that makes a state."""

STATES_APART = 4
"""Least distance of two states, over the standard deviation within them. (The halves of a normal
distribution are 2.7 apart by this measure, those of a uniform one 3.5.)"""

MIN_RUNS_DEVIATION = 3
"""Standard deviations by which there must be fewer changes of state than in shuffled samples."""

STATE_DOUBT = 0.05
"""Share of a median's distribution that is left to each visible state: enough for the 95% interval
of any ratio to reach both."""


def visible_states(samples: Sequence[float]) -> tuple[float, float] | None:
    """The lower and the upper of two states between which the samples change, None for no such two.

    They are visible as groups further apart than the margin, each close to its mean, between which
    the samples go in stretches rather than call by call.
    """
    count = len(samples)
    if count < MIN_SAMPLES or min(samples) <= 0:
        return None
    values = np.log(np.asarray(samples, dtype=float))
    ordered = np.sort(values)
    sums, sizes = np.cumsum(ordered), np.arange(1, count)
    lower, upper = sums[:-1] / sizes, (sums[-1] - sums[:-1]) / (count - sizes)
    split = int(np.argmax(sizes * (count - sizes) * (upper - lower) ** 2))
    below = split + 1
    low, high = float(lower[split]), float(upper[split])
    squares = ((ordered[:below] - low) ** 2).sum() + ((ordered[below:] - high) ** 2).sum()
    if (
        min(below, count - below) < MIN_STATE_SHARE * count
        or high - low < math.log1p(MARGIN)
        or high - low < STATES_APART * math.sqrt(squares / count)
    ):
        return None
    is_upper = values >= ordered[below]
    runs = 1 + np.count_nonzero(is_upper[1:] != is_upper[:-1])
    pairs = 2 * below * (count - below)
    expected = 1 + pairs / count
    deviation = math.sqrt(pairs * (pairs - count) / (count**2 * (count - 1)))
    if runs >= expected - MIN_RUNS_DEVIATION * deviation:
        return None
    return math.exp(low), math.exp(high)


class _Confidence:
    """The confidence distribution of a sample's median.

    A value can be the median if half of the samples lie below it. For a value below which a share p
    of them lies, that share varies from block to block, and (p - 1/2) over its standard error is
    the statistic of a t test; never with a smaller error than independent samples have. The error
    belongs to the value that is tested: between two states of the clock, it is that of how long
    each lasts. Where two states are visible, the same code may be in either the next time: both are
    possible, whatever the test says.
    """

    def __init__(self, values: Floats) -> None:
        count = len(values)
        ranks = _ranks(values)
        time = _dependence_time(ranks)
        length = 1 if time <= 1 else math.ceil(BLOCK_TIMES * time)
        blocks = min(max(MIN_BLOCKS, count // length), MAX_BLOCKS)
        levels = min(count, LEVELS)
        below = np.arange(1, levels) * count // levels
        shares = below / count
        block = np.arange(count) * blocks // count
        cell = block * levels + np.searchsorted(below, ranks, side="right")
        cells = np.bincount(cell, minlength=blocks * levels).reshape(blocks, levels)
        excess = cells.cumsum(axis=1)[:, :-1] - cells.sum(axis=1, keepdims=True) * shares
        variance = (excess**2).sum(axis=0) * blocks / (blocks - 1) / count**2
        error = np.sqrt(np.maximum(variance, shares * (1 - shares) / count))
        statistic = (shares - 0.5) / error
        # Outward from the middle a value is possible if one further out is.
        upward = np.minimum.accumulate(statistic[::-1])[::-1]
        statistic = np.where(shares >= 0.5, upward, np.maximum.accumulate(statistic))
        ends = (min(statistic[0], -0.5 / error[0]), max(statistic[-1], 0.5 / error[-1]))
        self._freedom = blocks - 1
        self._ordered = np.sort(values)
        self._states = visible_states(values.tolist())
        self._statistics = np.concatenate([ends[:1], statistic, ends[1:]])
        self._shares = np.concatenate([[0.0], shares, [1.0]])

    def quantiles(self, levels: tuple[float, ...]) -> Floats:
        """Its quantiles; beyond the range of the samples it knows nothing."""
        t = _t_quantiles(self._freedom, levels)
        share = np.interp(t, self._statistics, self._shares)
        count = len(self._ordered)
        values: Floats = np.interp(share * count - 0.5, np.arange(count), self._ordered)
        if self._states is not None:
            low, high = self._states
            at = np.array(levels)
            values[at <= STATE_DOUBT] = np.minimum(values[at <= STATE_DOUBT], low)
            values[at >= 1 - STATE_DOUBT] = np.maximum(values[at >= 1 - STATE_DOUBT], high)
        return values


@functools.lru_cache(maxsize=64)
def _confidence(values: bytes) -> _Confidence:
    """That of the samples with these bytes: a time, its rate and a sum ask for the same one."""
    return _Confidence(np.frombuffer(values))


_ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
_DRAWN = tuple(i / (DRAWS + 1) for i in range(1, DRAWS + 1))
WITHIN_TICK: Floats = (np.array(_DRAWN) - 0.5) / CONFIDENCE
"""Ticks around what a clock says: their 95% interval is half a tick on each side."""


def median_interval(samples: Sequence[float]) -> Interval:
    """The median with its 95% interval, whatever the distribution, from samples in time's order."""
    values = np.asarray(samples, dtype=float)
    median = float(np.median(values))
    if len(values) < MIN_INTERVAL_SAMPLES:
        return Interval(median, None, None)
    low, high = _confidence(values.tobytes()).quantiles(_ENDS)
    return Interval(median, min(float(low), median), max(float(high), median))


@dataclass(frozen=True)
class Estimate:
    """A median and its confidence distribution, for the intervals of its functions.

    `quantiles` are `DRAWS` quantiles of its confidence distribution, ascending; None for a sample
    that is too small. They follow from the samples alone. `tick` is that of the clock as a share of
    the median: what is true lies anywhere within half a tick of what a coarse clock says, in every
    process alike.
    """

    median: float
    count: int
    quantiles: Floats | None
    tick: float = 0.0


def tick_of(samples: Iterable[Sequence[float]]) -> float:
    """The least difference between two samples of one clock, in their unit; 0 where all are equal.

    `samples` are those of each process. Two that agree in `TICK_DIGITS` digits are equal.
    """
    every = [np.unique(np.asarray(each, dtype=float)) for each in samples]
    every.append(np.unique([float(each[0]) for each in every]))
    steps = [(np.diff(each), each[1:] * 10.0**-TICK_DIGITS) for each in every]
    least = min(float(step[step > bound].min(initial=math.inf)) for step, bound in steps)
    return least if math.isfinite(least) else 0.0


def estimate_median(samples: Sequence[float], tick: float = 0.0) -> Estimate:
    """The median with its confidence distribution, from samples in the order of time.

    `tick` is that of their clock, in their unit (`tick_of`).
    """
    values = np.asarray(samples, dtype=float)
    median, known = float(np.median(values)), len(values) >= MIN_SAMPLES
    quantiles = (
        _confidence(values.tobytes()).quantiles(_DRAWN) + tick * WITHIN_TICK if known else None
    )
    return Estimate(median, len(values), quantiles, tick / median if median else 0.0)


@functools.lru_cache
def _pairing(position: int) -> Integers:
    """An order of `DRAWS` quantiles, at random but fixed: as they are for the first place.

    For others quantiles are exchanged in pairs. So a ratio of two equal samples is symmetric: it
    holds the inverse of each of its draws.
    """
    order = np.arange(DRAWS)
    if position:
        one, other = _permutation(DRAWS, position)[: DRAWS - DRAWS % 2].reshape(2, -1)
        order[one], order[other] = other, one
    return order


def _drawn(estimates: Sequence[Estimate]) -> list[Floats] | None:
    """Independent draws of each median, None where a sample is too small.

    Each median's quantiles are put into an order of its own, fixed by the place of the
    estimate among the others in order of their values: no name and no order of arguments decides
    anything, and two runs whose samples are equal still vary independently. The same `Estimate`
    twice is one median.
    """
    keyed: list[tuple[float, bytes, int]] = []
    for i, estimate in enumerate(estimates):
        if estimate.quantiles is None:
            return None
        if all(estimate is not other for other in estimates[:i]):
            keyed.append((estimate.median, estimate.quantiles.tobytes(), i))
    draws = {}
    for position, (_, _, i) in enumerate(sorted(keyed)):
        quantiles = estimates[i].quantiles
        assert quantiles is not None
        draws[id(estimates[i])] = quantiles[_pairing(position)]
    return [draws[id(estimate)] for estimate in estimates]


def function_estimate(function: Callable[..., Floats], estimates: Sequence[Estimate]) -> Estimate:
    """A function of independent medians, such as their sum, as an estimate of its own.

    `function` takes a number, or an array of draws, for each estimate and works element by element.
    """
    draws = _drawn(estimates)
    return Estimate(
        float(function(*(estimate.median for estimate in estimates))),
        min(estimate.count for estimate in estimates),
        None if draws is None else np.sort(function(*draws)),
        sum(estimate.tick for estimate in estimates),
    )


def interval_of(estimate: Estimate, error: float = 1 - CONFIDENCE) -> tuple[float, float] | None:
    """Its interval, which misses the truth with a probability of `error`; None for few samples."""
    if estimate.quantiles is None:
        return None
    outside = round((DRAWS + 1) * error / 2)  # on either side
    return float(estimate.quantiles[outside - 1]), float(estimate.quantiles[-outside])
