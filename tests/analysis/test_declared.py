"""Comparisons follow the declaration: of any parameters, variants and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from analysis.deriving import Plant, rows_of
from planted.experiments import ITEMS, Planter
from planted.sorting import NAME, sorting

from flashlab.analysis.comparison_rows import FIRST
from flashlab.benchmarks.registry import BENCHMARKS

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


# A metric where higher is better, in a benchmark with any variants


@pytest.fixture
def sorts(planter: Planter, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Experiments of sorting, with the variants that its runs have (`Planter.sorts`)."""

    def build(runs: Mapping[Any, Any]) -> Any:
        flags = next((dict(key[1]) for key in runs if isinstance(key, tuple)), {})
        monkeypatch.setitem(BENCHMARKS, NAME, sorting(*flags))
        return planter.sorts(runs)

    return build


def test_a_ratio_is_that_of_the_number_and_not_of_its_merit(sorts: Plant) -> None:
    planted = sorts({"Fast": [1e4 / items for items in ITEMS]})
    growth = rows_of(planted, compared=FIRST, metric="throughput")
    assert [row["ratio"] for row in growth] == pytest.approx(
        [ITEMS[0] / items for items in ITEMS[1:]], rel=0.05
    )
    assert {row["verdict"] for row in growth} == {"below"}


def test_each_variant_is_switched_with_the_others_fixed(sorts: Plant) -> None:
    switches = itertools.product((False, True), repeat=2)
    planted = sorts(
        {
            ("Fast", (("fused", fused), ("cached", cached))): [100 * 2.0**fused / 2.0**cached] * 2
            for fused, cached in switches
        }
    )
    for switched, verdict in (("fused", "above"), ("cached", "below")):
        found = rows_of(planted, compared=switched, metric="throughput")
        assert {row["verdict"] for row in found} == {verdict}
        assert len({row["variant"] for row in found}) == 2
        assert all(f"{switched}=true" in row["variant"] for row in found)
