"""The heat map: what its cells say, in which colours, and what is on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from figures.drawn import experiment_of

from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.frames import by_key, gains
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.report.data import ReportData
from flashlab.report.document import HeatBlock
from flashlab.report.heat_map import ROWS_OF_MANY, blocks_of, printed_blocks, render_heat_map, shade

ADDED = ["Flex", "SdpaMath"]
NAMES = ["Pytorch", "Flash2", *ADDED]


def test_of_two_implementations_there_is_none(results: Any) -> None:
    assert results.compose().heat_map is None


def test_each_cell_has_its_share_of_the_best_of_its_row(results: Any) -> None:
    """Bold where it is not shown to be slower; each names the run that it shows."""
    results.add_implementations(ADDED)
    heat_map = results.compose().heat_map
    assert heat_map.implementations == ["Pytorch", "Flash2", *ADDED]
    assert [*heat_map.metrics] == ["forward_time", "forward_backward_time"]
    data = ReportData(results.config, results.local, results.ceilings)
    experiment = data.experiment("seq_len")
    found = by_key(gains(read_comparisons(results.local / "comparisons.csv"), ATTENTION))
    for size, (cells, _) in dict(heat_map.blocks[0].rows).items():
        value = int(size.removeprefix("N = "))
        runs = [experiment.run_at(name, experiment.variants[0], value) for name in NAMES]
        times = [experiment.metric_row(run, "forward_time")["value"] for run in runs]
        assert [int(cell.text) for cell in cells] == [round(100 * min(times) / t) for t in times]
        best = NAMES[times.index(min(times))]
        for name, cell in zip(NAMES, cells, strict=True):
            key = ("seq_len", "causal=false", "forward_time", best, name, value)
            is_slower = name != best and found[key].verdict == "above"
            assert cell.is_level != is_slower
            assert cell.colour == shade(min(times) / times[NAMES.index(name)])[0]
    runs = [cell.run for _, row in heat_map.blocks[0].rows for cell in row[0]]
    assert len({*runs}) == len(runs) and None not in runs


def test_what_has_no_result_is_marked_and_titles_stand_once(results: Any) -> None:
    results.add_implementations(ADDED)

    def fail(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        next(row for row in rows if row["implementation"] == ADDED[-1])["status"] = "oom"
        return rows

    results.edit_table("seq_len", "runs", fail)
    heat_map = render_heat_map(ReportData(results.config, results.local, results.ceilings))
    assert heat_map is not None
    _, first = heat_map.blocks[0].rows[0]
    assert [cells[-1].text for cells in first] == ["×", "×"]
    assert all("100" in {cell.text for cell in cells} for cells in first)
    titles = [len(block.titles) for block in heat_map.blocks]
    assert titles[0] == 1 and all(0 < count <= 2 for count in titles)


def test_the_nearer_to_the_best_the_darker() -> None:
    lightness = [sum(bytes.fromhex(shade(share / 20)[0][1:])) for share in range(21)]
    assert lightness == sorted(lightness, reverse=True)
    assert len({*lightness}) == 21 and lightness[0] == 3 * 255
    assert [shade(share)[1] for share in (0.0, 0.5, 0.7, 1.0)] == [False, False, True, True]


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
