"""The table of every ratio: what is compared, which way, and what several are together."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from analysis.deriving import Plant

from flashlab.analysis.comparisons import COLUMNS, comparisons, comparisons_csv
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Runs

NAIVE, FAST = [1.0, 4.0, 16.0, 64.0], [1.0, 2.0, 8.0, 16.0]
"""Flash2 takes as long as the naive one at first, and a quarter of it at last."""


def table(*experiments: Runs) -> pd.DataFrame:
    return comparisons(experiments, Estimates(experiments))


def forward(found: pd.DataFrame, compared: str) -> pd.DataFrame:
    rows = found[(found.metric == "forward_time") & (found.compared == compared)]
    return rows.set_index("value").sort_index()


def test_the_baseline_is_the_reference_and_a_shorter_time_is_below_one(experiment: Plant) -> None:
    found = table(experiment({"Flash2": FAST, "Pytorch": NAIVE}, spread=0.001))
    rows = forward(found, "implementations")
    single = rows[rows.settings == 1]
    assert set(rows.subject) == {"Flash2"} and set(rows.reference) == {"Pytorch"}
    assert single.ratio.tolist() == pytest.approx([1, 0.5, 0.5, 0.25], rel=0.01)
    assert single.verdict.tolist()[1:] == ["below"] * 3
    assert (single.low <= single.ratio).all() and (single.ratio <= single.high).all()


def test_growth_is_over_the_value_before_and_over_the_first(experiment: Plant) -> None:
    found = table(experiment({"Pytorch": NAIVE, "Flash2": FAST}, spread=0.001))
    steps, ends = (forward(found, compared) for compared in ("previous value", "first value"))
    fast = steps[steps.subject == "Flash2"]
    assert fast.ratio.tolist() == pytest.approx([2, 4, 2], rel=0.01)
    assert fast.reference_value.tolist() == [*ends.reference_value.unique(), *fast.index[:-1]]
    assert ends[ends.subject == "Flash2"].ratio.tolist() == pytest.approx([2, 8, 16], rel=0.01)


def test_several_processes_are_pooled_over_the_sweep(experiment: Plant) -> None:
    runs = {name: [[t, 1.01 * t, 0.99 * t] for t in times] for name, times in both().items()}
    found = table(experiment(runs, spread=0.001))
    pooled = found[(found.settings > 1) & (found.metric == "forward_time")]
    assert pooled.ratio.tolist() == pytest.approx([(0.5 * 0.5 * 0.25) ** 0.25], rel=0.01)
    assert (pooled.settings.tolist(), pooled.value.isna().tolist()) == ([4], [True])


def both() -> dict[str, list[float]]:
    return {"Pytorch": NAIVE, "Flash2": FAST}


def test_doubts_about_either_side_go_along(experiment: Plant) -> None:
    doubted = {"forward": 2.0, "warnings": [{"code": "drift", "metric": "forward_time"}]}
    found = table(experiment({"Pytorch": NAIVE, "Flash2": [1.0, doubted, 8.0, 16.0]}))
    rows = forward(found[found.settings == 1], "implementations")
    assert [doubts.split() for doubts in rows.doubts if doubts] == [["drift"]]


def test_a_spreadsheet_reads_it(experiment: Plant) -> None:
    """Whole numbers as such, and empty cells for what there is not."""
    found = table(experiment(both(), spread=0.001))
    text = comparisons_csv(found)
    read = pd.read_csv(io.StringIO(text), keep_default_na=False, dtype=str)
    assert tuple(read.columns)[: len(COLUMNS)] == COLUMNS
    assert len(read) == len(found)
    assert set(read.settings) <= {"1", "4"}
    assert not read.verdict.eq("").any()
