"""Doubts of a comparison: samples whose halves differ, and points off the line of their sweep."""

from __future__ import annotations

from typing import Any

from analysis.deriving import Plant, rows_of
from planted.experiments import noisy

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS
from flashlab.analysis.doubts import DIPS, HALVES_DIFFER, doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Runs, Warnings


def planted(experiment: Plant, later: float, **more: Any) -> Any:
    """Flash2's forward pass at N = 256 takes `later` times as long in the second half."""
    halves = [*noisy(1e-3), *(later * sample for sample in noisy(1e-3))]
    halved = {"forward": halves, "backward": 100, **more}
    return experiment({"Pytorch": (400, 400), "Flash2": (100, halved)})


def doubted(experiment: Runs) -> Warnings:
    """The doubts beside the warnings of its records."""
    return doubts([experiment], Estimates([experiment]))


def test_a_run_whose_halves_differ_casts_doubt_on_all_that_rests_on_it(experiment: Plant) -> None:
    halved = planted(experiment, later=1.7)
    warnings = doubted(halved)
    for compared in (IMPLEMENTATIONS, FIRST):
        for metric in ("forward_time", "backward_time"):
            for row in rows_of(halved, compared=compared, metric=metric, warnings=warnings):
                is_doubted = metric == "forward_time" and row["value"] == 256
                is_doubted &= "Flash2" in (row["subject"], row["reference"])
                assert (row["doubts"] == HALVES_DIFFER) is is_doubted


def test_steady_runs_and_a_drift_that_the_record_warns_of_are_not_doubted_again(
    experiment: Plant,
) -> None:
    assert doubted(planted(experiment, later=1.0)) == {}
    warned = [{"code": "drift", "metric": "forward_time", "share": 0.7}]
    assert doubted(planted(experiment, later=1.7, warnings=warned)) == {}


SIZES = (128, 256, 512, 1024)


def dips_of(experiment: Plant, **runs: Any) -> set[tuple[str, int]]:
    """The runs that are marked as odd points."""
    planted = experiment({name: dict(zip(SIZES, row, strict=True)) for name, row in runs.items()})
    found = doubted(planted)
    return {
        (each.run.implementation, int(each.run["seq_len"]))
        for each in planted.runs
        if any(warning["code"] == DIPS for warning in found.get(each.key, ()))
    }


def test_a_run_that_its_neighbours_leave_no_room_for_is_marked(experiment: Plant) -> None:
    """Times that grow as the operations, but at 512, where Flash2 alone takes twice as long."""
    steady, odd = (10, 40, 160, 640), (1, 4, 32, 64)
    assert dips_of(experiment, Pytorch=steady, Flash2=odd) == {("Flash2", 512)}


def test_a_point_that_is_as_odd_for_all_or_that_stays_so_is_none(experiment: Plant) -> None:
    both = {"Pytorch": (10, 40, 320, 640), "Flash2": (1, 4, 32, 64)}
    assert dips_of(experiment, **both) == set()
    cliff = {"Pytorch": (10, 40, 160, 640), "Flash2": (1, 4, 32, 120)}
    assert dips_of(experiment, **cliff) == set()
