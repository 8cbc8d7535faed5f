"""A run has one estimate over the whole dataset, and its comparisons their doubts."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from analysis.deriving import Plant, at_first, of_both, rows_of

from flashlab.analysis.comparison_rows import FIRST
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import INPUTS_DIFFER
from flashlab.analysis.pairing import RunEstimate
from flashlab.analysis.ratios import LATER_ERROR, ratio
from flashlab.statistics import CONFIDENCE, function_estimate, interval_of

NOISE = {"spread": 0.001}
CALM, WILD = [1.0, 1.001, 1.002], [1.0, 1.06, 0.97]


@pytest.mark.parametrize("processes", [CALM, [1.0]], ids=["repeated", "alone"])
def test_a_run_has_one_verdict_in_whichever_experiment_it_stands(
    experiment: Plant, processes: list[float]
) -> None:
    """Its headline too, where a run of one process alone borrows the spread of the sections."""
    runs = {name: [processes, WILD, WILD, WILD] for name in ("Flash2", "Pytorch")}
    headline = experiment({name: row[:1] for name, row in runs.items()}, "summary", "", **NOISE)
    section = experiment(runs, **NOISE)
    estimates = Estimates([headline, section])
    found = of_both(headline, estimates)
    assert found == of_both(section, estimates)
    assert found.low is not None and found.low < 0.95
    alone = of_both(headline, Estimates([headline]))
    assert alone.low is not None and alone.low > found.low


def test_single_processes_are_judged_by_the_spread_of_other_implementations(
    experiment: Plant,
) -> None:
    """If the processes of one differ by 40%, those of another may too."""
    wild = [[{"forward": 1.0}, {"forward": 1.4}]] * 4
    planted = experiment({"Flash2": wild, "Pytorch": [[2.0]] * 4, "Flex": [[3.0]] * 4}, **NOISE)
    of = at_first(planted, Estimates([planted]))
    assert ratio(128, of["Flex"], of["Pytorch"]).verdict == "inconclusive"


def test_a_ratio_that_is_looked_at_again_is_less_sure(experiment: Plant) -> None:
    """Both runs have added processes: one of them had its own for another comparison."""
    more = [1.0, 1.01, 0.99, 1.01]
    runs = {"Flash2": [more, CALM, CALM, CALM], "Pytorch": [more, CALM, CALM, CALM]}
    planted = experiment({**runs, "Flash4": [CALM] * 4}, **NOISE)
    of = at_first(planted, Estimates([planted]))
    looks = {name: found.looks for name, found in of.items() if isinstance(found, RunEstimate)}
    assert looks == {"Flash2": 1, "Pytorch": 1, "Flash4": 0}
    for other, error in (("Pytorch", LATER_ERROR), ("Flash4", 1 - CONFIDENCE)):
        found = ratio(128, of["Flash2"], of[other])
        independent = function_estimate(operator.truediv, (of["Flash2"], of[other]))
        assert (found.low, found.high) == interval_of(independent, error)


def given_as(inputs: str | None) -> list[dict[str, Any]]:
    sources = {"inputs": inputs} if inputs else {}
    return [{"forward": cost, "sources": sources} for cost in (1.0, 1.0, 4.0, 4.0)]


@pytest.mark.parametrize(
    ("one", "other", "doubts"),
    [
        ("separate", "packed", [INPUTS_DIFFER]),
        ("packed", "packed", []),
        ("separate", None, []),  # as of an older record
    ],
)
def test_runs_that_were_given_other_forms_of_inputs_are_marked(
    experiment: Plant, one: str | None, other: str | None, doubts: list[str]
) -> None:
    runs = {"Pytorch": given_as(one), "Flash2": given_as(other)}
    planted = experiment(runs, processes=1)
    assert {row["doubts"] for row in rows_of(planted)} == {" ".join(doubts)}
    assert {row["doubts"] for row in rows_of(planted, compared=FIRST)} == {""}


def test_a_clock_of_two_or_three_ticks_gives_no_interval_without_width(experiment: Plant) -> None:
    """2.4 ticks are read as two, by every call of every process of the one, not of the other."""
    tick = 1e-5
    coarse = {"forward": [2 * tick] * 20, "backward": [3 * tick, 2 * tick] * 10}
    other = {"forward": [3 * tick] * 20, "backward": [3 * tick] * 20}
    planted = experiment({"Pytorch": [[coarse] * 3] * 4, "Flash2": [[other] * 3] * 4})
    estimates = Estimates([planted])
    low, high = interval_of(at_first(planted, estimates)["Pytorch"]) or (0.0, 0.0)
    assert (low, high) == pytest.approx((1.5e3 * tick, 2.5e3 * tick))
    found = of_both(planted, estimates)
    assert found.low is not None and found.low < 3 / 2.4 < (found.high or 0)
