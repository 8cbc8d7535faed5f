"""A run whose samples changed halfway casts doubt on every finding that rests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flashlab.analysis.doubts import HALVES_DIFFER, with_doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.kinds.comparison import comparisons
from flashlab.analysis.kinds.scaling import scalings

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]


def planted(sweep: Plant, noisy: Noisy, later: float) -> Sweep:
    """Flash2's forward pass at N = 256 takes `later` times as long in the second half."""
    halves = [*noisy(1e-3), *(later * sample for sample in noisy(1e-3))]
    runs: dict[Any, Any] = {
        (name, False, n): {"forward": noisy(1e-3 * scale), "backward": noisy(1e-3 * scale)}
        for name, scale in (("Flash2", 1), ("Pytorch", 4))
        for n in (128, 256)
    }
    runs["Flash2", False, 256]["forward"] = halves
    return sweep(runs)


def test_a_run_whose_halves_differ_casts_doubt_on_all_that_rests_on_it(
    sweep: Plant, noisy: Noisy
) -> None:
    doubted = with_doubts(planted(sweep, noisy, later=1.7), Estimates())
    for kind in (comparisons, scalings):
        for finding in kind(doubted, Estimates()):
            expected = finding.metric == "forward_time" and "Flash2" in finding.implementations
            assert (HALVES_DIFFER in finding.warnings) is expected


def test_steady_runs_are_not_doubted(sweep: Plant, noisy: Noisy) -> None:
    steady = planted(sweep, noisy, later=1.0)
    assert with_doubts(steady, Estimates()).runs == steady.runs


def test_a_drift_that_the_record_warns_of_is_named_once(sweep: Plant, noisy: Noisy) -> None:
    found = planted(sweep, noisy, later=1.7)
    warned = [{"code": "drift", "metric": "forward_time", "share": 0.7}]
    runs = [{**row, "warnings": warned} for row in found.runs]
    assert with_doubts(replace(found, runs=runs), Estimates()).runs == runs
