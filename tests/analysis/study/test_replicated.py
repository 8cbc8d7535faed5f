"""Runs in several processes, on a small scale (the large one: docs/findings.md)."""

from __future__ import annotations

import pytest
from analysis.study.replicated import SHORT, UNEQUAL, score_adaptive, score_fixed

PAIRS = 500


@pytest.mark.parametrize(("sd", "processes"), [(0.006, 3), (0.012, 5), (0.02, 8)])
def test_intervals_hold_where_processes_differ(sd: float, processes: int) -> None:
    score = score_fixed(SHORT, sd, processes, PAIRS, seed=2)
    assert score.held / score.runs >= 0.9
    assert score.ratio_held / score.pairs >= 0.92
    assert score.false == 0
    assert score.missed / score.pairs <= 0.1


def test_one_process_does_not_know_its_offset() -> None:
    score = score_fixed(SHORT, 0.02, 1, PAIRS, seed=2)
    assert score.held / score.runs < 0.6


def test_added_processes_find_what_three_miss_and_state_no_difference_of_identical_code() -> None:
    score = score_adaptive(SHORT, 0.012, PAIRS // 5, seed=2)
    assert 3 <= score.processes / score.runs < 5
    assert score.ratio_held / score.pairs >= 0.92
    assert score.false == 0
    assert score.missed / score.pairs <= 0.05


@pytest.mark.parametrize("factors", UNEQUAL.values(), ids=UNEQUAL)
def test_runs_that_scatter_unequally_are_not_averaged(factors: tuple[float, ...]) -> None:
    score = score_fixed(SHORT, 0.006, 5, PAIRS, 2, factors)
    assert score.held / score.runs >= 0.9
    assert score.least_held >= 0.75
