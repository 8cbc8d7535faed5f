"""The tables' numbers and signs are those of the CSV files, read by other code."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report.reading import cells, parts, said, section, tables

from flashlab.numbers import measured, times
from flashlab.report.document import Table
from flashlab.report.tables import speed

TOTAL = "forward_backward_time"


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def of(own: list[dict[str, str]], **keys: object) -> list[dict[str, str]]:
    return [row for row in own if all(row[key] == str(value) for key, value in keys.items())]


@pytest.mark.parametrize(
    ("verdict", "text", "kind"),
    [
        ("faster", "2.0×", "up"),
        ("slower", "2.0×", "down"),
        ("equal", "2.0×", ""),
        ("undecided", "2.0×?", ""),
    ],
)
def test_a_speed_has_the_sign_of_its_verdict(verdict: str, text: str, kind: str) -> None:
    made = speed(pd.Series({"x": 2.0, "low": 1.9, "high": 2.1, "verdict": verdict}))
    assert made.striptags() == text
    assert ("<b" in made) == bool(kind) and kind in made


def test_every_total_and_speed_of_an_experiment_is_that_of_the_csv_files(results: Any) -> None:
    (table,) = parts(section(results.compose(), "experiment-seq_len"), Table)
    values = [said(column) for column in table.columns[1:3]]
    estimates = of(rows(results.local / "estimates.csv"), metric=TOTAL, causal="false")
    compared = of(
        rows(results.local / "comparisons.csv"),
        **{"experiment": "seq_len", "metric": TOTAL, "compared": "implementations"},
    )
    metrics = of(rows(results.local / "tables" / "seq_len" / "metrics.csv"), metric=TOTAL)
    for row in table.rows[1:]:
        name, *shown = cells(row)
        for value, cell in zip(values, shown, strict=False):
            keys: Mapping[str, object] = {"implementation": name, "seq_len": value}
            (own,) = of(metrics, **keys)
            if own["status"] != "ok":
                continue
            (estimate,) = of(estimates, **keys)
            ends = float(estimate["low"]), float(estimate["high"])
            expected = measured((float(own["value"]), *ends))
            if name != "Pytorch":
                (ratio,) = of(compared, subject=name, value=value)
                low, x, high = (1 / float(ratio[key]) for key in ("high", "ratio", "low"))
                open_ = "?" * (ratio["verdict"] == "inconclusive")
                expected += f" {times((x, low, high))}×{open_}"
            assert cell.replace("!", "") == expected


def test_tables_are_numbered_from_one_without_a_gap(results: Any) -> None:
    labels = [table.number for table in tables(results.compose()) if table.number]
    assert labels == [*range(1, len(labels) + 1)] and len(labels) > 6


def test_what_has_no_numbers_stands_as_what_it_is(brief: Any) -> None:
    brief.change_runs("seq_len", {"status": "oom", "message": "too large"}, first=1)
    brief.observe()
    (table,) = parts(section(brief.compose(), "experiment-seq_len"), Table)
    assert sum("OOM" in each for row in table.rows for each in cells(row)) == 1


def test_a_number_of_the_web_page_leads_to_its_run(results: Any) -> None:
    report = results.compose()
    (table,) = parts(section(report, "experiment-seq_len"), Table)
    (runs,) = parts(section(report, "runs"), Table)
    settings = {row.id: cells(row)[1] for row in runs.rows}
    for row in table.rows[1:]:
        for value, cell in zip(table.columns[1:3], row.cells[1:3], strict=True):
            setting = settings[f"run-{cell.run}"]  # type: ignore[union-attr]
            assert setting.startswith(cells(row)[0]) and f" N{said(value)} " in setting
