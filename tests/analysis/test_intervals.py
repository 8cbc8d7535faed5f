"""Intervals of medians, of functions of them, of runs and of ratios: what they are and hold.

The statistics of whole comparisons are another study's (`analysis.study`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
from analysis.study.noise import NOISES
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.estimates import pooled_ratio
from flashlab.analysis.pairing import Processes
from flashlab.analysis.ratios import Ratio
from flashlab.analysis.replication import UNREPLICATED, Replicated, Spread, combine_processes
from flashlab.statistics import (
    DRAWS,
    Estimate,
    Floats,
    estimate_median,
    function_estimate,
    interval_of,
    median_interval,
)

Runs = Sequence[Sequence[float]]
"""The medians of the processes of each run of a kind, or at each setting."""


# Of a median, and of a function of medians


def test_the_medians_interval_covers_it_as_often_as_it_says() -> None:
    noises = ("lognormal", 30, 0.93), ("5% of calls slow", 30, 0.93), ("AR(1), rho 0.9", 300, 0.91)
    for noise, count, least in noises:
        random, runs = np.random.default_rng(5), 2000 if count == 30 else 500
        found = [median_interval(NOISES[noise](random, count)) for _ in range(runs)]
        assert sum(each.low <= 1 <= each.high for each in found) >= least * runs, noise


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_a_medians_interval_is_of_six_samples_or_more_and_within_them(samples: list[float]) -> None:
    found = median_interval(samples)
    if len(samples) < 6:
        assert found.low is found.high is None and found.relative_half_width == float("inf")
    else:
        assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


def between(function: Callable[..., Any], *samples: Sequence[float]) -> Any:
    """The interval of a function of the medians of these samples."""
    return interval_of(function_estimate(function, [*map(estimate_median, samples)]))


def test_there_is_no_interval_of_a_function_under_ten_samples() -> None:
    enough, few = [1.0] * 10, [1.0] * 9
    assert between(operator.add, enough, few) is between(operator.add, few, enough) is None
    assert between(operator.truediv, enough, enough) == (1.0, 1.0)
    mixed = [Estimate(1.0, 1, None), estimate_median(enough)]
    assert interval_of(function_estimate(operator.add, mixed)) is None


# Of the processes of a run, some of which share their spread

CALM = [[1.0, 1.01, 1.02 + 0.001 * i] for i in range(6)]
QUIET = [[1.0, 1.01, 0.99], [2.0, 1.98, 2.01], [4.0, 4.03, 3.98]]
DISTURBED = [0.267, 0.097, 0.098]


def process(median: float, scatter: float = 1e-6, seed: int = 0) -> Estimate:
    """A process of 100 calls around a median, which scatter by nothing beside processes."""
    calls = np.random.default_rng(seed).normal(0, scatter, 100)
    return estimate_median((median * np.exp(calls - np.median(calls))).tolist())


def combined(runs: Runs, others: Spread | None = None, slower: int = 0) -> list[Replicated]:
    processes = [[process(median) for median in run] for run in runs]
    return combine_processes(processes, others, slower)


def ends(found: Replicated | Estimate) -> tuple[float, float]:
    return interval_of(found.estimate if isinstance(found, Replicated) else found)


def pooled(*runs: Sequence[float]) -> float:
    """The spread that runs share."""
    return math.sqrt(np.mean([np.std(np.log(run), ddof=1) ** 2 for run in runs]))


WILD, ONE, OTHER = [1.0, 1.05, 1.11], [1.0, 1.01, 1.03], [5.0, 5.06, 5.1]
STATES = [[1.07, 1.0, 1.07], [1.07, 1.07, 1.0], [1.0, 1.07, 1.0], [1.0, 1.0, 1.0001]]
SPREADS: Mapping[str, tuple[Runs, float, int]] = {
    "its own": ([ONE], pooled(ONE), 2),
    "shared by a kind": ([OTHER, ONE], pooled(OTHER, ONE), 4),
    "its own, of one that scatters more than the others": ([*CALM, WILD], pooled(WILD), 2),
    "theirs, of one that scatters less by chance": (STATES, pooled(*STATES), 8),
}


@pytest.mark.parametrize("case", SPREADS)
def test_a_value_is_the_geometric_mean_and_its_interval_students_by_the_spread(case: str) -> None:
    runs, spread, freedom = SPREADS[case]
    found = combined(runs)[-1]
    assert found.spread is not None and found.processes == 3 and found.estimate.count == 300
    assert (found.spread.deviation, found.spread.freedom) == (pytest.approx(spread), freedom)
    median, half = math.exp(np.log(runs[-1]).mean()), spread / math.sqrt(3)
    assert found.estimate.median == pytest.approx(median)
    students = [median * math.exp(half * scipy.stats.t.ppf(p, freedom)) for p in (0.025, 0.975)]
    assert ends(found) == pytest.approx(students, rel=1e-3)


Ends = tuple[tuple[float, float], tuple[float, float]]
OFFSETS = [1.0, 1.012, 0.985, 1.006, 0.994]
LOADED = [[offset**power for offset in OFFSETS] for power in (1.0, -1.0, 0.5, 0.7)]
SLOWED = [OFFSETS[0], *(1.3 * offset for offset in OFFSETS[1:])]
KIND = [[1.0, 1.02, 1.04], [2.0, 2.04, 2.09], [3.0]]
EQUAL = [[1.0, 1.01, 1.02], [1.0, 1.1, 1.2], [1.0, 1.0, 1.0]]
INTERVALS: dict[str, tuple[Runs, Ends]] = {
    "one process by the spread of its kind": (KIND, ((0, 3 / 1.05), (3 * 1.05, 9))),
    "a disturbed process is reached": ([DISTURBED], ((0.085, 0.097), (0.267, 0.3))),
    "two far apart, from one to the other": ([[74.9, 87.1]], ((70, 74.9), (87.1, 93))),
    "equal to the last digit, by the spread of its kind": (EQUAL, ((0.5, 0.999), (1.001, 2))),
    "all but one slower by a load": ([*LOADED, SLOWED], ((0, 1), (1.3, 9))),
}
"""Of the last run, between which numbers its ends lie."""


@pytest.mark.parametrize("case", INTERVALS)
def test_an_interval_holds_what_processes_say(case: str) -> None:
    runs, expected = INTERVALS[case]
    found = combined(runs, None if case.startswith("all") else UNREPLICATED)[-1]
    assert DISTURBED not in runs or found.estimate.median == pytest.approx(math.sqrt(0.097 * 0.098))
    for end, (least, most) in zip(ends(found), expected, strict=True):
        assert least < end < most


def test_processes_that_agree_by_chance_are_not_surer_than_their_calls() -> None:
    """Three medians next to one another, of calls that scatter by 10%."""
    processes = [process(1.0 + 1e-9 * i, scatter=0.1, seed=i) for i in range(3)]
    (found,) = combine_processes([processes])
    half, *halves = (math.log(high / low) / 2 for low, high in map(ends, [found, *processes]))
    assert half == pytest.approx(math.sqrt(sum(each**2 for each in halves)) / 3, rel=0.15)


medians = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.lists(medians, min_size=1, max_size=5), min_size=1, max_size=5), medians)
def test_intervals_hold_the_value_and_do_not_depend_on_order_or_unit(
    kind: list[list[float]], unit: float
) -> None:
    def of(kind: list[list[float]], factor: float = 1.0) -> list[Replicated]:
        flat = [[Estimate(m * factor, 20, np.full(DRAWS, m * factor)) for m in r] for r in kind]
        return combine_processes(flat)

    found, turned = of(kind), of([run[::-1] for run in kind][::-1])[::-1]
    for each, other, run in zip(found, turned, kind, strict=True):
        low, high = ends(each)
        assert low <= each.estimate.median * (1 + 1e-9) and each.processes == len(run)
        assert high >= each.estimate.median * (1 - 1e-9)
        assert ends(other) == pytest.approx((low, high), rel=1e-6)
    if all(len(set(run)) == len(run) for run in kind):
        for each, other in zip(found, of(kind, unit), strict=True):
            assert other.estimate.median == pytest.approx(unit * each.estimate.median, rel=1e-9)


@pytest.mark.parametrize(
    ("runs", "slower", "kept"),
    [
        pytest.param([*QUIET, [1.0, 1.01, 1.8]], 1, [0, 1], id="slowed by a load"),
        pytest.param([*QUIET, [1.0, 1.01, 1.8]], 0, [0, 1, 2], id="of a ratio, either way"),
        pytest.param([*QUIET, [1.0, 1.01, 0.5]], -1, [0, 1], id="slower, of a rate"),
        pytest.param([*QUIET, [1.0, 1.8, 1.79]], 1, [0, 1, 2], id="all but one by the same load"),
        pytest.param([*QUIET, [1.8, 1, 1.79], [1, 1.01, 1.8]], 1, [0, 1, 2], id="two states"),
        pytest.param([QUIET[0], [2, 2, 3], [1, 1.01, 1.8]], 1, [0, 1, 2], id="too many for a load"),
    ],
)
def test_a_process_that_a_load_slowed_is_left_out_where_most_agree(
    runs: Runs, slower: int, kept: list[int]
) -> None:
    found = combined(runs, slower=slower)[-1]
    low, high = ends(found)
    assert [*found.kept] == kept and (high < 1.2 and low > 0.8) == (len(kept) == 2)


# Of a ratio over several settings together


def over(ones: Runs, others: Runs, calls: Floats | None = None) -> Ratio:
    """The ratio of two sides; `calls` spread the calls of each process around its median."""

    def processes(medians: Sequence[float]) -> Processes:
        return Processes([Estimate(m, 100, calls) for m in medians], [None] * len(medians))

    found = pooled_ratio(list(map(processes, ones)), list(map(processes, others)))
    assert found and found.low and found.high
    return found


def test_a_pooled_ratio_is_the_geometric_mean_and_the_inverse_of_the_inverse() -> None:
    ones, others = [[2.0, 2.1, 1.9], [8.0, 8.1, 8.3]], [[1.0, 1.01, 0.99], [1.0, 1.0, 1.02]]
    found, inverse = over(ones, others), over(others, ones)
    assert found.ratio == pytest.approx(math.exp(np.log(np.array(ones) / others).mean()))
    assert (found.value, found.pairs, found.verdict) == (2, 3, "above")
    assert (inverse.verdict, 1 / inverse.ratio) == ("below", pytest.approx(found.ratio))
    assert 1 / inverse.high == pytest.approx(found.low)


@pytest.mark.parametrize(("count", "rounds"), [(2, 0.0), (3, 0.0), (3, 0.03), (5, 0.03)])
def test_a_pooled_interval_holds_the_truth(count: int, rounds: float) -> None:
    """Processes differ by 2%, and whole rounds, which three tell, by so much more."""
    random, held, tries = np.random.default_rng(1), 0, 1000
    for _ in range(tries):
        of_round = random.normal(0, rounds, count)
        sides = np.exp(random.normal(0, 0.02, (2, 4, count)))
        sides[0] *= 1.3 * np.exp(of_round)
        found = over(*sides.tolist())
        held += found.low <= 1.3 <= found.high
    assert held / tries >= 0.92


def test_a_pooled_ratio_is_no_surer_than_the_calls_within_processes() -> None:
    """Processes whose medians agree by chance, each known to 20% alone."""
    side = [[1.0, 1.0]] * 2
    found = over(side, side, np.exp(np.linspace(-0.2, 0.2, DRAWS)))
    deviation = 0.2 / math.sqrt(3) * math.sqrt(8) / 4  # of a mean of four uniform differences
    assert math.log(found.high) == pytest.approx(1.96 * deviation, rel=0.1)
    assert found.low * found.high == pytest.approx(1)


# The margin

MARGIN: Mapping[str, Sequence[tuple[float | None, float | None]]] = {
    "above": [(1.06, 2.0), (1.0501, 2.0)],
    "below": [(0.5, 0.94), (0.5, 1 / 1.0501)],
    "equal": [(0.96, 1.04), (1 / 1.05, 1.05)],
    "inconclusive": [(0.95, 1.05), (1.04, 1.5), (0.5, 1.5), (None, None)],
}


@pytest.mark.parametrize("verdict", MARGIN)
def test_a_ratio_counts_only_where_its_interval_lies_beyond_the_margin(verdict: str) -> None:
    for low, high in MARGIN[verdict]:
        assert Ratio(128, 1.0, low, high, 30).verdict == verdict
