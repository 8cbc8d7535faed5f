"""The tables of a ladder: its steps, their counters, growing problems, and other cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flashlab.numbers import percent, ratio, scaled, three, two
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.story.ladder import COUNTED, HOST, KERNEL, MOVED, PROCESS, UNITS, Ladder, ladder_of
from flashlab.story.speeds import EQUAL, UNDECIDED, Speed
from flashlab.telling.values import Label, Tellable, say

SIGNS = {EQUAL: "≈ ", UNDECIDED: "? "}
"""What stands before a speed that is not decided; one that is decided is bold."""

MISSING = "×"


def speed_cell(speed: Speed | None) -> Cell:
    """A speed with the sign of its verdict; nothing where there is none."""
    if speed is None:
        return Cell("")
    sign = SIGNS.get(speed.verdict, "")
    return Cell(f"{sign}{ratio(speed.x)}", strong=not sign)


def _time(times: Mapping[str, float], name: str, unit: float = 1.0) -> Cell:
    return Cell(three(times[name] / unit) if name in times else MISSING)


def _far(speed: Speed | None) -> str:
    return "" if speed is None else ratio(speed.x) if speed.x < 10 else three(speed.x)


def _ladder_of(data: ReportData) -> Ladder | None:
    """The dataset's ladder; None of another benchmark, and of a simulator, which has no times."""
    if data.benchmark.name != "ladder" or data.frames.device in data.benchmark.simulated:
        return None
    return ladder_of(data.frames)


def render_steps(data: ReportData) -> Table | None:
    """Each step's times by three clocks, and its speed over the step before and over the first."""
    d = _ladder_of(data)
    if d is None:
        return None
    places = d.places()
    clocks = {metric: d.values(metric) for metric in (HOST, PROCESS)}
    rows = []
    for number, name in enumerate(d.planned()):
        has, label = name in d.names, Label(d.data.declared[name]["label"])
        over = d.speed(name, d.names[0]) if has else None
        cells: list[Cell | Tellable] = [str(number), name, label]
        cells += [_time(d.values(KERNEL, at), name) for at in places]
        cells += [speed_cell(d.gains.get(name)), _far(over)]
        cells += [_time(clocks[HOST], name), _time(clocks[PROCESS], name, 1e3)]
        rows.append(Row(cells, implementation=name))
    columns: list[Tellable] = ["", say("column.step"), say("column.idea")]
    columns += [d.place(d.name, at) for at in places]
    columns += [say("column.before"), say("column.first"), "ms", "s"]
    groups: list[tuple[Tellable, int]] = [("", 3), (say("column.kernel.ms"), len(places))]
    groups += [(say("column.speed", at=d.place(d.name, d.at)), 2)]
    groups += [(say("column.clock.host"), 1), (say("column.clock.process"), 1)]
    caption = say("caption.steps.table", at=d.place(d.name, d.at))
    return Table(columns, rows, range(3, len(columns)), caption, groups=groups)


def counters_table(d: Ladder) -> Table | None:
    """The counts of each counted step, what they fell by, and each unit's share of its limit."""
    if d.counters.empty:
        return None

    def counted(name: str, counter: str) -> Cell:
        value, by = float(d.counters[counter][name]), float(d.falls[counter][name])
        moved = f"÷{two(by)}" if by >= MOVED else f"×{two(1 / by)}" if by <= 1 / MOVED else ""
        return Cell(scaled(value) if value == value else "–", moved)

    def share(name: str, unit: str) -> Cell:
        value = float(d.counters[unit][name])
        text = f"{100 * value:.0f}" if value == value else "–"
        return Cell(text, strong=d.units.get(name) == unit)

    rows = []
    for name in map(str, d.counters.index):
        occupancy = percent(d.counters.occupancy[name] / 100).removesuffix("%")
        cells: list[Cell | Tellable] = [name, *(counted(name, each) for each in COUNTED)]
        rows.append(Row([*cells, occupancy, *(share(name, unit) for unit in UNITS)]))
    columns = [say("column.step"), *(say(f"column.counted.{each}") for each in COUNTED)]
    columns += [say("column.occupancy"), *(say(f"column.unit.{unit}") for unit in UNITS)]
    groups: list[tuple[Tellable, int]] = [("", 1), (say("column.counts"), len(COUNTED)), ("%", 1)]
    groups.append((say("column.shares"), len(UNITS)))
    caption = say("caption.counters", at=d.place(d.name, d.at))
    return Table(columns, rows, range(1, len(columns)), caption, groups=groups)


def sizes_table(d: Ladder) -> Table | None:
    """The kernels' times of growing problems, and the last step's speed over the one before."""
    experiment = d.others["size"]
    times = {at: d.values(KERNEL, at, experiment) for at in d.places(experiment)}
    names = [n for n in d.planned(experiment) if any(n in of for of in times.values())]
    rows = [Row([n, *(_time(of, n) for of in times.values())], implementation=n) for n in names]
    if len(names) > 1:
        last, over = names[-1], names[-2]
        speeds = [d.speed(last, over, at=at, experiment=experiment) for at in times]
        rows.append(Row([f"{last} / {over}", *map(speed_cell, speeds)], first=True))
    symbol = d.data.benchmark.parameter(d.data.swept[experiment]).symbol
    columns: list[Tellable] = [f"{symbol} =", *map(str, times)]
    return Table(columns, rows, range(1, len(columns)), say("caption.sizes")) if rows else None


def cases_table(d: Ladder) -> Table | None:
    """The kernels' times of other cases, and beside each the time with its copies."""
    experiment = d.others["cases"]
    both = {
        at: [d.values(metric, at, experiment) for metric in (KERNEL, HOST)]
        for at in d.places(experiment)
    }
    rows = []
    for name in d.planned(experiment):
        cells: list[Cell | Tellable] = [name]
        for kernels, hosts in both.values():
            cells.append(replace(_time(kernels, name), note=_time(hosts, name).text))
        rows.append(Row(cells, implementation=name))
    columns: list[Tellable] = [say("column.step"), *(d.place(experiment, at) for at in both)]
    return Table(columns, rows, range(1, len(columns)), say("caption.cases")) if both else None


def chapter_table(data: ReportData, name: str) -> Table | None:
    """The table of an experiment's chapter; None where a ladder has none of its own there."""
    d = _ladder_of(data)
    if d is None:
        return None
    of = {d.name: counters_table}
    of |= {d.others[kind]: table for kind, table in _OF_OTHERS.items() if kind in d.others}
    return of[name](d) if name in of else None


_OF_OTHERS = {"size": sizes_table, "cases": cases_table}
