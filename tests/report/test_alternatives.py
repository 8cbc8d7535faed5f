"""The table of alternatives: every attention, compiled and not, with its ratios' verdicts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from planted import ladder, training
from report.test_profile import data_of, texts

from flashlab.report.alternatives import COLUMNS, render_alternatives


def test_every_attention_has_a_row_compiled_and_not(tmp_path: Path) -> None:
    """SdpaMath fails where it is compiled, and SdpaEfficient runs out of memory."""
    data = data_of(dataclasses.replace(training.REPORT, processes=3), tmp_path)
    table = render_alternatives(data)
    assert table is not None and len(table.columns) == COLUMNS + 2
    rows = [texts(data, row.cells) for row in table.rows]
    assert [row[:2] for row in rows[:3]] == [["Pytorch", ""], ["", "✓"], ["SdpaMath", ""]]
    eager, compiled = rows[:2]
    assert eager[2:5] == ["507", "–", "–"]
    assert compiled[3] == compiled[4] == "*2.07×*"
    assert (compiled[5], compiled[6]) == ("240", "98")
    assert compiled[-3:] == ["11.9", "45", "3"]
    assert rows[3][2:] == ["×", *["–"] * (COLUMNS - 1)]
    assert [row[2] for row in rows if row[2] == "OOM"] == ["OOM"]


def test_what_is_not_decided_is_marked(tmp_path: Path) -> None:
    """Flash2, compiled, takes 188 ms instead of 172: with one process each nobody knows."""
    data = data_of(training.REPORT, tmp_path)
    table = render_alternatives(data)
    assert table is not None
    row = next(r for r in table.rows if r.implementation == "Flash2" and r.cells[1] == "✓")
    assert texts(data, row.cells)[4] == "? 0.91×"


def test_of_other_runs_there_is_none(tmp_path: Path) -> None:
    assert render_alternatives(data_of(ladder.ON_GPU, tmp_path)) is None
