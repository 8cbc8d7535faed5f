"""Runs that were measured in several processes, and what their spread decides."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived, quoted, the_one
from planted.experiments import noisy

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.kinds.anomaly import ANOMALY, HALVES_DIFFER, with_doubts
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.processes import PROCESSES

NOISE = {"spread": 0.001}
NEAR = [1.0, 1.01, 1.02]


def of_both(pytorch: list[Any], flash2: list[Any]) -> dict[str, Any]:
    """The processes of each run of either implementation."""
    return {"Pytorch": [pytorch] * 4, "Flash2": [flash2] * 4}


@pytest.mark.parametrize(
    ("runs", "verdict", "counts"),
    [
        (of_both([1.0], [1.1]), "single", None),
        (of_both(NEAR, [1.0, 1.04, 1.08]), "repeated", (3, 3)),
        ({"Pytorch": [NEAR], "Flash2": ([1.0], NEAR, NEAR)}, "varied", (1, 3)),
    ],
)
def test_the_processes_of_each_run_are_counted(
    experiment: Plant, runs: Any, verdict: str, counts: tuple[int, int] | None
) -> None:
    (found,) = derived(PROCESSES, experiment(runs, **NOISE))
    told = quoted(found)
    assert found.verdict == verdict
    assert (told.get("fewest"), told.get("most")) == (counts or (None, None))
    if verdict == "repeated":  # with the spread between them
        assert told["implementation"] == "Flash2"
        assert float(told["largest"]) == pytest.approx(3.9, abs=0.15)
        assert 0.9 < float(told["middle"]) < 4


@pytest.mark.parametrize(
    ("pytorch", "flash2", "verdict"),
    [
        # By 8%, as far as the processes of either side differ.
        ([1.08, 1.16, 1.08], [1.0, 1.08, 1.0], "inconclusive"),
        ([1.08], [1.0], "inconclusive"),  # a spread is assumed
        ([1.15], [1.0], "better"),
        ([1.0], [1.0], "inconclusive"),
        ([1.5, 1.51, 1.52], NEAR, "better"),
    ],
)
def test_a_difference_is_stated_beyond_the_spread_of_processes(
    experiment: Plant, pytorch: list[float], flash2: list[float], verdict: str
) -> None:
    planted = experiment(of_both(pytorch, flash2), **NOISE)
    assert the_one(COMPARISON, planted).verdict == verdict


def test_a_process_that_drifts_makes_its_run_unstable(experiment: Plant) -> None:
    times = [*noisy(1e-5, 20, 0.001), *noisy(1.3e-5, 20, 0.001)]
    drifting = [1.0, {"forward": times, "backward": 1.0}, 1.02]
    planted = experiment({"Pytorch": (NEAR, drifting), "Flash2": (NEAR, NEAR)}, **NOISE)
    signs = [f.facts for f in derived(ANOMALY, planted) if f.facts.get("sign") == "drift"]
    assert [facts["value"] for facts in signs] == [256]
    doubted = with_doubts(planted, Estimates())
    assert HALVES_DIFFER in the_one(COMPARISON, doubted).warnings
