"""Findings follow the declaration: of any parameters, variants and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from analysis.deriving import Plant, derived, keys, the_one
from planted.experiments import ITEMS, Planter, noisy
from planted.sorting import NAME, sorting

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.kinds.anomaly import ANOMALY
from flashlab.analysis.kinds.monotonicity import MONOTONICITY
from flashlab.analysis.kinds.roofline import ROOFLINE
from flashlab.analysis.kinds.scaling import SCALING
from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.statistics import Estimate

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
def test_an_experiment_knows_what_varies_along_with_its_parameter(
    experiment: Plant,
    sizes: Callable[[int], Mapping[str, int]],
    parameter: str,
    varying: list[str],
    covaried: list[str],
) -> None:
    runs = {"Flash2": {8: {}, 16: {}, 32: {}}}
    found = experiment(runs, "swept", parameter, sizes=sizes)
    assert found.values == [8, 16, 32]
    assert [each.name for each in found.varying] == varying
    assert [each.name for each in found.covaried] == covaried
    for finding in derived(SCALING, found):
        assert ("covaried" in keys(finding)) is bool(covaried)


# A metric where higher is better, in a benchmark with any variants


@pytest.fixture
def sorts(planter: Planter, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Experiments of sorting, with the variants that its runs have (`Planter.sorts`)."""

    def build(runs: Mapping[Any, Any]) -> Any:
        flags = next((dict(key[1]) for key in runs if isinstance(key, tuple)), {})
        monkeypatch.setitem(BENCHMARKS, NAME, sorting(*flags))
        return planter.sorts(runs)

    return build


def test_growth_and_doubts_are_those_of_the_number_and_not_of_its_merit(sorts: Plant) -> None:
    planted = sorts({"Fast": [1e4 / items for items in ITEMS]})
    growth = the_one(SCALING, planted, metric="throughput")
    assert growth.verdict == "power_law"
    assert growth.facts["exponent"] == pytest.approx(-1, abs=0.03)
    assert the_one(MONOTONICITY, planted, metric="throughput").verdict == "monotone"
    drifting = [*noisy(80.0, count=20), *noisy(100.0, count=20)]
    for row, verdict, ratio in (
        ((80, 160, 320 * 1.6, 640, 1280), "outlier", 1.6),
        ((drifting,), "unstable", 1.25),
    ):
        (found,) = (f for f in derived(ANOMALY, sorts({"Fast": row})) if f.verdict != "none")
        assert (found.verdict, found.metric) == (verdict, "throughput")
        assert found.facts["ratio"] == pytest.approx(ratio, rel=0.03)


def test_a_metric_without_declared_work_has_no_roofline(sorts: Plant) -> None:
    second = Ceiling(1.0, Estimate(1.0, 30, None))
    ceilings = Ceilings("Abacus", {"float32": second}, second)
    assert derived(ROOFLINE, sorts({"Fast": [100]}), ceilings=ceilings) == []


def test_each_variant_is_switched_with_the_others_fixed(sorts: Plant) -> None:
    switches = itertools.product((False, True), repeat=2)
    planted = sorts(
        {
            ("Fast", (("fused", fused), ("cached", cached))): [100 * 2.0**fused / 2.0**cached] * 2
            for fused, cached in switches
        }
    )
    found = derived(VARIANT_EFFECT, planted)
    assert len(found) == 4
    assert {(f.subject["switched"], *f.subject["variant"].items()): f.verdict for f in found} == {
        ("fused", ("cached", False)): "better",
        ("fused", ("cached", True)): "better",
        ("cached", ("fused", False)): "worse",
        ("cached", ("fused", True)): "worse",
    }
    assert found[0].facts["low"] == pytest.approx(2, rel=0.03)
    variants = [finding.subject["variant"] for finding in derived(SCALING, planted)]
    assert len(variants) == 4 * 2  # of two metrics
    assert {"fused": True, "cached": False} in variants
