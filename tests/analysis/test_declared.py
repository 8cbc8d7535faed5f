"""Comparisons follow the declaration: of any parameters, variants and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from analysis.deriving import Plant, rows_of
from planted.experiments import ITEMS, Planter
from planted.sorting import NAME, sorting

from flashlab.analysis.comparison_rows import FIRST
from flashlab.benchmarks.registry import BENCHMARKS

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
