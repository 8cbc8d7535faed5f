from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from findings.lookups import excluded_run, the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.scaling import scalings
from flashlab.files import canonical

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZES = (128, 256, 512, 1024)


def growth(sweep: Sweep, metric: str = "forward_time") -> Finding:
    return the_one(scalings(sweep, Estimates()), metric)


def timed(noisy: Noisy, times: dict[int, float], **options: Any) -> dict[Any, Any]:
    return {
        ("Flash2", False, size): {"forward": noisy(time, **options)} for size, time in times.items()
    }


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_a_power_law_has_its_exponent_within_a_narrow_interval(
    sweep: Plant, noisy: Noisy, exponent: float
) -> None:
    found = growth(sweep(timed(noisy, {n: 1e-6 * n**exponent for n in SIZES})))
    assert found.verdict == "power_law"
    assert found.params["exponent"] == pytest.approx(exponent, abs=0.03)
    assert found.params["exponent_low"] <= exponent <= found.params["exponent_high"]
    assert found.params["times"] == pytest.approx(8**exponent, rel=0.05)
    assert (found.params["first"], found.params["last"], found.params["count"]) == (128, 1024, 4)


def test_a_launch_bound_square_law_is_curved_and_not_one_exponent(
    sweep: Plant, noisy: Noisy
) -> None:
    found = growth(sweep(timed(noisy, {n: 1e-4 + 1e-9 * n**2 for n in SIZES})))
    assert found.verdict == "curved"
    assert "exponent" not in found.params
    assert found.params["local"][0] < 1 < found.params["local"][-1] < 2


def test_exponents_that_drift_in_small_steps_are_curved_and_not_one_exponent(
    sweep: Plant, noisy: Noisy
) -> None:
    exponents = [0.3, 0.45, 0.6, 0.75]
    times = [2 ** sum(exponents[:i]) for i in range(5)]
    sizes = [128 * 2**i for i in range(5)]
    found = growth(sweep(timed(noisy, dict(zip(sizes, times, strict=True)), spread=0.002)))
    assert found.verdict == "curved"
    assert found.params["local"] == pytest.approx(exponents, abs=0.02)


def test_a_time_that_does_not_grow_is_flat(sweep: Plant, noisy: Noisy) -> None:
    found = growth(sweep(timed(noisy, dict.fromkeys(SIZES, 1e-3), spread=0.002)))
    assert found.verdict == "flat"
    assert found.params["exponent"] == pytest.approx(0, abs=0.05)


def test_a_small_exponent_over_a_wide_range_is_not_flat(sweep: Plant, noisy: Noisy) -> None:
    sizes = [128 * 2**i for i in range(6)]
    found = growth(sweep(timed(noisy, {n: 1e-3 * n**0.08 for n in sizes}, spread=0.002)))
    assert found.verdict == "power_law"
    assert found.params["times"] == pytest.approx(1.32, abs=0.01)


def test_exact_memory_that_changes_by_more_than_the_margin_is_not_flat(sweep: Plant) -> None:
    runs = {("Flash2", False, n): {"peak": n**0.04} for n in (128, 256, 512, 1024, 2048)}
    found = growth(sweep(runs), "peak_memory")
    assert (found.verdict, found.params["exponent"]) == ("power_law", 0.04)


def test_too_much_noise_is_imprecise_and_never_a_law(sweep: Plant, noisy: Noisy) -> None:
    times = {n: 1e-9 * n**2 for n in SIZES}
    found = growth(sweep(timed(noisy, times, count=12, spread=0.5)))
    assert found.verdict in ("imprecise", "curved")
    assert found.reasons == []


def test_three_sizes_are_too_few_for_an_exponent(sweep: Plant, noisy: Noisy) -> None:
    found = growth(sweep(timed(noisy, {n: 1e-9 * n**2 for n in SIZES[:3]})))
    assert found.verdict == "too_few_sizes"
    assert found.params["local"] == pytest.approx([2.0, 2.0], abs=0.05)


def test_one_size_has_no_growth(sweep: Plant, noisy: Noisy) -> None:
    assert list(scalings(sweep(timed(noisy, {128: 1.0})), Estimates())) == []


def test_growth_is_withheld_where_runs_are_missing_and_names_them(
    sweep: Plant, noisy: Noisy
) -> None:
    found = growth(sweep(timed(noisy, {128: 1.0}) | {("Flash2", False, 256): "error"}))
    assert (found.verdict, found.params["count"]) == ("too_few_sizes", 1)
    assert found.reasons == [excluded_run("Flash2", 256, "error")]


def test_means_alone_are_too_imprecise_for_a_law(sweep: Plant) -> None:
    runs = {("Flash2", False, n): {"forward": [1e-9 * n**2], "means": True} for n in SIZES}
    found = growth(sweep(runs))
    assert (found.verdict, found.reasons) == ("imprecise", [Reason("no_samples")])


def test_a_run_that_failed_is_no_size_of_the_fit(sweep: Plant, noisy: Noisy) -> None:
    runs = timed(noisy, {n: 1e-9 * n**2 for n in SIZES}) | {("Flash2", False, 2048): "oom"}
    planted = sweep(runs)
    for metric in ("forward_time", "backward_time", "peak_memory"):
        found = growth(planted, metric)
        assert found.params["last"] == 1024
        assert found.reasons == [excluded_run("Flash2", 2048, "oom")]


@pytest.mark.parametrize(
    ("peak", "verdict"),
    [
        (lambda n: n**2 / 1024, "power_law"),
        (lambda n: n + n**2 / 256, "curved"),
        (lambda n: 64.0, "flat"),
    ],
    ids=["square", "linear and square", "constant"],
)
def test_memory_is_exact_so_its_growth_needs_no_samples(
    sweep: Plant, peak: Callable[[int], float], verdict: str
) -> None:
    found = growth(sweep({("Flash2", False, n): {"peak": peak(n)} for n in SIZES}), "peak_memory")
    assert found.verdict == verdict
    assert found.evidence.n == 4
    if verdict == "power_law":
        assert found.params["exponent_low"] == found.params["exponent_high"] == 2.0


def test_growth_is_found_for_each_implementation_variant_and_metric(sweep: Plant) -> None:
    runs: dict[Any, Any] = {
        (name, mask, n): {}
        for name in ("Flash2", "Pytorch")
        for mask in (False, True)
        for n in SIZES
    }
    found = list(scalings(sweep(runs), Estimates()))
    assert len(found) == len({canonical(finding.subject) for finding in found}) == 2 * 2 * 3


def test_no_exponent_is_given_where_another_size_varies_along(sweep: Plant, noisy: Noisy) -> None:
    """The batch falls as N rises: a square law of N has the slope 1, which is no exponent of N."""
    sizes = {n: {"seq_len": n, "batch_size": 2048 // n} for n in SIZES}
    times = {n: 1e-9 * n**2 * (2048 // n) for n in SIZES}
    planted = sweep(timed(noisy, times, spread=0.002), sizes=sizes.__getitem__)
    found = growth(planted)
    assert found.verdict == "covaried"
    assert not {"exponent", "local"} & found.params.keys()
    assert found.params["steps"] == pytest.approx([2.0, 2.0, 2.0], rel=0.02)
    assert found.params["times"] == pytest.approx(8, rel=0.02)
    assert "exponent" not in found.estimates[-1]
    assert found.sentences == ["scaling.covaried", "covaried"]
    assert growth(planted, "peak_memory").verdict == "covaried"
