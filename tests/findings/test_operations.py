"""Times against the ratio that operations say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from findings.lookups import the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.balance import balances
from flashlab.analysis.kinds.derived_size import derived_sizes
from flashlab.analysis.kinds.variant_gain import variant_gains

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((2.5, 2.53), "as_operations"),
        ((3.0, 2.8), "above"),
        ((1.0, 2.0), "below"),
        ((2.0, 3.0), "mixed"),
    ],
)
def test_backward_is_compared_with_the_forward_by_their_operations(
    sweep: Plant, noisy: Noisy, ratios: tuple[float, float], verdict: str
) -> None:
    runs: dict[Any, Any] = {
        ("A", False, size): {"forward": noisy(size * 1e-6), "backward": noisy(size * 1e-6 * ratio)}
        for size, ratio in zip((128, 256), ratios, strict=True)
    }
    found = the_one(balances(sweep(runs), Estimates()), "backward_time")
    assert (found.verdict, found.params["ideal"]) == (verdict, 2.5)
    assert found.subject["other_metric"] == "forward_time"
    estimates = [entry["estimate"] for entry in found.estimates]
    assert estimates == pytest.approx(list(ratios), rel=0.03)


def gains(sweeps: list[Sweep]) -> Finding:
    return the_one(variant_gains(sweeps, Estimates()))


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [((2.0, 2.02), "as_operations"), ((1.1, 1.8), "below"), ((2.3, 2.5), "above")],
)
def test_the_gain_of_a_mask_is_compared_with_half_the_operations_across_experiments(
    sweep: Plant, noisy: Noisy, factors: tuple[float, float], verdict: str
) -> None:
    def runs(mask: bool) -> dict[Any, Any]:
        return {
            ("A", mask, size): {"forward": noisy(size * 1e-5 / (factor if mask else 1))}
            for size, factor in zip((128, 256), factors, strict=True)
        }

    found = gains([sweep(runs(False), name="full"), sweep(runs(True), name="causal")])
    assert (found.verdict, found.params["ideal"], found.params["count"]) == (verdict, 2, 2)
    assert found.params["low_where"] == {"seq_len": 128}
    assert found.params["high"] == pytest.approx(factors[1], rel=0.03)


def test_without_both_variants_there_is_no_gain(sweep: Plant) -> None:
    runs: dict[Any, Any] = {("A", False, 128): {}, ("A", True, 256): {}}
    assert list(variant_gains([sweep(runs)], Estimates())) == []


def by_heads(noisy: Noisy, times: dict[int, float]) -> dict[Any, Any]:
    """More heads of the same embedding: a smaller head dimension at equal operations."""
    return {("A", False, heads): {"forward": noisy(time * 1e-5)} for heads, time in times.items()}


@pytest.mark.parametrize(
    ("times", "verdicts"),
    [
        ({1: 2.0, 2: 3.0, 4: 3.0}, {(16, 32): "equivalent", (32, 64): "better"}),
        ({1: 4.0, 2: 3.0}, {(32, 64): "worse"}),
    ],
)
def test_a_derived_size_is_compared_at_equal_operations(
    sweep: Plant, noisy: Noisy, times: dict[int, float], verdicts: dict[tuple[int, int], str]
) -> None:
    runs = by_heads(noisy, times)
    found = sweep(runs, name="heads", sweep="num_heads", sizes=lambda h: {"num_heads": h})
    derived = [f for f in derived_sizes([found], Estimates()) if f.metric == "forward_time"]
    assert {(f.params["from"], f.params["to"]): f.verdict for f in derived} == verdicts
    assert all(f.subject["parameter"] == "head_dim" and f.params["count"] == 1 for f in derived)


def test_unequal_operations_are_not_compared(sweep: Plant) -> None:
    runs: dict[Any, Any] = {("A", False, e): {} for e in (64, 128)}
    found = sweep(runs, name="wide", sweep="emb_dim", sizes=lambda e: {"emb_dim": e})
    assert list(derived_sizes([found], Estimates())) == []
