from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.anomaly import outliers, unstable

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZES = (128, 256, 512, 1024, 2048)


def timed(noisy: Noisy, time: Callable[[int], float], sizes: Iterable[int]) -> dict[Any, Any]:
    return {
        ("Flash2", False, n): {"forward": noisy(time(n)), "backward": noisy(time(n) * 2)}
        for n in sizes
    }


def hits(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.verdict != "none"]


def test_calls_that_slow_down_are_unstable(sweep: Plant, noisy: Noisy) -> None:
    runs = timed(noisy, lambda n: n * 1e-6, SIZES)
    runs["Flash2", False, 512]["forward"] = [
        t * (1 if i < 20 else 1.3) for i, t in enumerate(noisy(1e-3))
    ]
    (found,) = hits(unstable(sweep(runs), Estimates()))
    assert (found.verdict, found.params["sign"]) == ("unstable", "drift")
    assert found.params["value"] == 512
    assert found.params["ratio"] == pytest.approx(1.3, rel=0.02)


def test_a_median_that_is_hardly_known_is_unstable(sweep: Plant, noisy: Noisy) -> None:
    runs = timed(noisy, lambda n: n * 1e-6, SIZES)
    shuffled = np.random.default_rng(1).permutation([1e-3, 2e-3] * 10).tolist()
    runs["Flash2", False, 512]["backward"] = shuffled
    (found,) = hits(unstable(sweep(runs), Estimates()))
    assert (found.params["sign"], found.metric) == ("spread", "backward_time")
    assert found.params["half_width"] == pytest.approx(33.3, abs=1)


def test_the_checks_that_found_nothing_are_counted(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(timed(noisy, lambda n: n * 1e-6, SIZES))
    (found,) = unstable(planted, Estimates())
    assert found.verdict == "none"
    assert found.params == {"checks": 10, "clean": 10}
    (found,) = outliers(planted, Estimates())
    assert (found.verdict, found.params["checks"]) == ("none", 6)  # 3 inner sizes, 2 metrics


@pytest.mark.parametrize("factor", [0.5, 1.6])
def test_a_record_far_from_the_power_law_of_its_neighbours_is_an_outlier(
    sweep: Plant, noisy: Noisy, factor: float
) -> None:
    runs = timed(noisy, lambda n: n**2 * 1e-9, SIZES)
    runs["Flash2", False, 512]["forward"] = noisy(512**2 * 1e-9 * factor)
    (found,) = hits(outliers(sweep(runs), Estimates()))
    params = {key: found.params[key] for key in ("value", "low_at", "high_at")}
    assert params == {"value": 512, "low_at": 256, "high_at": 1024}
    assert found.params["ratio"] == pytest.approx(factor, rel=0.03)


@pytest.mark.parametrize(
    "time",
    [
        lambda n: 1e-4 + n**2 * 1e-9,
        lambda n: max(1e-4, n**2 * 1e-9),
        lambda n: n**2 * 1e-9 * (3 if n >= 512 else 1),
        lambda n: n**2 * 1e-9 * (0.3 if n >= 512 else 1),
    ],
    ids=["launch added", "launch hidden", "step up", "step down"],
)
@pytest.mark.parametrize("sizes", [SIZES, SIZES[:4]])
def test_a_curve_that_bends_of_itself_contradicts_no_record(
    sweep: Plant, noisy: Noisy, time: Callable[[int], float], sizes: tuple[int, ...]
) -> None:
    assert hits(outliers(sweep(timed(noisy, time, sizes)), Estimates())) == []


def test_unstable_neighbours_contradict_nothing(sweep: Plant, noisy: Noisy) -> None:
    runs = timed(noisy, lambda n: n**2 * 1e-9, SIZES)
    runs["Flash2", False, 512]["forward"] = noisy(512**2 * 1e-9 * 2)
    steady = noisy(256**2 * 1e-9)
    runs["Flash2", False, 256]["forward"] = [
        t * (0.94 if i < 20 else 1.06) for i, t in enumerate(steady)
    ]
    assert hits(outliers(sweep(runs), Estimates())) == []


def test_few_samples_are_not_checked(sweep: Plant) -> None:
    runs = {("Flash2", False, n): {"forward": [1.0] * 5, "backward": [1.0] * 5} for n in SIZES}
    planted = sweep(runs)
    assert [*unstable(planted, Estimates()), *outliers(planted, Estimates())] == []
