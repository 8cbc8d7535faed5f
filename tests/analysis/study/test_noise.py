"""The statistics under noise of known kinds, on a small scale (the large one: docs/findings.md)."""

from __future__ import annotations

import pytest
from analysis.study.noise import NOISES, score_noise

ONE_PROCESS = [name for name in NOISES if not name.startswith(("process", "states"))]
RUNS = 60


@pytest.mark.parametrize("noise", ONE_PROCESS)
def test_runs_as_measured_hold_the_truth_and_tell_what_is_plain(noise: str) -> None:
    score = score_noise(NOISES[noise], RUNS, seed=1)
    assert score.median_held >= 0.85
    assert score.ratio_held >= 0.9
    assert (score.false, score.in_doubt) == (0, 0)
    assert score.missed <= 0.1


@pytest.mark.parametrize("noise", ONE_PROCESS[:7])
@pytest.mark.parametrize("calls", [10, 500])
def test_few_and_many_calls_make_no_difference_of_identical_code(noise: str, calls: int) -> None:
    score = score_noise(NOISES[noise], RUNS, 2, calls)
    assert score.false == 0
    if (noise, calls) != ("warm-up left over", 10):
        assert score.ratio_held >= 0.9


@pytest.mark.parametrize("calls", [10, 30])
def test_states_leave_a_doubt_and_hardly_a_difference(calls: int) -> None:
    score = score_noise(NOISES[f"states of {calls} calls"], RUNS, seed=3)
    assert score.in_doubt >= 0.95
    assert score.false <= 0.01
    assert score.ratio_held >= 0.85


def test_independent_calls_pay_little_for_what_dependent_ones_need() -> None:
    assert score_noise(NOISES["lognormal"], RUNS, 4, 200).width < 1.1
