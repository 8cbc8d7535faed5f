"""A run whose samples changed halfway casts doubt on every finding that rests on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.deriving import Plant, derived
from planted.experiments import noisy

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.kinds.anomaly import HALVES_DIFFER, with_doubts
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.scaling import SCALING


def planted(experiment: Plant, later: float) -> Any:
    """Flash2's forward pass at N = 256 takes `later` times as long in the second half."""
    halves = [*noisy(1e-3), *(later * sample for sample in noisy(1e-3))]
    return experiment(
        {"Pytorch": (400, 400), "Flash2": (100, {"forward": halves, "backward": 100})}
    )


def test_a_run_whose_halves_differ_casts_doubt_on_all_that_rests_on_it(experiment: Plant) -> None:
    doubted = with_doubts(planted(experiment, later=1.7), Estimates())
    for kind in (COMPARISON, SCALING):
        for finding in derived(kind, doubted):
            expected = finding.metric == "forward_time" and "Flash2" in finding.implementations
            assert (HALVES_DIFFER in finding.warnings) is expected


def test_steady_runs_and_a_drift_that_the_record_warns_of_are_not_doubted_again(
    experiment: Plant,
) -> None:
    steady = planted(experiment, later=1.0)
    assert with_doubts(steady, Estimates()).runs == steady.runs
    warned = [{"code": "drift", "metric": "forward_time", "share": 0.7}]
    found = planted(experiment, later=1.7)
    runs = [{**row, "warnings": warned} for row in found.runs]
    assert with_doubts(replace(found, runs=runs), Estimates()).runs == runs
