from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from findings.lookups import excluded_run, the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.monotonicity import monotonicities

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]


def direction(sweep: Sweep, metric: str = "forward_time") -> Finding:
    return the_one(monotonicities(sweep, Estimates()), metric)


def timed(noisy: Noisy, times: list[float], **options: Any) -> dict[Any, Any]:
    sizes = [128 * 2**i for i in range(len(times))]
    return {
        ("Flash2", False, size): {"forward": noisy(time, **options)}
        for size, time in zip(sizes, times, strict=True)
    }


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([1.0, 2.0, 2.02, 4.0], "rises"),
        ([4.0, 3.0, 2.0, 1.99], "falls"),
        ([1.0, 1.01, 0.99, 1.0], "level"),
    ],
)
def test_what_goes_one_way_is_monotone(
    sweep: Plant, noisy: Noisy, times: list[float], expected: str
) -> None:
    found = direction(sweep(timed(noisy, times)))
    assert (found.verdict, found.params["direction"]) == ("monotone", expected)


@pytest.mark.parametrize(
    ("times", "fall", "rise"),
    [
        ([1.0, 2.0, 1.8, 1.5, 4.0], (256, 1024, 0.75), (128, 2048, 4.0)),
        ([4.0, 1.0, 1.3], (128, 256, 0.25), (256, 512, 1.3)),
        ([1.0, 0.4, 1.2, 0.7], (128, 256, 0.4), (256, 512, 3.0)),  # it ends lower than it begins
    ],
)
def test_of_what_goes_both_ways_the_deepest_fall_and_the_highest_rise_are_named(
    sweep: Plant,
    noisy: Noisy,
    times: list[float],
    fall: tuple[int, int, float],
    rise: tuple[int, int, float],
) -> None:
    found = direction(sweep(timed(noisy, times)))
    assert found.verdict == "broken"
    for name, (start, end, ratio) in (("fall", fall), ("rise", rise)):
        assert (found.params[f"{name}_from"], found.params[f"{name}_to"]) == (start, end)
        assert found.params[f"{name}_ratio"] == pytest.approx(ratio, rel=0.03)


def test_small_falls_add_up_to_a_break(sweep: Plant, noisy: Noisy) -> None:
    found = direction(sweep(timed(noisy, [1.0, 2.0, 1.92, 1.84, 1.77])))
    assert found.verdict == "broken"
    assert (found.params["fall_from"], found.params["fall_to"]) == (256, 2048)


def test_noise_decides_nothing(sweep: Plant, noisy: Noisy) -> None:
    found = direction(sweep(timed(noisy, [1.0, 1.01, 1.02], count=12, spread=0.4)))
    assert found.verdict == "inconclusive"


def test_memory_is_exact_so_that_any_printed_digit_counts(sweep: Plant) -> None:
    peaks = {128: 100.0, 256: 103.0, 512: 102.0}
    runs = {("Flash2", False, n): {"peak": peak} for n, peak in peaks.items()}
    found = direction(sweep(runs), "peak_memory")
    assert (found.verdict, found.params["fall_ratio"]) == ("broken", 0.99)


def test_a_direction_is_withheld_where_runs_are_missing_and_names_them(
    sweep: Plant, noisy: Noisy
) -> None:
    found = direction(sweep(timed(noisy, [1.0]) | {("Flash2", False, 256): "error"}))
    assert (found.verdict, found.params["count"]) == ("inconclusive", 1)
    assert found.reasons == [excluded_run("Flash2", 256, "error")]
