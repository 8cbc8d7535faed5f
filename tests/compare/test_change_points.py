from __future__ import annotations

import random

import pytest

from flashlab.compare.change_points import find_changes


def planted(
    seed: int, levels: dict[int, float], count: int = 100, noise: float = 0.01
) -> list[float]:
    """Values around 1, or around the level of the last position before."""
    drawn, level, values = random.Random(seed), 1.0, []
    for position in range(count):
        level = levels.get(position, level)
        values.append(level * drawn.lognormvariate(0, noise))
    return values


@pytest.mark.parametrize("step", [1.1, 1 / 1.1, 1.2])
def test_a_step_of_a_tenth_is_found_once_three_commits_have_it(step: float) -> None:
    for seed in range(20):
        ((at, ratio),) = find_changes(planted(seed, {60: step}, count=63))
        assert abs(at - 60) <= 1
        assert ratio.low < step < ratio.high or abs(ratio.value / step - 1) < 0.02
        assert find_changes(planted(seed, {60: step}, count=61)) == []


def test_noise_is_no_change_at_whatever_commit_one_looks() -> None:
    alarms = [
        find_changes(planted(seed, {}, noise=0.02)[:count])
        for seed in range(10)
        for count in range(1, 101, 3)
    ]
    assert not any(alarms)


def test_a_step_within_the_margin_is_not_stated() -> None:
    assert find_changes(planted(1, {50: 1.03}, noise=0.002)) == []


def test_one_disturbed_commit_is_no_change() -> None:
    values = planted(1, {})
    values[70] *= 1.3
    assert find_changes(values) == []
    values[98] *= 1.3  # the last but one
    assert find_changes(values) == find_changes(values[:99]) == []


def test_a_slow_drift_is_no_step() -> None:
    values = [value * 1.1 ** (i / 100) for i, value in enumerate(planted(1, {}))]
    assert find_changes(values) == []


def test_several_steps_do_not_hide_one_another() -> None:
    changes = find_changes(planted(1, {30: 1.2, 60: 1.0, 80: 0.8}))
    assert [at for at, _ in changes] == [30, 60, 80]
    assert [ratio.value > 1 for _, ratio in changes] == [True, False, False]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_short_series_has_no_change(count: int) -> None:
    assert find_changes([1.0, 1.0, 1.0, 2.0, 2.0][:count]) == []


def test_exact_values_change_where_they_change() -> None:
    ((at, ratio),) = find_changes([10.0] * 5 + [12.0] * 3)
    assert (at, ratio.value) == (5, pytest.approx(1.2))
