"""The statistics of identical code, on a small scale (the large one: docs/observations.md)."""

from __future__ import annotations

import pytest
from analysis.study.identical import (
    DISTURBANCES,
    INDEPENDENT,
    NOISES,
    score_fixed,
    score_noise,
    score_paired,
)

ONE_PROCESS = [name for name in NOISES if not name.startswith(("process", "states"))]
RUNS, PAIRS, RECORDINGS = 40, 500, 25


@pytest.mark.parametrize("noise", ONE_PROCESS)
def test_runs_as_measured_hold_the_truth_and_tell_what_is_plain(noise: str) -> None:
    score = score_noise(noise, RUNS, seed=1)
    assert score.held >= 0.85 * score.runs
    assert score.ratios_held >= 0.9 * score.ratios
    assert (score.false, score.in_doubt) == (0, 0)
    assert score.missed <= 0.1 * score.ratios


@pytest.mark.parametrize("noise", ONE_PROCESS[:7])
@pytest.mark.parametrize("calls", [10, 500])
def test_few_and_many_calls_make_no_difference_of_identical_code(noise: str, calls: int) -> None:
    score = score_noise(noise, RUNS, 2, calls)
    assert score.false == 0
    if (noise, calls) != ("warm-up left over", 10):
        assert score.ratios_held >= 0.9 * score.ratios


@pytest.mark.parametrize("calls", [10, 30])
def test_states_leave_a_doubt_and_hardly_a_difference(calls: int) -> None:
    score = score_noise(f"states of {calls} calls", RUNS, seed=3)
    assert score.in_doubt >= 0.95 * score.runs
    assert score.false <= 0.01 * score.ratios
    assert score.ratios_held >= 0.85 * score.ratios


@pytest.mark.parametrize(("sd", "processes"), [(0.006, 3), (0.012, 5), (0.02, 8)])
def test_intervals_hold_where_processes_differ(sd: float, processes: int) -> None:
    score = score_fixed(INDEPENDENT, sd, processes, PAIRS, seed=2)
    assert score.held >= 0.9 * score.runs
    assert score.ratios_held >= 0.92 * score.ratios
    assert score.false == 0
    assert score.missed <= 0.1 * score.ratios


def test_one_process_does_not_know_its_offset() -> None:
    score = score_fixed(INDEPENDENT, 0.02, 1, PAIRS, seed=2)
    assert score.held < 0.6 * score.runs


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_pairs_hold_and_are_narrower_where_cards_and_clocks_differ(disturbance: str) -> None:
    paired, independent = score_paired(disturbance, RECORDINGS, seed=2)
    assert paired.ratios_held >= 0.93 * paired.ratios
    assert paired.false == 0
    assert paired.width < (1.1 if disturbance == "none" else 0.6) * independent.width
