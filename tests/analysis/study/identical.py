"""Coverage of intervals and false verdicts for identical code, under noise of known kinds.

Runs of the same code are drawn and compared: single ones by a model of their calls' noise, those of
several processes, each of which is off as a whole, and processes that ran side by side on cards
that differ. By hand: perf/right.py.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import scipy.signal
import scipy.stats
from analysis.study.planted import mixture_median
from planted.experiments import call_times

from flashlab.analysis.pairing import Pairings, Place, Processes
from flashlab.analysis.ratios import ratio
from flashlab.analysis.replication import Replicated, combine_processes
from flashlab.measuring.protocols import BATCH, ENOUGH_CALLS, GROWTH
from flashlab.statistics import (
    MARGIN,
    Estimate,
    Floats,
    estimate_median,
    function_estimate,
    interval_of,
    median_interval,
    visible_states,
)


@dataclass
class Score:
    """Counts of runs and ratios of identical code by their outcome.

    `measured` counts the calls of a run, or its processes. `missed` counts the ratios of which one
    side is really slower by twice the margin and that is not found, `at_margin` those called
    different that really differ by just the margin. `width` is the sum in the logarithm.
    """

    runs: int = 0
    measured: int = 0
    held: int = 0
    in_doubt: int = 0
    ratios: int = 0
    ratios_held: int = 0
    false: int = 0
    missed: int = 0
    at_margin: int = 0
    width: float = 0.0

    def add_run(self, interval: tuple[float, float] | None, measured: int) -> None:
        assert interval is not None
        self.runs += 1
        self.measured += measured
        self.held += interval[0] - 1e-9 <= 1 <= interval[1] + 1e-9

    def add(self, low: float | None, high: float | None) -> None:
        """Count the interval of a ratio, which is as wide where the runs do differ."""
        assert low is not None and high is not None
        self.ratios += 1
        self.ratios_held += low - 1e-9 <= 1 <= high + 1e-9
        self.false += max(low, 1 / high) > 1 + MARGIN
        self.missed += low * (1 + MARGIN) <= 1
        self.at_margin += low > 1
        self.width += math.log(high / low)


# Single runs

SPENT = 1000
"""Calls after which the time of a pass is spent."""

Draw = Callable[[np.random.Generator, int], Floats]


def _lognormal(random: np.random.Generator, count: int, sigma: float = 0.02) -> Floats:
    return random.lognormal(sigma=sigma, size=count)


def _heavy_tailed(random: np.random.Generator, count: int) -> Floats:
    found: Floats = np.exp(0.01 * random.standard_t(2, size=count))
    return found


def _slow_calls(random: np.random.Generator, count: int) -> Floats:
    return call_times(random, 1.0, count, 0.01) / mixture_median(0.01)


def _bimodal(random: np.random.Generator, count: int) -> Floats:
    """Call by call one of two times 7% apart, six times in ten the shorter."""
    median = np.exp(0.005 * scipy.stats.norm.ppf(0.5 / 0.6))
    fast = _lognormal(random, count, 0.005)
    return fast * np.where(random.random(count) < 0.4, 1.07, 1) / median


def _quantised(random: np.random.Generator, count: int) -> Floats:
    found: Floats = np.round(_lognormal(random, count, 0.01) / 0.01) * 0.01
    return found


def _autoregressive(rho: float) -> Draw:
    """Each call resembles the one before by this correlation."""

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
        return _lognormal(random, count, 0.005) * (0.965 + 0.07 * (changes.cumsum() % 2))

    return draw


def _drift(random: np.random.Generator, count: int) -> Floats:
    """By 2% over the calls that there are, around 1."""
    return _lognormal(random, count, 0.01) * (1 + 0.02 * np.linspace(-0.5, 0.5, count))


def _warm_up(random: np.random.Generator, count: int) -> Floats:
    """The first calls are up to 30% slow, a tenth of it after 12 calls."""
    return _lognormal(random, count, 0.01) * (1 + 0.3 * np.exp(-np.arange(count) / 5))


def _offset(sd: float) -> Draw:
    """Each process is off as a whole."""
    return lambda random, count: _lognormal(random, count, 0.01) * random.lognormal(sigma=sd)


NOISES: Mapping[str, Draw] = {
    "lognormal": _lognormal,
    "heavy tails": _heavy_tailed,
    "5% of calls slow": _slow_calls,
    "bimodal call by call": _bimodal,
    "quantised timer": _quantised,
    "drift of 2%": _drift,
    "warm-up left over": _warm_up,
    **{f"AR(1), rho {rho}": _autoregressive(rho) for rho in (0.6, 0.8, 0.9)},
    **{f"states of {calls} calls": _states(calls) for calls in (10, 30, 100)},
    **{f"process offsets, sd {sd:.1%}": _offset(sd) for sd in (0.006, 0.012, 0.02)},
}
"""Models of noise around a median of 1. That of two states of equal share is what lies between."""


def _measured(draw: Draw, random: np.random.Generator) -> Floats:
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


def score_noise(noise: str, runs: int, seed: int, count: int | None = None) -> Score:
    """Draw runs of so many calls, or as measured, and compare each with each."""
    random, draw, score = np.random.default_rng(seed), NOISES[noise], Score()
    drawn = [_measured(draw, random) if count is None else draw(random, count) for _ in range(runs)]
    for samples in drawn:
        found = median_interval(samples.tolist())
        assert found.low is not None and found.high is not None
        score.add_run((found.low, found.high), len(samples))
        score.in_doubt += visible_states(samples.tolist()) is not None
    estimates = [estimate_median(samples.tolist()) for samples in drawn]
    for one, other in itertools.combinations(estimates, 2):
        compared = ratio(0, one, other)
        score.add(compared.low, compared.high)
    return score


# Runs in several processes

RUNS = 8
"""Runs of a kind: an implementation's in an experiment."""

