"""How intervals and verdicts hold under noise of known kinds: the statistics by themselves.

Runs of identical code are drawn by a model of noise and compared pair by pair. By hand:
perf/findings_right.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.signal
import scipy.stats
from analysis.study.planted import SLOW, SLOW_SHARE, mixture_median

from flashlab.analysis.ratios import Ratio, ratio
from flashlab.measuring.protocols import BATCH, ENOUGH_CALLS, GROWTH
from flashlab.statistics import (
    MARGIN,
    Floats,
    estimate_median,
    median_interval,
    visible_states,
)

SPENT = 1000
"""Calls after which the time of a pass is spent."""

Draw = Callable[[np.random.Generator, int], Floats]


def lognormal(random: np.random.Generator, count: int, sigma: float = 0.02) -> Floats:
    return random.lognormal(sigma=sigma, size=count)


def _heavy_tailed(random: np.random.Generator, count: int) -> Floats:
    found: Floats = np.exp(0.01 * random.standard_t(2, size=count))
    return found


def _slow_calls(random: np.random.Generator, count: int) -> Floats:
    slow = np.where(random.random(count) < SLOW_SHARE, SLOW, 1.0)
    return lognormal(random, count, 0.01) * slow / mixture_median(0.01)


def _bimodal(random: np.random.Generator, count: int) -> Floats:
    """Call by call one of two times 7% apart, six times in ten the shorter."""
    median = np.exp(0.005 * scipy.stats.norm.ppf(0.5 / 0.6))
    return lognormal(random, count, 0.005) * np.where(random.random(count) < 0.4, 1.07, 1) / median


def _quantised(random: np.random.Generator, count: int) -> Floats:
    found: Floats = np.round(lognormal(random, count, 0.01) / 0.01) * 0.01
    return found


def _autoregressive(rho: float) -> Draw:
    def draw(random: np.random.Generator, count: int) -> Floats:
        noise = random.standard_normal(count)
        noise[1:] *= np.sqrt(1 - rho**2)
        return np.exp(0.02 * scipy.signal.lfilter([1], [1, -rho], noise))

    return draw


def _states(calls: float) -> Draw:
    """Two states of the clock, 7% apart, each of which lasts for so many calls on average."""

    def draw(random: np.random.Generator, count: int) -> Floats:
        changes = random.random(count) < 1 / calls
        changes[0] = random.random() < 0.5
        return lognormal(random, count, 0.005) * (0.965 + 0.07 * (changes.cumsum() % 2))

    return draw


def _drift(random: np.random.Generator, count: int) -> Floats:
    """By 2% over the calls that there are, around 1."""
    return lognormal(random, count, 0.01) * (1 + 0.02 * np.linspace(-0.5, 0.5, count))


def _warm_up(random: np.random.Generator, count: int) -> Floats:
    """The first calls are up to 30% slow, a tenth of it after 12 calls."""
    return lognormal(random, count, 0.01) * (1 + 0.3 * np.exp(-np.arange(count) / 5))


def _offset(sd: float) -> Draw:
    """Each process is off as a whole."""

    def draw(random: np.random.Generator, count: int) -> Floats:
        return lognormal(random, count, 0.01) * random.lognormal(sigma=sd)

    return draw


NOISES: Mapping[str, Draw] = {
    "lognormal": lognormal,
    "heavy tails": _heavy_tailed,
    "5% of calls slow": _slow_calls,
    "bimodal call by call": _bimodal,
    "quantised timer": _quantised,
    "drift of 2%": _drift,
    "warm-up left over": _warm_up,
    "AR(1), rho 0.6": _autoregressive(0.6),
    "AR(1), rho 0.8": _autoregressive(0.8),
    "AR(1), rho 0.9": _autoregressive(0.9),
    "states of 10 calls": _states(10),
    "states of 30 calls": _states(30),
    "states of 100 calls": _states(100),
    "process offsets, sd 0.6%": _offset(0.006),
    "process offsets, sd 1.2%": _offset(0.012),
    "process offsets, sd 2%": _offset(0.02),
}
"""Models of noise around a median of 1. That of two states of equal share is what lies between."""


def measured(draw: Draw, random: np.random.Generator) -> Floats:
    """One run by the stop rule of the measuring, with an interval within 1%."""
    if draw is _drift:  # which is to be around 1, however many calls there are
        return draw(random, ENOUGH_CALLS)
    samples, count = draw(random, SPENT), ENOUGH_CALLS
    while count < SPENT:
        taken = samples[:count]
        if median_interval(taken.tolist()).relative_half_width <= 0.01:
            break
        count = min(SPENT, -int(-count * GROWTH // BATCH) * BATCH)
    return samples[:count]


@dataclass(frozen=True)
class NoiseScore:
    """What became of runs of identical code under one noise, as shares.

    `missed` is the share of pairs of which one is really slower by twice the margin, and that is
    not found; `unwarned` the share of pairs called different without a doubt on either run.
    """

    calls: float
    median_held: float
    ratio_held: float
    width: float
    in_doubt: float
    false: float
    unwarned: float
    missed: float


def _order_statistics_width(samples: Floats) -> float:
    """Width of the interval that independent samples have."""
    ordered = np.sort(samples)
    rank = int(scipy.stats.binom.ppf(0.025, len(ordered), 0.5))
    return float(ordered[-rank] - ordered[rank - 1])


def _shift(found: Ratio, factor: float) -> Ratio:
    assert found.low is not None and found.high is not None
    scaled = (factor * end for end in (found.ratio, found.low, found.high))
    return Ratio(found.value, *scaled, found.samples)


def score_noise(draw: Draw, runs: int, seed: int, count: int | None = None) -> NoiseScore:
    """Draw runs of so many calls, or as measured, and compare each with each."""
    random = np.random.default_rng(seed)
    drawn = [measured(draw, random) if count is None else draw(random, count) for _ in range(runs)]
    intervals = [median_interval(samples.tolist()) for samples in drawn]
    held = [i.low - 1e-9 <= 1 <= i.high + 1e-9 for i in intervals if i.low and i.high]
    widths = [i.high - i.low for i in intervals if i.low and i.high]
    doubts = [visible_states(samples.tolist()) is not None for samples in drawn]
    estimates = [estimate_median(samples.tolist()) for samples in drawn]
    pairs = list(itertools.combinations(range(runs), 2))
    ratios_held = false = unwarned = missed = 0
    for i, j in pairs:
        found = ratio(0, estimates[i], estimates[j])
        assert found.low is not None and found.high is not None
        ratios_held += found.low - 1e-9 <= 1 <= found.high + 1e-9
        differs = found.verdict in ("above", "below")
        false += differs
        unwarned += differs and not (doubts[i] or doubts[j])
        missed += _shift(found, (1 + MARGIN) ** 2).verdict != "above"
    plain = float(np.mean([_order_statistics_width(samples) for samples in drawn]))
    return NoiseScore(
        calls=float(np.mean([len(samples) for samples in drawn])),
        median_held=float(np.mean(held)),
        ratio_held=ratios_held / len(pairs),
        width=float(np.mean(widths)) / plain if plain else 1.0,
        in_doubt=float(np.mean(doubts)),
        false=false / len(pairs),
        unwarned=unwarned / len(pairs),
        missed=missed / len(pairs),
    )
