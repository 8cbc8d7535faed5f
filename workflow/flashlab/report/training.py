"""The table of trainings: every attention's measurements, compiled and not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from flashlab.numbers import percent, short, span_of, three
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.report.ladder import speed_cell
from flashlab.story.training import Alternative, Training, training_of
from flashlab.telling.values import Label, Listed, Tellable, say, settings

GROUPS: Mapping[str, Sequence[str]] = {
    "column.alternative.time": ("ms", "column.alternative.naive", "column.alternative.eager"),
    "column.alternative.busy": ("ms", "%", "column.alternative.kernels"),
    "column.alternative.memory": ("MiB",),
    "column.alternative.energy": ("J",),
    "column.alternative.compilation": ("s",),
    "column.alternative.first": ("s",),
}
"""The columns beside the name, below the headings of their groups; units stand for themselves."""


def _number(value: float, printed: Callable[[float], str] = three) -> Cell:
    return Cell(printed(value) if value == value else "–")


def _cells(d: Training, key: Alternative) -> list[Cell | Tellable]:
    row, plain = d.table[key], (key[0], False)
    iteration = span_of(row.ends) if row.ends[0] < row.ends[1] else ""
    over = [None if key == other else d.speed(key, other) for other in (d.plain, plain)]
    share = _number(row.share, lambda value: percent(value).removesuffix("%"))
    return [
        *(Cell(three(row.iteration_time), iteration), *map(speed_cell, over)),
        *(_number(row.gpu_busy_time), replace(share, strong=key in d.waiting)),
        *(_number(each, short) for each in (row.kernels, row.peak_memory)),
        *(_number(each) for each in (row.energy, row.compile_time, row.first_step)),
    ]


def render_alternatives(data: ReportData) -> Table | None:
    """A row an attention, compiled or not; None where the runs are no alternatives."""
    d = training_of(data.frames) if data.benchmark.name == "training" else None
    if d is None:
        return None
    rows = []
    for name, compiled in d.table:
        again = compiled and (name, False) in d.table
        cells = ["" if again else name, "✓" if compiled else "", *_cells(d, (name, compiled))]
        rows.append(Row(cells, implementation=name, first=not again))
    run = d.data.runs.loc[d.name].iloc[0]
    given = {p.name: run[p.name] for p in data.benchmark.given if p.name != "compile"}
    setting = Listed((*settings(data.benchmark, given), *map(Label, data.benchmark.size(given))))
    columns: list[Tellable] = [say("column.implementation"), say("column.alternative.compiled")]
    groups: list[tuple[Tellable, int]] = [("", 2)]
    for heading, below in GROUPS.items():
        columns += [say(each) if "." in each else each for each in below]
        groups.append((say(heading), len(below)))
    caption = say("caption.alternatives", run=setting, naive=data.baseline)
    return Table(columns, rows, range(2, len(columns)), caption, groups=groups)
