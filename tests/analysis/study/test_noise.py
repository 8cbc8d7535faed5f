"""The statistics of identical code, on a small scale (the large one: docs/observations.md)."""

from __future__ import annotations

import pytest
from analysis.study.noise import NOISES, score_noise

STEADY = [name for name in NOISES if not name.startswith("states")]
RUNS = 40


@pytest.mark.parametrize("noise", STEADY)
def test_runs_as_measured_hold_the_truth_and_tell_what_is_plain(noise: str) -> None:
    score = score_noise(noise, RUNS, seed=1)
    assert score.held >= 0.85 * score.runs
    assert score.ratios_held >= 0.9 * score.ratios
    assert (score.false, score.in_doubt) == (0, 0)
    assert score.missed <= 0.1 * score.ratios


@pytest.mark.parametrize("noise", STEADY[:7])
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
