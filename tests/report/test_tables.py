"""The tables' numbers and signs are those of the CSV files, read by other code."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from report.conftest import read_cells
from report.reading import cells, parts, said

from flashlab.numbers import measured, times
from flashlab.report.document import Table
from flashlab.report.tables import speed

TOTAL = "forward_backward_time"


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


def of(own: pd.DataFrame, **keys: str) -> pd.DataFrame:
    return own[(own[[*keys]] == [*keys.values()]).all(axis=1)]


def test_every_total_and_speed_is_that_of_the_csv_files_and_leads_to_its_run(results: Any) -> None:
    report = results.compose()
    (table,) = parts(report, "experiment-seq_len", Table)
    (runs,) = parts(report, "runs", Table)
    settings = {row.id: cells(row)[1] for row in runs.rows}
    estimates = of(read_cells(results.local / "estimates.csv"), metric=TOTAL, causal="false")
    metrics = of(read_cells(results.local / "tables" / "seq_len" / "metrics.csv"), metric=TOTAL)
    compared = {"experiment": "seq_len", "metric": TOTAL, "compared": "implementations"}
    ratios = of(read_cells(results.local / "comparisons.csv"), **compared)
    for row in table.rows[1:]:
        name = cells(row)[0]
        for value, cell in zip(map(said, table.columns[1:3]), row.cells[1:3], strict=True):
            own = of(metrics, implementation=name, seq_len=value).iloc[0]
            estimate = of(estimates, implementation=name, seq_len=value).iloc[0]
            expected = measured((float(own.value), float(estimate.low), float(estimate.high)))
            if name != "Pytorch":
                ratio = of(ratios, subject=name, value=value).iloc[0]
                low, x, high = (1 / float(ratio[key]) for key in ("high", "ratio", "low"))
                expected += f" {times((x, low, high))}×" + "?" * (ratio.verdict == "inconclusive")
            assert said(cell).replace("!", "") == expected
            setting = settings[f"run-{cell.run}"]
            assert setting.startswith(name) and f" N{value} " in setting
