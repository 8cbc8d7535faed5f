"""The table of alternatives on page one: every attention's measurements, compiled and not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flashlab.numbers import percent, rough, size, three
from flashlab.report.compact import FAILED, printed_value
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table, grouped
from flashlab.report.profile import speed_cell
from flashlab.story.tables import Section
from flashlab.story.training import (
    BUSY,
    COMPILATION,
    ENERGY,
    KERNELS,
    MEMORY,
    OFF,
    ON,
    SWITCH,
    TIME,
    Alternative,
    alternatives_of,
    busy_share,
    repaid,
    speed_of,
    value_of,
)
from flashlab.telling.values import Label, Listed, Tellable, say, settings

GROUPS: Mapping[str, Sequence[str]] = {
    "column.alternative.time": ("ms", "column.alternative.naive", "column.alternative.eager"),
    "column.alternative.busy": ("ms", "%", "column.alternative.kernels"),
    "column.alternative.memory": ("MiB",),
    "column.alternative.energy": ("J",),
    "column.alternative.compilation": ("s", "column.alternative.repaid"),
    "column.alternative.processes": ("",),
}
"""The columns beside the name, below the headings of their groups; units stand for themselves."""

COLUMNS = sum(map(len, GROUPS.values()))
COMPILED = "✓"


def _number(value: float | None, digits: int = 3) -> Cell:
    if value is None:
        return Cell("–")
    return Cell(size(value) if digits > 3 else three(value))


def _cells(data: ReportData, section: Section, alternative: Alternative) -> Sequence[Cell]:
    """An alternative's measurements; its status and dashes where it has none."""
    name, variant = alternative
    run = section.run(name, variant, section.experiment.values[0])
    if run is None or run["status"] != "ok":
        status = run["status"] if run else ""
        return [Cell(FAILED.get(status, "×")), *[Cell("–")] * (COLUMNS - 1)]
    plain, share = (section.baseline, OFF), busy_share(section, alternative)
    after = repaid(section).get(name) if variant == ON else None
    processes = len(section.experiment.processes_of(run))
    return [
        printed_value(section.experiment, run, data.benchmark.metric(TIME)),
        speed_cell(None if alternative == plain else speed_of(section, alternative, plain)),
        speed_cell(speed_of(section, alternative, (name, OFF)) if variant == ON else None),
        _number(value_of(section, BUSY, alternative)),
        Cell("–" if share is None else percent(share).removesuffix("%")),
        _number(value_of(section, KERNELS, alternative), 4),
        _number(value_of(section, MEMORY, alternative), 4),
        _number(value_of(section, ENERGY, alternative)),
        _number(value_of(section, COMPILATION, alternative)),
        Cell("–" if after is None else rough(after["after"])),
        Cell(str(processes)),
    ]


def render_alternatives(data: ReportData) -> Table | None:
    """A row an attention, compiled or not; None where the runs are no alternatives."""
    if not any(experiment.has_alternatives for experiment in data.experiments):
        return None
    section = alternatives_of(data.tables)
    if section is None:
        return None
    rows = []
    for name in section.implementations:
        for variant in section.variants:
            mark = COMPILED if variant == ON else ""
            cells = _cells(data, section, (name, variant))
            rows.append(Row([name, mark, *cells], implementation=name))
    run = section.experiment.runs[0]
    given = {p.name: run[p.name] for p in data.benchmark.given if p.name != SWITCH}
    setting = Listed((*settings(data.benchmark, given), *map(Label, data.benchmark.size(given))))
    caption = say("caption.alternatives", run=setting, naive=section.baseline)
    words = Label(data.benchmark.parameter(SWITCH).words[True])
    columns: list[Tellable] = [say("column.implementation"), words]
    groups: list[tuple[Tellable, int]] = [("", 2)]
    for heading, below in GROUPS.items():
        columns += [say(each) if "." in each else each for each in below]
        groups.append((say(heading), len(below)))
    numeric = range(2, len(columns))
    return Table(columns, grouped(rows), numeric=numeric, caption=caption, groups=groups)
