"""The heat map of comparisons: what its cells say, in which colours, and what is on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from figures.drawn import experiment_of

from flashlab.analysis.comparison_rows import between_implementations, read_comparisons
from flashlab.report.data import ReportData
from flashlab.report.document import HeatBlock
from flashlab.report.heat_map import ROWS_OF_MANY, blocks_of, printed_blocks, render_heat_map, shade

ADDED = ["Flex", "SdpaMath"]


def test_of_two_implementations_there_is_none(results: Any) -> None:
    assert results.compose().heat_map is None


def test_each_cell_has_the_ratio_of_its_comparison(results: Any) -> None:
    """Bold where it is decided; each names the run that it shows."""
    results.add_implementations(ADDED)
    heat_map = results.compose().heat_map
    assert heat_map.implementations == ["Flash2", *ADDED]
    assert [*heat_map.metrics] == ["forward_time", "backward_time"]
    rows = read_comparisons(results.local / "comparisons.csv")
    found = between_implementations(rows)
    sizes = dict(heat_map.blocks[0].rows)
    assert sizes
    for size, (_, backward) in sizes.items():
        cell, value = backward[1], int(size.removeprefix("N = "))
        key = ("seq_len", "causal=false", "backward_time", "Flex", "Pytorch", value)
        expected = found[key].gain(higher_is_better=False)
        assert cell.implementation == "Flex"
        assert float(cell.text.replace(",", "")) == pytest.approx(expected.ratio, rel=0.006)
        assert cell.is_decided == (expected.verdict in ("above", "below"))
    runs = [cell.run for _, row in heat_map.blocks[0].rows for cell in row[0]]
    assert len({*runs}) == len(runs) and None not in runs


def test_what_has_no_result_is_marked_and_titles_stand_once(results: Any) -> None:
    """A cross for a run without a result; a dash where only the baseline has none."""
    results.add_implementations(ADDED)

    def fail(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        next(row for row in rows if row["implementation"] == ADDED[-1])["status"] = "oom"
        return rows

    results.edit_table("seq_len", "runs", fail)
    table = results.local / "comparisons.csv"
    rows = pd.read_csv(table, dtype=str, keep_default_na=False)
    rows.loc[rows.experiment == "seq_len", "value"] = "7"  # where no run is
    rows.to_csv(table, index=False)
    heat_map = render_heat_map(ReportData(results.config, results.local, results.ceilings))
    assert heat_map is not None
    _, first = heat_map.blocks[0].rows[0]
    assert [[cell.text for cell in cells] for cells in first] == [["–", "–", "×"]] * 2
    titles = [len(block.titles) for block in heat_map.blocks]
    assert titles[0] == 1 and all(0 < count <= 2 for count in titles)


def test_blue_is_better_and_orange_worse() -> None:
    def channels(ratio: float) -> tuple[int, int, int]:
        red, green, blue = bytes.fromhex(shade(ratio)[0][1:])
        return red, green, blue

    assert len({*channels(1.0)}) == 1
    for better, worse in ((1.5, 1 / 1.5), (4.0, 0.25), (100.0, 0.01)):
        assert channels(better)[2] > channels(better)[0]
        assert channels(worse)[0] > channels(worse)[2]
    assert shade(8.0) == shade(100.0)
    assert [shade(ratio)[1] for ratio in (0.1, 0.5, 1.0, 2.0, 10.0)] == [
        True, False, False, False, True
    ]  # fmt: skip


def test_an_experiment_whose_runs_another_has_is_not_there_again() -> None:
    times = {"Pytorch": [1.0] * 4, "Flash2": [1.0] * 4}
    same = [experiment_of(times, name=f"e{number}") for number in range(3)]
    assert [experiment.name for experiment, _ in blocks_of(same)] == ["e0"]
    others = [
        replace(each, runs=[{**run, "batch_size": number} for run in each.runs])
        for number, each in enumerate(same)
    ]
    assert [experiment.name for experiment, _ in blocks_of(others)] == ["e0", "e1", "e2"]


def test_on_paper_many_runs_leave_the_first_blocks() -> None:
    block = HeatBlock([], [("N = 1", [])] * 25)
    assert len(printed_blocks([block] * 5)) == ROWS_OF_MANY // 25
    assert printed_blocks([HeatBlock([], [("N = 1", [])] * 99)])
