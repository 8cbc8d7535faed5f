"""Several processes of a run as one estimate, and which runs share their spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.ratios import ratio
from flashlab.analysis.replication import (
    UNREPLICATED,
    Replicated,
    agreed_value,
    agreeing,
    combine_processes,
    tells_spread,
)
from flashlab.statistics import DRAWS, Estimate, estimate_median, interval_of

EXACT = 1e-6
"""Scatter of calls that is nothing beside that between processes."""


def process(median: float, scatter: float = EXACT, seed: int = 0) -> Estimate:
    """A process of 100 calls around a median."""
    calls = np.random.default_rng(seed).normal(0, scatter, 100)
    return estimate_median((median * np.exp(calls - np.median(calls))).tolist())


def combined(*runs: Sequence[float], **options: Any) -> list[Replicated]:
    """Runs of a kind, each of processes around these medians."""
    return combine_processes([[process(median) for median in run] for run in runs], **options)


def ends_of(estimate: Estimate) -> tuple[float, float]:
    interval = interval_of(estimate)
    assert interval is not None
    return interval


def ends(found: Replicated) -> tuple[float, float]:
    return ends_of(found.estimate)


def test_one_process_of_a_kind_without_others_is_left_as_it_is() -> None:
    one, other = process(1.0), process(2.0)
    found = combine_processes([[one], [other]])
    assert [each.estimate for each in found] == [one, other]
    assert found[0].estimate is one
    assert (found[0].spread, found[0].processes) == (None, 1)


def test_the_value_is_the_geometric_mean_and_the_interval_students() -> None:
    medians = [1.0, 1.01, 1.03]
    (found,) = combined(medians)
    logs = np.log(medians)
    half = scipy.stats.t.ppf(0.975, 2) * np.std(logs, ddof=1) / math.sqrt(3)
    assert found.estimate.median == pytest.approx(math.exp(logs.mean()))
    expected = (math.exp(logs.mean() - half), math.exp(logs.mean() + half))
    assert ends(found) == pytest.approx(expected, rel=1e-4)
    assert found.estimate.count == 300
    assert found.spread is not None
    assert (found.processes, found.spread.freedom) == (3, 2)
    assert found.spread.deviation == pytest.approx(np.std(logs, ddof=1))


def test_runs_of_a_kind_share_their_spread() -> None:
    one, other = [1.0, 1.01, 1.02], [5.0, 5.06, 5.1]
    found = combined(one, other)
    variances = [np.var(np.log(run), ddof=1) for run in (one, other)]
    for each in found:
        assert each.spread is not None
        assert each.spread.freedom == 4
        assert each.spread.deviation == pytest.approx(math.sqrt(np.mean(variances)))


def test_a_run_that_scatters_more_than_the_others_is_judged_by_its_own_spread() -> None:
    calm = [[1.0, 1.01, 1.02 + 0.001 * i] for i in range(6)]
    wild = [1.0, 1.05, 1.11]
    found = combined(*calm, wild)
    spread = found[-1].spread
    assert spread is not None
    assert spread.freedom == 2
    assert spread.deviation == pytest.approx(np.std(np.log(wild), ddof=1))
    low, high = ends(found[-1])
    assert low < 1 / 1.05 < 1.15 < high
    assert high - low > 4 * (ends(found[0])[1] - ends(found[0])[0])


def test_a_run_that_scatters_less_than_the_others_does_so_by_chance() -> None:
    """As one whose processes all were in the same one of two states."""
    states = [[1.0, 1.07, 1.0], [1.07, 1.0, 1.07], [1.0, 1.0, 1.0001], [1.07, 1.07, 1.0]]
    found = combined(*states)
    spreads = {each.spread for each in found}
    assert len(spreads) == 1 and {spread.freedom for spread in spreads if spread} == {8}


def test_one_process_is_judged_by_the_spread_of_its_kind() -> None:
    runs = [[1.0, 1.02, 1.04], [2.0, 2.04, 2.09], [3.0]]
    found = combined(*runs)
    low, high = ends(found[-1])
    assert low < 3 / 1.05 < 3 * 1.05 < high
    assert found[-1].processes == 1


def test_a_spread_is_assumed_where_none_was_measured() -> None:
    alone, other = combined([1.0], [2.0], unreplicated=UNREPLICATED)
    assert alone.spread == other.spread == UNREPLICATED
    half = scipy.stats.t.ppf(0.975, UNREPLICATED.freedom) * UNREPLICATED.deviation
    assert ends(alone) == pytest.approx((math.exp(-half), math.exp(half)), rel=1e-4)
    (borrowed, _) = combined([1.0], [1.0, 1.0001, 1.0002], unreplicated=UNREPLICATED)
    assert borrowed.spread is not None and borrowed.spread.deviation < 0.001


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
    half_widths = [math.log(high / low) / 2 for low, high in map(ends_of, processes)]
    low, high = ends(found)
    expected = math.sqrt(sum(half**2 for half in half_widths)) / 3
    assert math.log(high / low) / 2 == pytest.approx(expected, rel=0.15)


def test_processes_that_agree_to_the_last_digit_borrow_the_spread_of_their_kind() -> None:
    runs = [[1.0, 1.0, 1.0], [1.0, 1.01, 1.02], [1.0, 1.1, 1.2]]
    found = combined(*runs)
    assert found[0].spread is not None
    assert found[0].spread.deviation > 0


def test_a_single_process_without_an_interval_leaves_a_value_alone() -> None:
    (found,) = combine_processes([[Estimate(4.0, 1, None)]])
    assert found.estimate.median == pytest.approx(4.0)
    assert found.estimate.quantiles is None


def test_processes_of_one_call_each_have_the_interval_of_students_t() -> None:
    medians = [1.0, 1.02, 1.05]
    (found,) = combine_processes([[Estimate(median, 1, None) for median in medians]])
    logs = [math.log(median) for median in medians]
    half = 4.303 * statistics.stdev(logs) / math.sqrt(3)  # t of two degrees of freedom
    low, high = ends(found)
    assert math.log(high / low) / 2 == pytest.approx(half, rel=0.01)


def test_a_disturbed_process_is_no_part_of_the_value_and_the_interval_reaches_to_it() -> None:
    calm = [[1.0, 1.01, 1.02 + 0.001 * i] for i in range(6)]
    disturbed = [0.267, 0.097, 0.098]
    for kind in ([disturbed], [*calm, disturbed]):
        found = combined(*kind, unreplicated=UNREPLICATED)[-1]
        assert found.estimate.median == pytest.approx(math.sqrt(0.097 * 0.098))
        low, high = ends(found)
        assert 0.085 < low < 0.097 and 0.267 < high < 0.3


def test_two_processes_far_apart_are_an_interval_from_the_one_to_the_other() -> None:
    (alone,) = combined([74.9], unreplicated=UNREPLICATED)
    (both,) = combined([74.9, 87.1], unreplicated=UNREPLICATED)
    low, high = ends(both)
    assert 70 < low < 74.9 and 87.1 < high < 93
    assert math.log(high / low) < 10 * math.log(ends(alone)[1] / ends(alone)[0])


def test_two_processes_near_one_another_are_surer_than_one() -> None:
    one, two = (combined(run, unreplicated=UNREPLICATED)[0] for run in ([1.0], [1.0, 1.001]))
    assert ends(one)[0] < ends(two)[0] < ends(two)[1] < ends(one)[1]


@pytest.mark.parametrize(
    ("counts", "known"),
    [([1], False), ([2], False), ([2, 2, 1], False), ([3], True), ([2, 2, 2], True)],
)
def test_how_many_processes_tell_a_spread(counts: list[int], known: bool) -> None:
    assert tells_spread(counts) is known


def test_groups_are_apart_by_more_than_the_margin_and_by_far() -> None:
    assert sorted(agreeing([1.0, 1.2, 1.001, 1.199, 1.0]) or ()) == [0, 2, 4]
    alike = ([1.0, 1.0, 1.04], [1.0, 1.05, 1.2], [1.0, 1.0, 1.2, 1.2], [1.0, 1.2])
    assert list(map(agreeing, alike)) == [None] * 4
    assert agreed_value([2.0, 2.0, 1.0]) == pytest.approx(2.0)


medians = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.lists(medians, min_size=1, max_size=5), min_size=1, max_size=5), medians)
def test_intervals_hold_the_value_and_do_not_depend_on_order_or_unit(
    kind: list[list[float]], unit: float
) -> None:
    def scaled(kind: list[list[float]], factor: float = 1.0) -> list[Replicated]:
        return combine_processes(
            [[Estimate(m * factor, 20, np.full(DRAWS, m * factor)) for m in run] for run in kind]
        )

    found = scaled(kind)
    for each, run in zip(found, kind, strict=True):
        assert each.estimate.quantiles is not None
        assert np.all(np.diff(each.estimate.quantiles) >= 0)
        low, high = ends(each)
        assert low <= each.estimate.median * (1 + 1e-9)
        assert high >= each.estimate.median * (1 - 1e-9)
        assert each.processes == len(run)
    for each, other in zip(found, scaled([run[::-1] for run in kind][::-1])[::-1], strict=True):
        assert ends(each) == pytest.approx(ends(other), rel=1e-6)
    if all(len(set(run)) == len(run) for run in kind):
        for each, other in zip(found, scaled(kind, unit), strict=True):
            assert other.estimate.median == pytest.approx(unit * each.estimate.median, rel=1e-9)


@pytest.mark.parametrize("load", [1.1, 1.3, 2.0])
def test_where_all_processes_but_one_are_slow_by_one_load_the_interval_holds_the_one(
    load: float,
) -> None:
    offsets = [1.0, 1.012, 0.985, 1.006, 0.994]
    quiet = [[offset**power for offset in offsets] for power in (1.0, -1.0, 0.5, 0.7)]
    low, high = ends(combined(*quiet, [offsets[0], *(load * each for each in offsets[1:])])[-1])
    assert low < 1 < load < high


QUIET = [[1.0, 1.01, 0.99], [2.0, 1.98, 2.01], [4.0, 4.03, 3.98]]


@pytest.mark.parametrize(
    ("runs", "slower", "kept"),
    [
        ([*QUIET, [1.0, 1.01, 1.8]], 1, [0, 1]),
        ([*QUIET, [1.0, 1.01, 1.8]], 0, [0, 1, 2]),  # of a ratio nothing says which way a load is
        ([*QUIET, [1.0, 1.01, 1.8]], -1, [0, 1, 2]),  # faster than the others
        ([*QUIET, [1.0, 1.01, 0.5]], -1, [0, 1]),
        ([*QUIET, [1.0, 1.8, 1.79]], 1, [0, 1, 2]),  # all but one by the same load
        ([*QUIET, [1.8, 1.0, 1.79], [1.0, 1.01, 1.8]], 1, [0, 1, 2]),  # two states
        ([*QUIET, [1.0, 1.01, 1.8, 1.79], [1.0, 1.01, 1.8]], 1, [0, 1, 2]),  # so are these
        ([QUIET[0], [2.0, 2.0, 3.0], [1.0, 1.01, 1.8]], 1, [0, 1, 2]),  # too many for a load
    ],
)
def test_a_process_that_a_load_slowed_is_left_out_where_most_agree(
    runs: list[list[float]], slower: int, kept: list[int]
) -> None:
    found = combined(*runs, slower=slower)[-1]
    assert [*found.kept] == kept
    low, high = ends(found)
    assert (high < 1.2 and low > 0.8) == (len(kept) == 2)


def test_a_run_that_is_odd_hides_no_other_one() -> None:
    """Both have their own spread, and the rest theirs: none is pooled with what is odd."""
    usual = [[1 + 0.001 * i, 1, 1 - 0.001 * i] for i in range(1, 7)]
    alone, beside = combined(*usual), combined(*usual, [1, 1.001, 1.2], [1, 0.999, 9])
    assert [ends(each) for each in beside[:6]] == [pytest.approx(ends(each)) for each in alone]
