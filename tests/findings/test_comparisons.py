from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flashlab.findings.comparisons import causal_effects, memory_limits, memory_ratios, speedups
from flashlab.findings.model import Finding, Ratio, Sweep

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZES = (128, 256, 512, 1024)


def forward(findings: Iterable[Finding]) -> Finding:
    """The one finding on the forward pass."""
    (found,) = [finding for finding in findings if finding.subject["pass"] == "forward"]
    return found


def pair(noisy: Noisy, speedups: dict[int, float], **options: Any) -> dict[Any, Any]:
    """Flash2 this many times as fast as Pytorch at each value."""
    runs: dict[Any, Any] = {}
    for size, speedup in speedups.items():
        naive = size**2 * 1e-8
        runs["Pytorch", False, size] = {"forward": noisy(naive, **options)}
        runs["Flash2", False, size] = {"forward": noisy(naive / speedup, **options)}
    return runs


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.06, 2.0, "above"),
        (0.5, 0.94, "below"),
        (0.96, 1.04, "equal"),
        (0.95, 1.05, "equal"),
        (1.04, 1.5, "inconclusive"),
        (0.5, 1.5, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_a_ratio_counts_only_where_its_interval_lies_beyond_five_percent(
    low: float | None, high: float | None, verdict: str
) -> None:
    assert Ratio(128, 1.0, low, high, 30).verdict == verdict


# Speed


def test_a_kernel_that_is_faster_everywhere_is_faster(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(pair(noisy, {128: 2.0, 256: 3.0, 512: 4.0, 1024: 5.0}))
    found = forward(speedups(planted))
    assert found.verdict == "faster"
    assert found.subject == {
        "implementation": "Flash2",
        "baseline": "Pytorch",
        "pass": "forward",
        "mask": "full",
    }
    assert found.params["trend"] == "widens"
    assert (found.params["low_at"], found.params["high_at"]) == (128, 1024)
    assert found.params["low"] == pytest.approx(2.0, rel=0.02)
    assert found.params["high"] == pytest.approx(5.0, rel=0.02)
    assert found.params["faster_at"] == list(SIZES)
    assert found.evidence["n"] == 40
    assert len(found.evidence["estimates"]) == 4


def test_a_kernel_that_is_slower_everywhere_is_slower(sweep: Plant, noisy: Noisy) -> None:
    found = forward(speedups(sweep(pair(noisy, {128: 0.5, 256: 0.4}))))
    assert (found.verdict, found.params["trend"]) == ("slower", "narrows")


def test_identical_code_with_a_percent_of_drift_is_equivalent(sweep: Plant, noisy: Noisy) -> None:
    found = forward(speedups(sweep(pair(noisy, {128: 1.01, 256: 0.99, 512: 1.0}))))
    assert found.verdict == "equivalent"


def test_a_difference_within_the_noise_is_inconclusive(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(pair(noisy, {128: 1.06, 256: 1.05}, count=12, spread=0.3))
    assert forward(speedups(planted)).verdict == "inconclusive"


def test_a_kernel_that_wins_here_and_loses_there_is_mixed(sweep: Plant, noisy: Noisy) -> None:
    found = forward(speedups(sweep(pair(noisy, {128: 0.5, 256: 1.0, 512: 2.0}))))
    assert found.verdict == "mixed"
    assert found.params["slower_at"] == [128]
    assert found.params["equal_at"] == [256]
    assert found.params["faster_at"] == [512]


def test_means_alone_decide_nothing_and_say_why(sweep: Plant) -> None:
    none: dict[str, Any] = {"samples": {"forward": [], "backward": []}}
    runs = {
        ("Pytorch", False, 128): {"forward": [1.0], **none},
        ("Flash2", False, 128): {"forward": [0.1], **none},
    }
    found = forward(speedups(sweep(runs)))
    assert found.verdict == "inconclusive"
    assert found.reasons == ["no_samples"]
    assert found.params["low"] == 10


def test_a_run_that_failed_is_left_out_of_the_numbers_and_named(sweep: Plant, noisy: Noisy) -> None:
    runs = pair(noisy, {128: 2.0, 256: 2.0}) | {
        ("Pytorch", False, 512): "oom",
        ("Flash2", False, 512): {"forward": noisy(1.0)},
    }
    for found in (*speedups(sweep(runs)), *memory_ratios(sweep(runs))):
        assert (found.params["last"], found.params["count"]) == (256, 2)
        assert found.reasons == ["excluded: Pytorch seq_len=512: oom"]


def test_nothing_is_compared_where_the_baseline_has_no_result(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(
        {("Pytorch", False, 128): "error", ("Flash2", False, 128): {"forward": noisy(1.0)}}
    )
    assert [*speedups(planted), *memory_ratios(planted)] == []


def test_doubts_about_a_record_go_along_with_what_is_built_on_it(
    sweep: Plant, noisy: Noisy
) -> None:
    runs = pair(noisy, {128: 2.0})
    runs["Pytorch", False, 128]["warnings"] = [{"code": "drift"}, {"code": "cpu_load"}]
    assert forward(speedups(sweep(runs))).warnings == ["cpu_load", "drift"]


# Causal


def masked(noisy: Noisy, gain: float) -> dict[Any, Any]:
    return {
        ("Flash2", causal, size): {"forward": noisy(size * 1e-5 / (gain if causal else 1))}
        for size in SIZES
        for causal in (False, True)
    }


@pytest.mark.parametrize(
    ("gain", "verdict"), [(1.9, "faster"), (1.0, "same_time"), (0.7, "slower")]
)
def test_what_causal_masking_does_to_time_and_so_to_the_rate(
    sweep: Plant, noisy: Noisy, gain: float, verdict: str
) -> None:
    found = forward(causal_effects(sweep(masked(noisy, gain))))
    assert found.verdict == verdict
    assert found.params["low"] == pytest.approx(gain, rel=0.02)
    assert found.params["rate_low"] == pytest.approx(gain / 2, rel=0.02)


def test_one_mask_alone_shows_no_effect(sweep: Plant, noisy: Noisy) -> None:
    assert list(causal_effects(sweep(pair(noisy, {128: 2.0})))) == []


# Memory


@pytest.mark.parametrize(
    ("peaks", "verdict"),
    [
        ({128: 0.5, 256: 0.25}, "less"),
        ({128: 2.0, 256: 4.0}, "more"),
        ({128: 1.0, 256: 1.0}, "equal"),
        ({128: 0.5, 256: 2.0}, "mixed"),
        ({128: 0.9999, 256: 1.0}, "equal"),  # as the printed 1.00 says
    ],
)
def test_memory_is_compared_exactly_as_printed(
    sweep: Plant, peaks: dict[int, float], verdict: str
) -> None:
    runs: dict[Any, Any] = {}
    for size, share in peaks.items():
        runs["Pytorch", False, size] = {"peak": 100.0}
        runs["Flash2", False, size] = {"peak": 100.0 * share}
    (found,) = memory_ratios(sweep(runs))
    assert found.verdict == verdict
    assert found.params["first"] == 128
    assert [entry["estimate"] for entry in found.evidence["estimates"]] == list(peaks.values())


def test_the_limit_of_memory_lies_between_what_fitted_and_what_did_not(sweep: Plant) -> None:
    runs: dict[Any, Any] = {("Flash2", False, size): {} for size in SIZES}
    runs |= {("Pytorch", False, size): "oom" if size > 256 else {} for size in SIZES}
    runs |= {("Numpy", False, 128): "oom", ("Numpy", False, 256): "unsupported"}
    found = {f.subject["implementation"]: f for f in memory_limits(sweep(runs))}
    assert found["Pytorch"].verdict == "limit_found"
    assert found["Pytorch"].params == {"largest": 256, "smallest": 512}
    assert (found["Flash2"].verdict, found["Flash2"].params["smallest"]) == ("none", None)
    assert (found["Numpy"].verdict, found["Numpy"].params["largest"]) == ("nothing_fits", None)
