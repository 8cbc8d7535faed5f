from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from flashlab.statistics import (
    RESAMPLES,
    function_interval,
    median_interval,
    resampled_median,
)

times = st.floats(1e-9, 1e3)


def test_the_medians_interval_covers_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    draws = random.lognormal(mean=0.0, sigma=0.5, size=(2000, 30))  # median 1
    slow = random.random(draws.shape) < 0.05
    for samples in (draws, np.where(slow, draws * 1.2, draws)):
        intervals = [median_interval(sample) for sample in samples]
        true_median = 1.0 if samples is draws else 1.008
        covered = [i.low <= true_median <= i.high for i in intervals if i.low and i.high]
        assert len(covered) == 2000
        assert np.mean(covered) >= 0.93


def test_the_median_of_two_thousand_equal_samples_is_known_exactly() -> None:
    interval = median_interval([0.25] * 2000)
    assert (interval.low, interval.median, interval.high) == (0.25, 0.25, 0.25)
    assert interval.relative_half_width == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_there_is_no_interval_under_five_samples(count: int) -> None:
    interval = median_interval(range(1, count + 1))
    assert (interval.low, interval.high) == (None, None)
    assert interval.median == (count + 1) / 2
    assert interval.relative_half_width == float("inf")


def test_ten_samples_give_the_interval_of_the_second_and_ninth() -> None:
    interval = median_interval([5, 3, 1, 2, 10, 9, 8, 7, 6, 4])
    assert (interval.low, interval.median, interval.high) == (2, 5.5, 9)


@given(st.lists(times, min_size=6, max_size=60), st.randoms())
def test_the_interval_holds_the_median_and_knows_no_order(
    samples: list[float], random: Random
) -> None:
    interval = median_interval(samples)
    assert interval.low is not None and interval.high is not None
    assert min(samples) <= interval.low <= interval.median <= interval.high <= max(samples)
    shuffled = list(samples)
    random.shuffle(shuffled)
    assert median_interval(shuffled) == interval


def test_more_samples_give_a_narrower_interval() -> None:
    samples = np.random.default_rng(1).lognormal(size=4000)
    widths = [median_interval(samples[:n].tolist()).relative_half_width for n in (40, 400, 4000)]
    assert widths == sorted(widths, reverse=True)


def interval_of(
    function: Callable[..., Any], samples: Mapping[str, Sequence[float]]
) -> tuple[float, float] | None:
    """The interval of a function of medians, each of which is resampled with its name as seed."""
    return function_interval(
        function, [resampled_median(values, seed) for seed, values in samples.items()]
    )


def test_the_bootstrap_gives_the_same_interval_at_every_call() -> None:
    a, b = np.random.default_rng(2).lognormal(size=(2, 20)).tolist()
    first = interval_of(operator.add, {"a": a, "b": b})
    assert first == interval_of(operator.add, {"a": a, "b": b})


def test_equal_samples_give_a_sum_without_width() -> None:
    assert interval_of(operator.add, {"a": [3.0] * 12, "b": [2.0] * 15}) == (5.0, 5.0)


def test_the_interval_of_a_sum_covers_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        a, b = (random.lognormal(sigma=0.2, size=(2, 30)) * np.array([[3.0], [1.0]])).tolist()
        low, high = interval_of(operator.add, {"a": a, "b": b}) or (0, 0)
        covered += low <= 4.0 <= high
    assert covered >= 0.93 * 300


def ratio_interval(a: list[float], b: list[float]) -> tuple[float, float] | None:
    return interval_of(operator.truediv, {"numerator": a, "denominator": b})


def test_a_median_is_resampled_once_and_alike_for_the_same_seed() -> None:
    sample = np.random.default_rng(2).lognormal(size=20).tolist()
    first, again, other = (resampled_median(sample, seed) for seed in ("a", "a", "b"))
    assert first.resampled is not None and again.resampled is not None
    assert first.resampled.shape == (RESAMPLES,)
    assert (first.resampled == again.resampled).all()
    assert (first.resampled != other.resampled).any()
    assert first.median == np.median(sample)


@pytest.mark.parametrize("count", [10, 11, 40])
def test_resampled_medians_are_what_numpy_gives(count: int) -> None:
    sample = np.random.default_rng(6).lognormal(size=count)
    plain = scipy.stats.bootstrap(
        [sample], np.median, n_resamples=RESAMPLES, method="percentile", random_state=1
    )
    interval = plain.confidence_interval
    estimate = resampled_median(sample.tolist(), "seed")
    found = function_interval(lambda median: median, [estimate])
    assert found == pytest.approx((interval.low, interval.high), rel=0.1)
    assert estimate.resampled is not None
    midpoints = {(a + b) / 2 for a in sample for b in sample}
    assert set(estimate.resampled.tolist()) <= midpoints


def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        pair = random.lognormal(sigma=0.2, size=(2, 30)) * np.array([[3.0], [1.0]])
        low, high = ratio_interval(*pair.tolist()) or (0, 0)
        covered += low <= 3.0 <= high
    assert covered >= 0.93 * 300


def test_the_interval_of_a_ratio_is_what_resampling_both_at_once_gives() -> None:
    a, b = np.random.default_rng(4).lognormal(sigma=0.1, size=(2, 40)).tolist()

    def ratio(x: Any, y: Any, axis: int = -1) -> Any:
        return np.median(x, axis=axis) / np.median(y, axis=axis)

    both = scipy.stats.bootstrap(
        (a, b), ratio, n_resamples=RESAMPLES, method="percentile", random_state=1
    ).confidence_interval
    assert ratio_interval(a, b) == pytest.approx((both.low, both.high), rel=0.01)


def test_there_is_no_bootstrap_under_ten_samples() -> None:
    enough, few = [1.0] * 10, [1.0] * 9
    for pair in ([enough, few], [few, enough]):
        assert interval_of(operator.add, dict(zip("ab", pair, strict=True))) is None
        assert ratio_interval(*pair) is None
    assert ratio_interval(enough, enough) == (1.0, 1.0)
