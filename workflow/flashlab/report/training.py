"""The table of trainings: every attention's measurements, compiled and not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from flashlab.analysis.frames import Dataset
from flashlab.labels import LANGUAGES
from flashlab.numbers import percent, short, span_of, three
from flashlab.report.document import Row, Table, Words, says
from flashlab.report.ladder import speed_cell
from flashlab.story.training import Alternative, Training, training_of

GROUPS: Mapping[str, Sequence[str]] = {
    "column.alternative.time": ("ms", "column.alternative.naive", "column.alternative.eager"),
    "column.alternative.busy": ("ms", "%", "column.alternative.kernels"),
    "column.alternative.memory": ("MiB",),
    "column.alternative.energy": ("J",),
    "column.alternative.compilation": ("s",),
    "column.alternative.first": ("s",),
}
"""The columns beside the name, below the headings of their groups; units stand for themselves."""


def training_tables(data: Dataset) -> dict[str | None, Sequence[Table]]:
    """Page one's table; none where the runs are no alternatives."""
    d = training_of(data)
    return {} if d is None else {None: [alternatives_table(d)]}


def _number(value: float, printed: Callable[[float], str] = three) -> str:
    return printed(value) if value == value else "–"


def _cells(d: Training, key: Alternative) -> list[Words]:
    row, plain = d.table[key], (key[0], False)
    ends = span_of(row.ends) if row.ends[0] < row.ends[1] else ""
    iteration = ends if "–" in ends else ""  # more than one number
    over = [None if key == other else d.speed(key, other) for other in (d.plain, plain)]
    share = _number(row.share, lambda value: percent(value).removesuffix("%"))
    return [
        Markup("{} <small>{}</small>").format(three(row.iteration_time), iteration),
        *map(speed_cell, over),
        _number(row.gpu_busy_time),
        Markup("<b>{}</b>").format(share) if key in d.waiting else share,
        *(_number(each, short) for each in (row.kernels, row.peak_memory)),
        *(_number(each) for each in (row.energy, row.compile_time, row.first_step)),
    ]


def alternatives_table(d: Training) -> Table:
    """A row an attention, compiled or not."""
    rows = []
    for name, compiled in d.table:
        again = compiled and (name, False) in d.table
        cells: list[Words] = ["" if again else name, "✓" if compiled else ""]
        rows.append(Row([*cells, *_cells(d, (name, compiled))], "base" if compiled else ""))
    benchmark, run = d.data.benchmark, d.data.runs.loc[d.name].iloc[0]
    given = {p.name: run[p.name] for p in benchmark.given if p.name != "compile"}
    sizes = benchmark.size(given)
    said = [f"{p.symbol} = {given[p.name]}" for p in benchmark.given if p.name in given]
    setting = {e: ", ".join([*said, *(size[e] for size in sizes)]) for e in LANGUAGES}
    columns: list[Words] = [says("table.implementation"), says("column.alternative.compiled")]
    below = itertools.chain.from_iterable(GROUPS.values())
    columns += [says(each) if "." in each else each for each in below]
    groups: list[tuple[Words, int]] = [("", 2)]
    groups += [(says(heading), len(own)) for heading, own in GROUPS.items()]
    legend = [says("caption.alternatives", run=setting, naive=d.data.baseline)]
    return Table(columns, rows, groups, text=2, legend=legend)
