"""A run has one estimate over the whole dataset, and verdicts rest on what is known of spreads."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from analysis.deriving import at_first, of_both, rows_of
from planted.experiments import Planter

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.pairing import RunEstimate
from flashlab.analysis.ratios import LATER_ERROR, ratio
from flashlab.statistics import CONFIDENCE, function_estimate, interval_of

NOISE = {"spread": 0.001}
CALM, WILD = [1.0, 1.001, 1.002], [1.0, 1.06, 0.97]
OFFSETS = (0.98, 1.0, 1.02)


def means(*factors: float) -> list[dict[str, Any]]:
    """Processes of the course's protocol, which gives a mean each."""
    return [{"forward": [1e-5 * factor], "means": True} for factor in factors]


def beside(flash2: Any, pytorch: Any) -> Mapping[str, Any]:
    return {"Pytorch": [pytorch] * 4, "Flash2": [flash2] * 4}


OPEN = ["inconclusive"] * 4
CASES: Mapping[str, tuple[Mapping[str, Any], list[str], list[str]]] = {
    "several calm processes": (
        {"Pytorch": (1.0, 4.0, 16.0, 64.0), "Flash2": (1.0, 2.0, 8.0, 16.0)},
        *(["equal", "below", "below", "below"], ["below"]),
    ),
    "single ones, where those of another one differ by 40%": (
        *({**beside([2.0], [2.2]), "Flex": [[1.0, 1.4]] * 4}, OPEN, []),
    ),
    "means that are far apart": (beside(means(1.0), means(9.0)), ["below"] * 4, []),
    "means within what single processes may differ": (beside(means(1.0), means(1.08)), OPEN, []),
    "8.5% at single settings, which are decided together": (
        {
            "Pytorch": [[1.085 * f for f in np.roll(OFFSETS, i)] for i in range(4)],
            "Flash2": [[*np.roll(OFFSETS, 2 * i)] for i in range(4)],
        },
        *(OPEN, ["below"]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_is_as_sure_as_processes_agree(planter: Planter, case: str) -> None:
    runs, verdicts, pooled = CASES[case]
    planted = planter.experiment(runs, **NOISE)
    found = [r for r in rows_of(planted) if (r["subject"], r["reference"]) != ("Flex", "Flash2")]
    assert [r["verdict"] for r in found if r["subject"] != "Flex"] == verdicts
    assert [r["verdict"] for r in rows_of(planted, pooled=True)] == pooled


@pytest.mark.parametrize("processes", [CALM, [1.0]], ids=["repeated", "alone"])
def test_a_run_has_one_verdict_in_whichever_experiment_it_stands(
    planter: Planter, processes: list[float]
) -> None:
    """Its headline too, where a run of one process alone borrows the spread of the sections."""
    runs = {name: [processes, WILD, WILD, WILD] for name in ("Flash2", "Pytorch")}
    headline = planter.experiment({n: row[:1] for n, row in runs.items()}, "summary", "", **NOISE)
    section = planter.experiment(runs, **NOISE)
    estimates = Estimates([headline, section])
    found, alone = of_both(headline, estimates), of_both(headline, Estimates([headline]))
    assert found == of_both(section, estimates)
    assert found.low and alone.low and found.low < 0.95 and alone.low > found.low


def test_a_ratio_that_is_looked_at_again_is_less_sure(planter: Planter) -> None:
    """Both runs have added processes: one of them had its own for another comparison."""
    more = [1.0, 1.01, 0.99, 1.01]
    runs = {"Flash2": [more, CALM, CALM, CALM], "Pytorch": [more, CALM, CALM, CALM]}
    planted = planter.experiment({**runs, "Flash4": [CALM] * 4}, **NOISE)
    of = at_first(planted, Estimates([planted]))
    looks = {name: found.looks for name, found in of.items() if isinstance(found, RunEstimate)}
    assert looks == {"Flash2": 1, "Pytorch": 1, "Flash4": 0}
    for other, error in (("Pytorch", LATER_ERROR), ("Flash4", 1 - CONFIDENCE)):
        found = ratio(128, of["Flash2"], of[other])
        independent = function_estimate(operator.truediv, (of["Flash2"], of[other]))
        assert (found.low, found.high) == interval_of(independent, error)
