"""Medians with their intervals, and functions of them: how often they hold, and where none is.

The statistics of whole comparisons are another study's (`analysis.study`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from analysis.study.noise import NOISES
from hypothesis import given
from hypothesis import strategies as st

from flashlab.statistics import (
    Estimate,
    Floats,
    estimate_median,
    function_estimate,
    interval_of,
    median_interval,
)


def ends(samples: Sequence[float] | Floats) -> tuple[float, float]:
    """The interval of a median, which there is."""
    interval = median_interval(samples)
    return interval.low, interval.high


@pytest.mark.parametrize(
    ("noise", "count", "runs", "least"),
    [
        ("lognormal", 30, 2000, 0.93),
        ("5% of calls slow", 30, 2000, 0.93),
        ("AR(1), rho 0.9", 300, 500, 0.91),
    ],
)
def test_the_medians_interval_covers_it_as_often_as_it_says(
    noise: str, count: int, runs: int, least: float
) -> None:
    random = np.random.default_rng(5)
    found = [ends(NOISES[noise](random, count)) for _ in range(runs)]
    assert sum(low <= 1 <= high for low, high in found) >= least * runs


def test_there_is_no_interval_under_six_samples() -> None:
    interval = median_interval(range(1, 6))
    assert (interval.low, interval.median, interval.high) == (None, 3, None)
    assert interval.relative_half_width == float("inf")


@given(st.lists(st.floats(1e-9, 1e3), min_size=6, max_size=60))
def test_the_interval_holds_the_median_and_stays_within_the_samples(samples: list[float]) -> None:
    low, high = ends(samples)
    assert min(samples) <= low <= median_interval(samples).median <= high <= max(samples)


def between(function: Callable[..., Any], *samples: Sequence[float]) -> Any:
    """The interval of a function of the medians of these samples."""
    return interval_of(function_estimate(function, [*map(estimate_median, samples)]))


@pytest.mark.parametrize(("function", "truth"), [(operator.add, 4.0), (operator.truediv, 3.0)])
def test_the_interval_of_a_function_covers_it_as_often_as_it_says(
    function: Callable[..., Any], truth: float
) -> None:
    random, covered = np.random.default_rng(7), 0
    for _ in range(300):
        pair = random.lognormal(sigma=0.2, size=(2, 30)) * np.array([[3.0], [1.0]])
        low, high = between(function, *pair.tolist())
        covered += low <= truth <= high
    assert covered >= 0.93 * 300


side = st.lists(st.floats(0.5, 2), min_size=10, max_size=20)


@given(side, side)
def test_to_exchange_the_sides_of_a_ratio_inverts_its_interval(
    a: list[float], b: list[float]
) -> None:
    low, high = between(operator.truediv, a, b)
    assert between(operator.truediv, b, a) == pytest.approx((1 / high, 1 / low), rel=1e-12)


def test_there_is_no_interval_of_a_function_under_ten_samples() -> None:
    enough, few = [1.0] * 10, [1.0] * 9
    assert between(operator.add, enough, few) is between(operator.add, few, enough) is None
    assert between(operator.truediv, enough, enough) == (1.0, 1.0)
    mixed = [Estimate(1.0, 1, None), estimate_median(enough)]
    assert interval_of(function_estimate(operator.add, mixed)) is None
