"""Several processes of a run as one estimate, and which runs share their spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.ratios import ratio
from flashlab.analysis.replication import (
    UNREPLICATED,
    Replicated,
    Spread,
    combine_processes,
)
from flashlab.statistics import DRAWS, Estimate, estimate_median, interval_of

Runs = Sequence[Sequence[float]]
"""The medians of the processes of each run of a kind."""

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


def deviation(run: Sequence[float]) -> float:
    return float(np.std(np.log(run), ddof=1))


def students(median: float, spread: float, freedom: int, count: int) -> tuple[float, float]:
    """The interval of Student's t."""
    half = scipy.stats.t.ppf(0.975, freedom) * spread / math.sqrt(count)
    return median * math.exp(-half), median * math.exp(half)


def pooled(*runs: Sequence[float]) -> float:
    """The spread that runs share."""
    return math.sqrt(np.mean([deviation(run) ** 2 for run in runs]))


WILD, ONE, OTHER = [1.0, 1.05, 1.11], [1.0, 1.01, 1.03], [5.0, 5.06, 5.1]
STATES = [[1.07, 1.0, 1.07], [1.07, 1.07, 1.0], [1.0, 1.07, 1.0], [1.0, 1.0, 1.0001]]
SPREADS: Mapping[str, tuple[Runs, float, int]] = {
    "its own": ([ONE], deviation(ONE), 2),
    "shared by a kind": ([OTHER, ONE], pooled(OTHER, ONE), 4),
    "its own, of one that scatters more than the others": ([*CALM, WILD], deviation(WILD), 2),
    "theirs, of one that scatters less by chance": (STATES, pooled(*STATES), 8),
}


@pytest.mark.parametrize("case", SPREADS)
def test_a_value_is_the_geometric_mean_and_its_interval_students_by_the_spread(case: str) -> None:
    runs, spread, freedom = SPREADS[case]
    found = combined(runs)[-1]
    assert found.spread is not None and found.processes == 3 and found.estimate.count == 300
    assert (found.spread.deviation, found.spread.freedom) == (pytest.approx(spread), freedom)
    median = math.exp(np.log(runs[-1]).mean())
    assert found.estimate.median == pytest.approx(median)
    assert ends(found) == pytest.approx(students(median, spread, freedom, 3), rel=1e-3)


Ends = tuple[tuple[float, float], tuple[float, float]]
OFFSETS = [1.0, 1.012, 0.985, 1.006, 0.994]
LOADED = [[offset**power for offset in OFFSETS] for power in (1.0, -1.0, 0.5, 0.7)]
KIND = [[1.0, 1.02, 1.04], [2.0, 2.04, 2.09], [3.0]]
EQUAL = [[1.0, 1.01, 1.02], [1.0, 1.1, 1.2], [1.0, 1.0, 1.0]]
INTERVALS: dict[str, tuple[Runs, Ends]] = {
    "one process by the spread of its kind": (KIND, ((0, 3 / 1.05), (3 * 1.05, 9))),
    "a disturbed process is reached": ([DISTURBED], ((0.085, 0.097), (0.267, 0.3))),
    "beside calm runs, too": ([*CALM, DISTURBED], ((0.085, 0.097), (0.267, 0.3))),
    "two far apart, from one to the other": ([[74.9, 87.1]], ((70, 74.9), (87.1, 93))),
    "equal to the last digit, by the spread of its kind": (EQUAL, ((0.5, 0.999), (1.001, 2))),
}
for load in (1.1, 1.3, 2.0):
    slow = [OFFSETS[0], *(load * offset for offset in OFFSETS[1:])]
    INTERVALS[f"all but one slower by a load of {load}"] = ([*LOADED, slow], ((0, 1), (load, 9)))
"""Of the last run, between which numbers its ends lie."""


@pytest.mark.parametrize("case", INTERVALS)
def test_an_interval_holds_what_processes_say(case: str) -> None:
    runs, expected = INTERVALS[case]
    found = combined(runs, None if case.startswith("all") else UNREPLICATED)[-1]
    assert DISTURBED not in runs or found.estimate.median == pytest.approx(math.sqrt(0.097 * 0.098))
    for end, (least, most) in zip(ends(found), expected, strict=True):
        assert least < end < most


@given(st.floats(0.9, 1.1), st.floats(1e-6, 0.03))
def test_by_the_assumed_spread_no_two_single_processes_are_equal(
    factor: float, scatter: float
) -> None:
    runs = [[process(1.0, scatter)], [process(factor, scatter)]]
    one, other = combine_processes(runs, UNREPLICATED)
    assert ratio(0, other.estimate, one.estimate).verdict == "inconclusive"


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
    assert [*found.kept] == kept
    low, high = ends(found)
    assert (high < 1.2 and low > 0.8) == (len(kept) == 2)