TOGETHER = 24
"""Implementations that are compared pair by pair where the number of processes is fixed."""

INDEPENDENT = "lognormal", 20
CALLS = (
    INDEPENDENT,
    ("AR(1), rho 0.8", 500),
    *((f"states of {calls} calls", 500) for calls in (10, 30, 100)),
)
"""The noise of a process's calls, and how many there are."""


def _process(random: np.random.Generator, calls: tuple[str, int], sd: float) -> Estimate:
    offset = float(random.lognormal(sigma=sd))
    noise, count = calls
    return estimate_median((offset * NOISES[noise](random, count)).tolist())


def _add_kind(score: Score, kind: Sequence[Replicated]) -> None:
    for found in kind:
        score.add_run(interval_of(found.estimate), found.processes)


def score_fixed(calls: tuple[str, int], sd: float, processes: int, pairs: int, seed: int) -> Score:
    """Compare so many pairs of runs, each in so many processes."""
    random, score = np.random.default_rng(seed), Score()
    while score.ratios < pairs:
        kinds = []
        for _ in range(TOGETHER):
            drawn = [[_process(random, calls, sd) for _ in range(processes)] for _ in range(RUNS)]
            kinds.append(combine_processes(drawn))
            _add_kind(score, kinds[-1])
        for one, other in itertools.combinations(kinds, 2):
            for a, b in zip(one, other, strict=True):
                found = ratio(0, a.estimate, b.estimate)
                score.add(found.low, found.high)
    return score


# Processes that ran side by side

IMPLEMENTATIONS = ("A", "B", "C")
CARDS = 4
CALLS_OF_A_PAIR = 20
OWN, SCATTER = 0.006, 0.01
"""Standard deviations of a process, and of its calls."""

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
RUN = timedelta(minutes=1)

OnCard = Callable[[float], float]
"""The factor on times by how much of the recording is over."""


def _nothing(_: np.random.Generator, __: int) -> OnCard:
    return lambda _: 1.0


def _card_offset(random: np.random.Generator, _: int) -> OnCard:
    own = float(random.lognormal(sigma=0.03))
    return lambda _: own


def _card_drift(_: np.random.Generator, __: int) -> OnCard:
    return lambda over: 1.05**over


def _throttling(random: np.random.Generator, card: int) -> OnCard:
    """One card that lowers its clocks by 8% for a third of the recording."""
    since = random.uniform(0, 2 / 3)
    return lambda over: 1.08 if card == 0 and since <= over < since + 1 / 3 else 1.0


DISTURBANCES: Mapping[str, Callable[[np.random.Generator, int], OnCard]] = {
    "none": _nothing,
    "card offsets, sd 3%": _card_offset,
    "drift of 5%": _card_drift,
    "a throttling card": _throttling,
}
"""The disturbance of all times on a card, by the card's number."""


def _record(
    random: np.random.Generator, disturbance: str, settings: int, processes: int
) -> dict[tuple[str, int], Processes]:
    """The processes of every implementation at every setting, block by block on a card each."""
    cards = [DISTURBANCES[disturbance](random, card) for card in range(CARDS)]
    blocks = list(itertools.product(range(processes), range(settings)))
    names = itertools.product(IMPLEMENTATIONS, range(settings))
    found: dict[tuple[str, int], tuple[list[Estimate], list[Place]]] = {n: ([], []) for n in names}
    for number, (_, setting) in enumerate(blocks):
        card = int(random.integers(CARDS))
        for place, name in enumerate(random.permutation(IMPLEMENTATIONS)):
            position = number * len(IMPLEMENTATIONS) + place
            factor = cards[card](position / (len(blocks) * len(IMPLEMENTATIONS)))
            factor *= float(random.lognormal(sigma=OWN))
            calls = factor * random.lognormal(sigma=SCATTER, size=CALLS_OF_A_PAIR)
            estimates, places = found[str(name), setting]
            estimates.append(estimate_median(calls.tolist()))
            started = BEGUN + position * 5 * RUN
            places.append(Place(str(card), started, started + RUN))
    return {key: Processes(*run) for key, run in found.items()}


def score_paired(
    disturbance: str, recordings: int, seed: int, settings: int = 8, processes: int = 3
) -> tuple[Score, Score]:
    """Compare all implementations of so many recordings, by pairs and as independent runs."""
    random, by_pairs, independent = np.random.default_rng(seed), Score(), Score()
    for _ in range(recordings):
        recording = _record(random, disturbance, settings, processes)
        pairings = Pairings(recording, ())
        combined: dict[tuple[str, int], Estimate] = {}
        for name in IMPLEMENTATIONS:
            keys = [key for key in recording if key[0] == name]
            kind = combine_processes([recording[key].estimates for key in keys])
            combined |= {key: each.estimate for key, each in zip(keys, kind, strict=True)}
        for one, other in itertools.combinations(IMPLEMENTATIONS, 2):
            for at in range(settings):
                paired = pairings.ratio((one, at), (other, at))
                assert paired is not None and paired.processes == processes
                by_pairs.add(*interval_of(paired.estimate) or (None, None))
                both = combined[one, at], combined[other, at]
                found = function_estimate(operator.truediv, both)
                independent.add(*interval_of(found) or (None, None))
    return by_pairs, independent
