"""Findings follow the declaration: of any parameters, variants and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from findings import toy
from findings.lookups import the_one

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, read_planned_sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.anomaly import outliers, unstable
from flashlab.analysis.kinds.comparison import comparisons, crossovers, variant_effects
from flashlab.analysis.kinds.exact_comparison import exact_comparisons
from flashlab.analysis.kinds.monotonicity import monotonicities
from flashlab.analysis.kinds.roofline import rooflines
from flashlab.analysis.kinds.scaling import scalings
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.records import Record
from flashlab.statistics import Estimate

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
Rates = Mapping[int, float]
WIDTHS = (8, 16, 32, 64, 128)


# Sizes that vary


@pytest.mark.parametrize(
    ("sizes", "parameter", "varying", "covaried"),
    [
        # The heads stay: the embedding is the head dimension by another name.
        (lambda d: {"emb_dim": 4 * d}, "head_dim", ["emb_dim", "head_dim"], []),
        (lambda d: {"num_heads": 64 // d}, "head_dim", ["num_heads", "head_dim"], []),
        (
            lambda d: {"num_heads": d // 4, "emb_dim": d * d // 4},
            "head_dim",
            ["num_heads", "emb_dim", "head_dim"],
            ["num_heads", "emb_dim"],
        ),
        (
            lambda d: {"emb_dim": 4 * d, "seq_len": 4096 // d},
            "head_dim",
            ["seq_len", "emb_dim", "head_dim"],
            ["seq_len"],
        ),
        (lambda n: {"seq_len": n}, "seq_len", ["seq_len"], []),
        (
            lambda n: {"seq_len": n, "batch_size": 512 // n},
            "seq_len",
            ["batch_size", "seq_len"],
            ["batch_size"],
        ),
        # The head dimension follows from the heads, and varies with nothing of its own.
        (lambda h: {"num_heads": h}, "num_heads", ["num_heads", "head_dim"], []),
    ],
)
def test_a_sweep_knows_what_varies_along_with_its_parameter(
    sweep: Plant,
    sizes: Callable[[int], Mapping[str, int]],
    parameter: str,
    varying: list[str],
    covaried: list[str],
) -> None:
    runs = {("Flash2", False, value): {} for value in (8, 16, 32)}
    found = sweep(runs, name="swept", sweep=parameter, sizes=sizes)
    assert found.values == [8, 16, 32]
    assert [each.name for each in found.varying] == varying
    assert [each.name for each in found.covaried] == covaried
    for finding in (*scalings(found, Estimates()), *monotonicities(found, Estimates())):
        assert finding.params["covaried"] == covaried
        assert ("covaried" in finding.sentences) is bool(covaried)


def test_a_sweep_over_the_head_dimension_is_told_by_its_values(sweep: Plant, noisy: Noisy) -> None:
    runs: dict[Any, Any] = {
        (name, False, d): {"forward": noisy(d * 1e-5 * factor)}
        for name, factor in (("Pytorch", 3), ("Flash2", 1))
        for d in (32, 64, 128)
    }
    runs["Pytorch", False, 256] = "oom"
    planted = sweep(runs, sweep="head_dim", sizes=lambda d: {"emb_dim": 4 * d})
    found = the_one(comparisons(planted, Estimates()))
    assert (found.verdict, found.params["better_at"]) == ("better", [32, 64, 128])
    (reason,) = found.reasons
    assert reason.run == {"implementation": "Pytorch", "causal": False, "head_dim": 256}
    growth = [f for f in scalings(planted, Estimates()) if f.metric == "forward_time"]
    assert {finding.params["last"] for finding in growth} == {128}


# A metric where higher is better, in a benchmark without variants


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Benchmark]:
    """Registers the toy benchmark with these variants."""

    def build(*variants: Any) -> Benchmark:
        benchmark = toy.toy(*variants)
        monkeypatch.setitem(BENCHMARKS, benchmark.name, benchmark)
        return benchmark

    return build


@pytest.fixture
def read_toys(write_sweep: Callable[..., Path], tmp_path: Path) -> Callable[..., Sweep]:
    """Writes toy records as a sweep over their width and reads it."""

    def build(records: Sequence[Record]) -> Sweep:
        file = write_sweep(records, "width", "width")
        return read_planned_sweep(file, tmp_path / "tables", with_samples=True)

    return build


@pytest.fixture
def toy_sweep(
    register: Callable[..., Benchmark], read_toys: Callable[..., Sweep], noisy: Noisy
) -> Callable[..., Sweep]:
    """A sweep of the toy benchmark: throughputs by implementation and width."""

    def build(**rates: Rates) -> Sweep:
        benchmark = register()
        return read_toys(
            [
                toy.record(benchmark, name, {"width": width}, noisy(rate))
                for name, by_width in rates.items()
                for width, rate in by_width.items()
            ]
        )

    return build


def one_throughput(findings: Iterable[Finding]) -> Finding:
    return the_one(findings, "throughput")


def test_more_is_better_where_the_metric_says_so(toy_sweep: Callable[..., Sweep]) -> None:
    planted = toy_sweep(
        Pytorch={8: 100.0, 16: 100.0, 32: 100.0}, Fast={8: 200.0, 16: 100.0, 32: 50.0}
    )
    found = one_throughput(comparisons(planted, Estimates()))
    assert found.verdict == "mixed"
    assert (found.params["better_at"], found.params["equal_at"]) == ([8], [16])
    assert (found.params["worse_at"], found.params["trend"]) == ([32], "narrows")
    assert found.params["high"] == pytest.approx(2, rel=0.02)
    assert found.subject["variant"] == {}
    assert "over that of the baseline" in found.evidence.method


def test_the_one_with_more_leads_before_it_is_overtaken(toy_sweep: Callable[..., Sweep]) -> None:
    planted = toy_sweep(Pytorch={8: 100.0, 16: 100.0}, Fast={8: 50.0, 16: 200.0})
    found = one_throughput(crossovers(planted, Estimates()))
    bracket = {key: found.params[key] for key in ("low_at", "high_at", "before", "after")}
    assert found.verdict == "crosses"
    assert bracket == {"low_at": 8, "high_at": 16, "before": "Pytorch", "after": "Fast"}
    leads = toy_sweep(Pytorch={8: 100.0, 16: 100.0}, Fast={8: 200.0, 16: 200.0})
    found = one_throughput(crossovers(leads, Estimates()))
    assert (found.verdict, found.params["leader"]) == ("none_in_range", "Fast")


def test_growth_and_direction_are_those_of_the_number_and_not_of_its_merit(
    toy_sweep: Callable[..., Sweep],
) -> None:
    planted = toy_sweep(Fast={width: 1e4 / width for width in WIDTHS})
    growth = one_throughput(scalings(planted, Estimates()))
    assert growth.verdict == "power_law"
    assert growth.params["exponent"] == pytest.approx(-1, abs=0.03)
    direction = one_throughput(monotonicities(planted, Estimates()))
    assert (direction.verdict, direction.params["direction"]) == ("monotone", "falls")


def test_records_in_doubt_are_found_by_any_sampled_metric(
    toy_sweep: Callable[..., Sweep], read_toys: Callable[..., Sweep], noisy: Noisy
) -> None:
    rates = {width: 10.0 * width for width in WIDTHS}
    planted = toy_sweep(Fast={**rates, 32: 10.0 * 32 * 1.6})
    found = one_throughput(outliers(planted, Estimates()))
    assert (found.verdict, found.params["value"]) == ("outlier", 32)
    assert found.params["ratio"] == pytest.approx(1.6, rel=0.03)
    drifting = [*noisy(80.0, count=20), *noisy(100.0, count=20)]
    planted = read_toys([toy.record(toy.toy(), "Fast", {"width": 8}, drifting)])
    found = one_throughput(unstable(planted, Estimates()))
    assert found.params["sign"] == "drift"
    assert found.params["ratio"] == pytest.approx(1.25, rel=0.02)


def test_any_exact_metric_is_compared_without_an_interval(
    register: Callable[..., Benchmark], read_toys: Callable[..., Sweep]
) -> None:
    benchmark = register()
    planted = read_toys(
        [
            toy.record(benchmark, name, {"width": width}, [1.0] * 12, size)
            for name, size in (("Pytorch", 100.0), ("Fast", 50.0))
            for width in (8, 16)
        ]
    )
    (found,) = exact_comparisons(planted, Estimates())
    assert (found.metric, found.verdict) == ("code_size", "less")
    assert (found.params["low"], found.params["high"]) == (0.5, 0.5)
    assert (found.params["model_agrees_at"], found.params["model_differs_at"]) == ([], [])


def test_a_metric_without_declared_work_has_no_roofline(toy_sweep: Callable[..., Sweep]) -> None:
    second = Ceiling(1.0, Estimate(1.0, 30, None))
    ceilings = Ceilings("Abacus", {"float32": second}, second)
    planted = toy_sweep(Fast={8: 100.0})
    assert list(rooflines(planted, Estimates(), ceilings)) == []


# Variants


@pytest.fixture
def two_variants(
    register: Callable[..., Benchmark], read_toys: Callable[..., Sweep], noisy: Noisy
) -> Sweep:
    """Fusing doubles the throughput, and caching halves it."""
    benchmark = register(toy.FUSED, toy.CACHED)
    return read_toys(
        [
            toy.record(
                benchmark,
                "Fast",
                {"width": width, "fused": fused, "cached": cached},
                noisy(100.0 * (2 if fused else 1) / (2 if cached else 1)),
            )
            for width in (8, 16)
            for fused in (False, True)
            for cached in (False, True)
        ]
    )


def test_each_variant_is_switched_with_the_others_fixed(two_variants: Sweep) -> None:
    found = list(variant_effects(two_variants, Estimates()))
    effects = {
        (finding.subject["switched"], *finding.subject["variant"].items()): finding.verdict
        for finding in found
    }
    assert len(found) == len(effects)
    assert effects == {
        ("fused", ("cached", False)): "better",
        ("fused", ("cached", True)): "better",
        ("cached", ("fused", False)): "worse",
        ("cached", ("fused", True)): "worse",
    }


def test_an_effect_names_the_rows_of_both_variants_and_the_direction_of_its_ratio(
    two_variants: Sweep,
) -> None:
    found = next(iter(variant_effects(two_variants, Estimates())))
    rows = {"implementation": ["Fast"], "cached": False, "metric": "throughput"}
    assert found.evidence.rows == rows
    assert found.evidence.method.startswith("median throughput with fused over that without")
    assert found.params["low"] == pytest.approx(2, rel=0.03)


def test_other_findings_are_made_of_each_combination_of_variants(two_variants: Sweep) -> None:
    variants = [finding.subject["variant"] for finding in scalings(two_variants, Estimates())]
    assert len(variants) == 4 * 2  # of two metrics
    assert {"fused": True, "cached": False} in variants
