"""All comparisons and observations of a dataset follow from its records, whatever their order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from planted.experiments import SIZES, Planter

from flashlab.analysis.experiment import COMPARISONS, DERIVED, OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import RECORDS
from flashlab.story.stage import observe


@pytest.fixture
def folder(planter: Planter) -> Path:
    """A headline, and a sweep in which some runs failed."""

    def run(name: str, causal: bool, size: int) -> Any:
        time = size**2 * 1e-4 * (1 + causal) * (1 if name == "Flash2" else 3)
        warnings = [{"code": "drift"}] if size == 256 else []
        return {"forward": time, "peak": float(size), "warnings": warnings}

    keys = [(name, causal) for name in ("Pytorch", "Flash2") for causal in (False, True)]
    runs: dict[Any, Any] = {key: {n: run(*key, n) for n in SIZES} for key in keys}
    runs["Pytorch", False][1024] = runs["Pytorch", True][1024] = "oom"
    runs["Flash2", True][512] = "incorrect"
    planter.experiment({name: {512: run(name, False, 512)} for name, _ in keys}, "summary", "")
    planter.experiment(runs)
    return planter.folder


def derived(folder: Path, is_tabulated: bool = True) -> list[str]:
    """The tables and observations of the dataset, from its records or from its tables."""
    if is_tabulated:
        make_tables(folder, None, folder / "tables")
    observe(folder, None, folder / OBSERVATIONS)
    return [folder.joinpath(name).read_text(encoding="utf-8") for name in DERIVED]


def test_the_order_of_rows_and_runs_changes_nothing(folder: Path) -> None:
    """And what failed has no number in a comparison."""
    before, shuffle = derived(folder), random.Random(3).shuffle
    for path in folder.joinpath("tables").rglob("*.csv"):
        cells = pd.read_csv(path, dtype=str, keep_default_na=False)
        cells.sample(frac=1, random_state=3).to_csv(path, index=False)
    assert derived(folder, is_tabulated=False) == before
    plan = read_json(folder / RECORDS)
    for records in plan["experiments"].values():
        shuffle(records)
    write_json(folder / RECORDS, plan)
    assert derived(folder) == before and len(before[-1]) > 1000
    found = pd.read_csv(folder / COMPARISONS).query("experiment == 'seq_len'")
    failed = {("Pytorch", 1024, "causal=false"), ("Pytorch", 1024, "causal=true")}
    failed |= {("Flash2", 512, "causal=true")}
    for side, value in (("subject", "value"), ("reference", "reference_value")):
        assert not failed & {*zip(found[side], found[value], found.variant, strict=True)}
