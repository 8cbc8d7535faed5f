"""The tables of the reports that have their own: a ladder's and those of trainings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from flashlab.analysis.frames import Dataset
from flashlab.labels import LANGUAGES
from flashlab.numbers import percent, ratio, scaled, short, span_of, three, two
from flashlab.report.document import Row, Table, Words, says
from flashlab.report.tables import Tables
from flashlab.story.ladder import COUNTED, HOST, KERNEL, MOVED, PROCESS, UNITS, Ladder, ladder_of
from flashlab.story.speeds import EQUAL, UNDECIDED, Speed
from flashlab.story.training import Alternative, Training, training_of

SIGNS = {EQUAL: "≈ ", UNDECIDED: "? "}
"""What stands before a speed that is not decided; one that is decided is bold."""

MISSING = "×"


def ladder_tables(data: Dataset) -> Tables:
    """The tables of page one and of each experiment; none of a simulator, which has no times."""
    d = None if data.device in data.benchmark.simulated else ladder_of(data)
    if d is None:
        return {}
    of = {d.name: counters_table(d)}
    made = {"size": sizes_table, "cases": cases_table}
    of |= {d.others[kind]: table(d) for kind, table in made.items() if kind in d.others}
    return {
        None: [steps_table(d)],
        **{name: [table] if table else [] for name, table in of.items()},
    }


def speed_cell(speed: Speed | None) -> Words:
    """A speed with the sign of its verdict; nothing where there is none."""
    if speed is None:
        return ""
    sign, text = SIGNS.get(speed.verdict, ""), ratio(speed.x)
    return f"{sign}{text}" if sign else Markup("<b>{}</b>").format(text)


def _time(times: Mapping[str, float], name: str, unit: float = 1.0) -> str:
    return three(times[name] / unit) if name in times else MISSING


def steps_table(d: Ladder) -> Table:
    """Each step's times by three clocks, and its speed over the step before and over the first."""
    places = d.places()
    clocks = {metric: d.values(metric) for metric in (HOST, PROCESS)}
    rows = []
    for number, name in enumerate(d.planned()):
        over = d.speed(name, d.names[0]) if name in d.names else None
        cells: list[Words] = [str(number), name, d.data.declared[name]["label"]]
        cells += [_time(d.values(KERNEL, at), name) for at in places]
        far = "" if over is None else ratio(over.x) if over.x < 10 else three(over.x)
        cells += [speed_cell(d.gains.get(name)), far]
        cells += [_time(clocks[HOST], name), _time(clocks[PROCESS], name, 1e3)]
        rows.append(Row(cells, "marked" if name == d.best else ""))
    columns: list[Words] = ["", says("column.step"), says("column.idea")]
    columns += [*(d.place(d.name, at) for at in places), says("column.before")]
    groups: list[tuple[Words, int]] = [("", 3), (says("column.kernel.ms"), len(places))]
    groups.append((says("column.speed", at=d.place(d.name, d.at)), 2))
    groups += [(says("column.clock.host"), 1), (says("column.clock.process"), 1)]
    legend = [says("caption.steps.table")]
    heads = [*columns, says("column.first"), "ms", "s"]
    return Table(heads, rows, groups, text=3, legend=legend, kind="steps")


def counters_table(d: Ladder) -> Table | None:
    """The counts of each counted step, what they fell by, and each unit's share of its limit."""
    if d.counters.empty:
        return None

    def counted(name: str, counter: str) -> Words:
        value, by = float(d.counters[counter][name]), float(d.falls[counter][name])
        moved = f"÷{two(by)}" if by >= MOVED else f"×{two(1 / by)}" if by <= 1 / MOVED else ""
        text = scaled(value) if value == value else "–"
        return Markup("{} <small>{}</small>").format(text, moved) if moved else text

    def share(name: str, unit: str) -> Words:
        value = float(d.counters[unit][name])
        text = f"{100 * value:.0f}" if value == value else "–"
        return Markup("<b>{}</b>").format(text) if d.units.get(name) == unit else text

    rows = []
    for name in map(str, d.counters.index):
        occupancy = percent(d.counters.occupancy[name] / 100).removesuffix("%")
        counts = [counted(name, each) for each in COUNTED]
        rows.append(Row([name, *counts, occupancy, *(share(name, unit) for unit in UNITS)]))
    columns: list[Words] = [says("column.step")]
    columns += [says(f"column.counted.{each}") for each in COUNTED]
    columns += [says("column.occupancy"), *(says(f"column.unit.{unit}") for unit in UNITS)]
    groups: list[tuple[Words, int]] = [("", 1), (says("column.counts"), len(COUNTED)), ("%", 1)]
    groups.append((says("column.shares"), len(UNITS)))
    legend = [says("caption.counters", at=d.place(d.name, d.at))]
    return Table(columns, rows, groups, legend=legend)


def sizes_table(d: Ladder) -> Table | None:
    """The kernels' times of growing problems, and the last step's speed over the one before."""
    experiment = d.others["size"]
    times = {at: d.values(KERNEL, at, experiment) for at in d.places(experiment)}
    names = [n for n in d.planned(experiment) if any(n in of for of in times.values())]
    rows = [Row([n, *(_time(of, n) for of in times.values())]) for n in names]
    if len(names) > 1:
        last, over = names[-1], names[-2]
        speeds = [d.speed(last, over, at=at, experiment=experiment) for at in times]
        rows.append(Row([f"{last} / {over}", *map(speed_cell, speeds)], "marked"))
    symbol = d.data.benchmark.parameter(d.data.swept[experiment]).symbol
    columns: list[Words] = [f"{symbol} =", *map(str, times)]
    return Table(columns, rows, legend=[says("caption.sizes")]) if rows else None


def cases_table(d: Ladder) -> Table | None:
    """The kernels' times of other cases, and beside each the time with its copies."""
    experiment = d.others["cases"]
    places = d.places(experiment)
    clocks = [[d.values(metric, at, experiment) for metric in (KERNEL, HOST)] for at in places]
    cell = Markup("{} <small>{}</small>")
    rows = [
        Row([name, *(cell.format(*(_time(times, name) for times in both)) for both in clocks)])
        for name in d.planned(experiment)
    ]
    columns: list[Words] = [says("column.step"), *(d.place(experiment, at) for at in places)]
    return Table(columns, rows, legend=[says("caption.cases")]) if places else None


# Trainings

GROUPS: Mapping[str, Sequence[str]] = {
    "column.alternative.time": ("ms", "column.alternative.naive", "column.alternative.eager"),
    "column.alternative.busy": ("ms", "%", "column.alternative.kernels"),
    "column.alternative.memory": ("MiB",),
    "column.alternative.energy": ("J",),
    "column.alternative.compilation": ("s",),
    "column.alternative.first": ("s",),
}
"""The columns beside the name, below the headings of their groups; units stand for themselves."""


def training_tables(data: Dataset) -> Tables:
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
