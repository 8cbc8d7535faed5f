"""Coverage of intervals and false verdicts for identical code, under noise of known kinds.

Runs of the same code, each in one process, are drawn by a model of their calls' noise and compared.
By hand: perf/right.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.signal
from planted.experiments import SLOW, SLOW_SHARE, call_times
from scipy.stats import norm

from flashlab.analysis.ratios import ratio
from flashlab.measuring.protocols import BATCH, ENOUGH_CALLS, GROWTH
from flashlab.statistics import (
    MARGIN,
    Floats,
    estimate_median,
    median_interval,
    visible_states,
)

Random = np.random.Generator
Draw = Callable[[Random, int], Floats]


@dataclass
class NoiseScore:
    """Counts of runs and ratios of identical code by their outcome.

    `missed` counts the ratios of which one side is really slower by twice the margin and that is
    not found. `width` is the sum in the logarithm.
    """

    runs: int = 0
    held: int = 0
    in_doubt: int = 0
    ratios: int = 0
    ratios_held: int = 0
    false: int = 0
    missed: int = 0
    width: float = 0.0

    def add_run(self, low: float, high: float) -> None:
        self.runs += 1
        self.held += low - 1e-9 <= 1 <= high + 1e-9

    def add(self, low: float, high: float) -> None:
        """Count the interval of a ratio, which is as wide where the runs do differ."""
        self.ratios += 1
        self.ratios_held += low - 1e-9 <= 1 <= high + 1e-9
        self.false += max(low, 1 / high) > 1 + MARGIN
        self.missed += low * (1 + MARGIN) <= 1
        self.width += math.log(high / low)


SPENT = 1000
"""Calls after which the time of a pass is spent."""


def _lognormal(random: Random, count: int, sigma: float) -> Floats:
    return random.lognormal(sigma=sigma, size=count)


def _slow_median(spread: float) -> float:
    """Median of lognormal samples around 1 of which 5% are 20% slow."""

    def excess(x: float) -> float:
        fast, slow = norm.cdf(math.log(x) / spread), norm.cdf(math.log(x / SLOW) / spread)
        return float((1 - SLOW_SHARE) * fast + SLOW_SHARE * slow - 0.5)

    return float(scipy.optimize.brentq(excess, 0.5, 2.0, xtol=1e-12))


def _bimodal(random: Random, count: int) -> Floats:
    """Call by call one of two times 7% apart, six times in ten the shorter."""
    fast = _lognormal(random, count, 0.005) / np.exp(0.005 * norm.ppf(0.5 / 0.6))
    return fast * np.where(random.random(count) < 0.4, 1.07, 1)


def _autoregressive(rho: float) -> Draw:
    """Each call resembles the one before by this correlation."""

    def draw(random: Random, count: int) -> Floats:
        noise = random.standard_normal(count)
        noise[1:] *= np.sqrt(1 - rho**2)
        return np.exp(0.02 * scipy.signal.lfilter([1], [1, -rho], noise))

    return draw


def _states(calls: float) -> Draw:
    """Two states of the clock, 7% apart, each of which lasts for so many calls on average."""

    def draw(random: Random, count: int) -> Floats:
        changes = random.random(count) < 1 / calls
        changes[0] = random.random() < 0.5
        return _lognormal(random, count, 0.005) * (0.965 + 0.07 * (changes.cumsum() % 2))

    return draw


def _drift(random: Random, count: int) -> Floats:
    """By 2% over the calls that there are, around 1."""
    return _lognormal(random, count, 0.01) * (1 + 0.02 * np.linspace(-0.5, 0.5, count))


NOISES: Mapping[str, Draw] = {
    "lognormal": lambda random, n: _lognormal(random, n, 0.02),
    "heavy tails": lambda random, n: np.exp(0.01 * random.standard_t(2, size=n)),
    "5% of calls slow": lambda random, n: call_times(random, 1, n, 0.01) / _slow_median(0.01),
    "bimodal call by call": _bimodal,
    "quantised timer": lambda random, n: np.round(_lognormal(random, n, 0.01), 2),
    "drift of 2%": _drift,
    # The first calls are up to 30% slow, a tenth of it after 12 calls.
    "warm-up left over": lambda random, n: (
        _lognormal(random, n, 0.01) * (1 + 0.3 * np.exp(-np.arange(n) / 5))
    ),
    **{f"AR(1), rho {rho}": _autoregressive(rho) for rho in (0.6, 0.8, 0.9)},
    **{f"states of {calls} calls": _states(calls) for calls in (10, 30, 100)},
}
"""Models of noise around a median of 1. That of two states of equal share is what lies between."""


def _measured(draw: Draw, random: Random) -> Floats:
    """One run by the stop rule of the measuring, with an interval within 1%."""
    if draw is _drift:  # which is to be around 1, however many calls there are
        return draw(random, ENOUGH_CALLS)
    samples, count = draw(random, SPENT), ENOUGH_CALLS
    while count < SPENT and median_interval(samples[:count]).relative_half_width > 0.01:
        count = min(SPENT, -int(-count * GROWTH // BATCH) * BATCH)
    return samples[:count]


def score_noise(noise: str, runs: int, seed: int, count: int | None = None) -> NoiseScore:
    """Draw runs of so many calls, or as measured, and compare each with each."""
    random, draw, score = np.random.default_rng(seed), NOISES[noise], NoiseScore()
    drawn = [_measured(draw, random) if count is None else draw(random, count) for _ in range(runs)]
    for samples in drawn:
        found = median_interval(samples)
        score.add_run(found.low, found.high)
        score.in_doubt += visible_states(samples) is not None
    for pair in itertools.combinations([estimate_median(samples) for samples in drawn], 2):
        compared = ratio(0, *pair)
        score.add(compared.low, compared.high)
    return score
