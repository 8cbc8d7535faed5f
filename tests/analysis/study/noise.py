"""Coverage of intervals and false verdicts for identical code, under noise of known kinds.

Runs of the same code, each in one process, are drawn by a model of their calls' noise and compared.
By hand: perf/right.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import scipy.signal
from planted.experiments import SLOW_SHARE, call_times
from scipy.stats import norm

from flashlab.analysis.ratios import ratio
from flashlab.measuring.protocols import BATCH, ENOUGH_CALLS, GROWTH
from flashlab.statistics import MARGIN, Floats, estimate_median, median_interval, visible_states

Random = np.random.Generator
Draw = Callable[[Random, int], Floats]
SPENT = 1000
"""Calls after which the time of a pass is spent."""


def _lognormal(random: Random, count: int, sigma: float) -> Floats:
    return random.lognormal(sigma=sigma, size=count)


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


OF_SLOW = np.exp(0.01 * norm.ppf(0.5 / (1 - SLOW_SHARE)))
"""The median where some calls are slow by far more than calls differ."""

NOISES: Mapping[str, Draw] = {
    "lognormal": lambda random, n: _lognormal(random, n, 0.02),
    "heavy tails": lambda random, n: np.exp(0.01 * random.standard_t(2, size=n)),
    "5% of calls slow": lambda random, n: call_times(random, 1, n, 0.01) / OF_SLOW,
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


def score_noise(noise: str, runs: int, seed: int, count: int | None = None) -> dict[str, float]:
    """Draw runs of so many calls, or as measured, compare each with each, and count outcomes.

    `missed` are ratios that would not be found to differ if one side were slower by twice the
    margin; `width` is the sum of the intervals of ratios in the logarithm.
    """
    random, draw = np.random.default_rng(seed), NOISES[noise]
    drawn = [_measured(draw, random) if count is None else draw(random, count) for _ in range(runs)]
    medians = [median_interval(samples) for samples in drawn]
    ratios = [ratio(0, *x) for x in itertools.combinations(map(estimate_median, drawn), 2)]
    held, of_ratios = (
        sum(x.low - 1e-9 <= 1 <= x.high + 1e-9 for x in found) for found in (medians, ratios)
    )
    return {
        **{"runs": runs, "held": held, "ratios": len(ratios), "ratios_held": of_ratios},
        "in_doubt": sum(visible_states(samples) is not None for samples in drawn),
        "false": sum(max(x.low, 1 / x.high) > 1 + MARGIN for x in ratios),
        "missed": sum(x.low * (1 + MARGIN) <= 1 for x in ratios),
        "width": sum(math.log(x.high / x.low) for x in ratios),
    }
