"""The table of steps: three clocks, each step against the step before it, and what fell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from planted import ladder, training
from planted.results import PlantedReport

from flashlab.report.data import ReportData
from flashlab.report.document import Cell
from flashlab.report.profile import render_profile, render_steps
from flashlab.telling.teller import Teller


def data_of(report: PlantedReport, folder: Path) -> ReportData:
    return ReportData(report.config, report.write(folder, drawn=[]), None)


def texts(data: ReportData, cells: Sequence[Any]) -> list[str]:
    """The cells in English; what is decided with stars around it."""
    teller = Teller("en", data.benchmark)
    return [
        (f"*{cell.text}*" if cell.strong else cell.text)
        if isinstance(cell, Cell)
        else teller.tell(cell)
        for cell in cells
    ]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """The table of the planted steps, in English, by the step's name."""
    report = dataclasses.replace(ladder.ON_GPU, processes=3)
    data = data_of(report, tmp_path_factory.mktemp("steps"))
    table = render_steps(data)
    assert table is not None
    assert texts(data, [label for label, _ in table.groups]) == [
        *("", "kernel", "with copies", "whole process", "What fell most")
    ]
    return {row.implementation: texts(data, row.cells) for row in table.rows}


def test_each_step_stands_beside_the_step_before_it(rows: Mapping[str, Sequence[str]]) -> None:
    assert rows["SharedTiles"][:4] == ["2", "SharedTiles", "137", "*2.00×*"]
    assert rows["Padded"][3] == "≈ 1.01×"
    assert rows["Coalesced"][3] == "*0.74×*"


def test_the_whole_process_is_in_seconds(rows: Mapping[str, Sequence[str]]) -> None:
    assert rows["GlobalMemory"][6] == "1.87"


def test_what_fell_most_stands_beside_a_step_that_helps(rows: Mapping[str, Sequence[str]]) -> None:
    assert rows["SharedTiles"][-2:] == ["global loads", "8.0 TB → 1.0 TB"]
    assert rows["Padded"][-2:] == ["–", ""]


def test_a_step_that_could_not_be_measured_has_no_numbers(
    rows: Mapping[str, Sequence[str]],
) -> None:
    assert rows["Sequential"] == ["0", "Sequential", "×", "–", "×", "–", "×", "–", "–", ""]


def test_the_bytes_of_a_step_are_those_of_a_second_in_its_kernels(tmp_path: Path) -> None:
    data = data_of(ladder.ON_GPU, tmp_path)
    table = render_profile(data)
    assert table is not None
    found = {label: rest for label, *rest in (texts(data, row.cells) for row in table.rows)}
    assert found["Time in kernels (ms)"] == ["270", "140"]
    assert found["Global-memory loads (GB/s)"] == ["29,000", "7,300"]  # of 8 and 1 TB
    assert found["Bank conflicts (M)"] == ["0", "5,000"]


def test_without_steps_or_of_a_simulator_there_is_none(tmp_path: Path) -> None:
    assert render_steps(data_of(ladder.SIMULATED, tmp_path / "simulated")) is None
    data = data_of(training.REPORT, tmp_path / "training")
    assert render_steps(data) is None and render_profile(data) is None
