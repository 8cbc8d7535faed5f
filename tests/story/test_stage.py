"""All comparisons and observations of a dataset, from its tables."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planted.experiments import SIZES, Planter

from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.experiment import COMPARISONS, OBSERVATIONS, OF_DATASET
from flashlab.analysis.stage import make_tables
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import RECORDS
from flashlab.story.stage import observe


@pytest.fixture
def dataset(planter: Planter) -> None:
    """Results of a summary and of a sweep in which some runs failed."""

    def run(name: str, causal: bool, size: int) -> Any:
        time = size**2 * 1e-4 * (1 + causal) * (1 if name == "Flash2" else 3)
        warnings = [{"code": "drift"}] if size == 256 else []
        return {"forward": time, "peak": float(size), "warnings": warnings}

    runs: dict[Any, Any] = {
        (name, causal): {size: run(name, causal, size) for size in SIZES}
        for name in ("Pytorch", "Flash2")
        for causal in (False, True)
    }
    runs["Pytorch", False][1024] = runs["Pytorch", True][1024] = "oom"
    runs["Flash2", True][512] = "incorrect"
    headline = {name: {512: run(name, False, 512)} for name in ("Pytorch", "Flash2")}
    planter.experiment(headline, "summary", "")
    planter.experiment(runs)


def rewrite(table: Path, change: Callable[[list[dict[str, str]]], Any]) -> None:
    """Change the rows of a table."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = change(rows) or rows
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def observed(folder: Path) -> str:
    """The observations of the tables of planned sweeps."""
    output = folder / OBSERVATIONS
    observe(folder, None, output)
    return output.read_text(encoding="utf-8")


def tabulated(folder: Path) -> list[str]:
    """The tables of a whole planted dataset."""
    make_tables(folder, None, folder / "tables")
    return [folder.joinpath(name).read_text(encoding="utf-8") for name in OF_DATASET]


@pytest.mark.usefixtures("dataset")
def test_the_order_of_rows_and_runs_changes_nothing(tmp_path: Path) -> None:
    tables, said = tabulated(tmp_path), observed(tmp_path)
    shuffle = random.Random(3).shuffle
    for path in (tmp_path / "tables").rglob("*.csv"):
        rewrite(path, shuffle)
    assert observed(tmp_path) == said
    plan = read_json(tmp_path / RECORDS)
    for records in plan["experiments"].values():
        shuffle(records)
    write_json(tmp_path / RECORDS, plan)
    assert tabulated(tmp_path) == tables
    assert observed(tmp_path) == said
    assert json.loads(said)


def test_a_record_that_is_not_ok_never_becomes_a_number(planter: Planter, tmp_path: Path) -> None:
    times = {size: size / 10 for size in SIZES}
    runs = {"Pytorch": {**times, 4096: "error"}, "Flash2": {**times, 4096: "incorrect"}}
    planter.experiment(runs)
    tabulated(tmp_path)
    values = read_comparisons(tmp_path / COMPARISONS)["value"]
    assert {*values.dropna()} == {*SIZES} and values.isna().any()
