"""The compact table of a chapter: what a reader compares, without intervals and runs.

Of two implementations a row is a value of the sweep, and their metrics stand side by side with how
many times as good the other one is; of more, a row is an implementation, and the values of the
sweep are columns of what one chooses by and of the exact metrics.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.experiment import Sweep, Variant, chosen_metrics, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Metric, Parameter
from flashlab.report.data import ReportData, with_unit
from flashlab.report.document import Cell, Row, Table
from flashlab.telling.values import (
    Label,
    Listed,
    Tellable,
    heading,
    in_turn,
    say,
    setting,
    settings,
)

MOST_VALUES = 6
"""Most values of a sweep that fit side by side twice, for two metrics."""

PREFIXES = {"equivalent": "≈ ", "equal": "≈ ", "inconclusive": "? "}
"""What stands before a ratio that is no difference, or not decided to be one."""

FAILED = {"oom": "OOM"}
"""What stands in place of a number, by status; × for the others."""

_NUMBER = re.compile(r"^\D*?[\d,]*\d(\.\d+)?")


def aligned(table: Table) -> Table:
    """The table with the numbers of each numeric column aligned at the decimal point."""
    rows = [list(row.cells) for row in table.rows]
    for column in table.numeric:
        places = [_places(cells[column]) for cells in rows if column < len(cells)]
        most = max((each for each in places if each is not None), default=0)
        for cells, mine in zip(rows, places, strict=False):
            cell = cells[column]
            if isinstance(cell, Cell) and mine is not None and mine < most:
                # The point is half as wide as a digit.
                cells[column] = replace(cell, pad=most - mine + (0.5 if not mine else 0))
    shown = [replace(row, cells=cells) for row, cells in zip(table.rows, rows, strict=True)]
    return replace(table, rows=shown)


def _places(cell: Cell | Tellable) -> int | None:
    """Digits after the point; None for what is no number, or has something behind it."""
    if not isinstance(cell, Cell) or cell.note:
        return None
    found = _NUMBER.match(cell.text)
    if found is None or found.end() != len(cell.text):
        return None
    return len(found[1]) - 1 if found[1] else 0


def printed_value(data: ReportData, sweep: Sweep, run: RunRow | None, metric: str) -> Cell:
    """A metric of a run with as many digits as its interval supports."""
    if run is None:
        return Cell("–")
    if run["status"] != "ok":
        return Cell(FAILED.get(run["status"], "×"))
    row, declared = sweep.metric_row(run, metric), sweep.benchmark.metric(metric)
    if row["value"] is None:
        return Cell("–")
    if declared.exact:
        return Cell(data.number(row["value"], 4 if row["value"] < 1000 else 6))
    parts = [sweep.metric_row(run, name) for name in sweep.benchmark.measured_behind(metric)]
    is_sum = declared.derived is None or declared in sweep.benchmark.totals
    if not is_sum or any(part["low"] is None for part in parts):
        return Cell(data.number(row["value"], 3))
    half_width = sum(part["high"] - part["low"] for part in parts) / 2
    return Cell(data.rounded_to(row["value"], half_width))


def _caption(
    data: ReportData, metrics: Sequence[Metric], rows: Sequence[Row], bold: str
) -> Tellable:
    """What the numbers of a table are, and what bold stands for, where any is."""
    exact = [Label(metric.labels) for metric in metrics if metric.exact]
    told = [say("caption.compact")]
    if exact:
        told = [say("caption.compact.exact", exact=Listed(exact))]
    if any(isinstance(cell, Cell) and cell.strong for row in rows for cell in row.cells):
        told.append(say(bold))
    return in_turn(told)


# Two implementations


def _ratio_cells(choice: Finding | None, value: int, name: str, data: ReportData) -> Cell:
    """How many times as good as the other one an implementation is at a value."""
    estimates = choice.estimates if choice else ()
    found = next((each for each in estimates if each["value"] == value), None)
    if found is None:
        return Cell("–")
    ratio = found["estimate"] if found["best"] == name else 1 / found["estimate"]
    return ratio_cell(data, ratio, found["verdict"])


def ratio_cell(data: ReportData, ratio: float, verdict: str) -> Cell:
    """A ratio, with the sign of its verdict where that is no difference."""
    prefix = PREFIXES.get(verdict, "")
    return Cell(f"{prefix}{data.ratio(ratio)}×", strong=not prefix)


def _pair_row(
    data: ReportData, sweep: Sweep, variant: Variant, value: int, names: Sequence[str]
) -> list[Cell | Tellable]:
    runs = [sweep.run_at(name, variant, value) for name in names]
    other = next(name for name in names if name != data.baseline)
    cells: list[Cell | Tellable] = []
    for metric in chosen_metrics(sweep.benchmark):
        cells += [printed_value(data, sweep, run, metric.name) for run in runs]
        choice = data.find(sweep, "choice", metric=metric.name, variant=dict(variant))
        cells.append(_ratio_cells(choice, value, other, data))
    for metric in metrics_of(sweep.benchmark, exact=True):
        cells += [printed_value(data, sweep, run, metric.name) for run in runs]
        values = [
            sweep.metric_row(run, metric.name)["value"]
            for run in runs
            if run is not None and run["status"] == "ok"
        ]
        cells.append(Cell(f"{data.ratio(values[1] / values[0])}×" if len(values) == 2 else "–"))
    return cells


def _pair_table(
    data: ReportData, sweep: Sweep, names: Sequence[str], variants: Sequence[Variant]
) -> Table:
    benchmark = sweep.benchmark
    sizes = [sweep.parameter, *(p for p in sweep.varying if p != sweep.parameter)]
    several = sweep.varying_variants if len(variants) > 1 else []
    metrics: list[Metric] = [*chosen_metrics(benchmark), *metrics_of(benchmark, exact=True)]
    groups: list[tuple[Tellable, int]] = [("", len(several) + len(sizes))]
    columns: list[Tellable] = [
        *(heading(parameter.labels) for parameter in several),
        *(size.symbol for size in sizes),
    ]
    for metric in metrics:
        label = metric.labels if metric.exact or not metric.part else metric.part
        groups.append((with_unit(heading(label), metric), 3))
        columns += [*(name for name in names), ""]
    rows = []
    for variant in variants:
        for value in sweep.values:
            run = next((r for r in sweep.runs if sweep.value_of(r) == value), None)
            assert run is not None  # every value of a sweep has a run
            cells: list[Cell | Tellable] = [
                *(setting(p, dict(variant)[p.name]) for p in several),
                *(Cell(str(run[size.name])) for size in sizes),
                *_pair_row(data, sweep, variant, value, names),
            ]
            rows.append(Row(cells, first=value == sweep.values[0] and variant != variants[0]))
    numeric = range(len(several), len(columns))
    caption = _caption(data, metrics, rows, "caption.compact.bold.difference")
    return Table(columns, rows, numeric=numeric, caption=caption, groups=groups)


# Several


def _telling_apart(group: Sequence[Sweep]) -> list[Parameter]:
    """The parameters that tell the experiments and variants of a chapter from one another."""
    several = len({variant for each in group for variant in each.variants}) > 1
    return [
        parameter
        for parameter in group[0].benchmark.parameters
        if (parameter.is_variant and several)
        or len({row[parameter.name] for each in group for row in each.runs}) > 1
    ]


def _differing(
    data: ReportData, telling: Sequence[Parameter], sweep: Sweep, variant: Variant
) -> Tellable:
    """An experiment and its variant, by the parameters that tell it from others of its chapter."""
    given: dict[str, Any] = {}
    for parameter in telling:
        mine = {row[parameter.name] for row in sweep.runs}
        if parameter.is_variant:
            given[parameter.name] = dict(variant)[parameter.name]
        elif len(mine) == 1:
            given[parameter.name] = mine.pop()
    found = settings(data.benchmark, given)
    return Listed(found) if found else ""


def _best(data: ReportData, sweep: Sweep, variant: Variant, metric: str) -> dict[int, list[str]]:
    """Who is the best or level with it, at each value."""
    choice = data.find(sweep, "choice", metric=metric, variant=dict(variant))
    return {each["value"]: each["level"] for each in choice.estimates} if choice else {}


def _rows_of(
    data: ReportData,
    group: Sequence[Sweep],
    shown: Collection[tuple[str, Variant]],
    metrics: Sequence[Metric],
) -> Iterator[Row]:
    several, telling = len(shown) > 1, _telling_apart(group)
    for sweep in group:
        for variant in sweep.variants:
            if (sweep.name, variant) not in shown:
                continue
            label = _differing(data, telling, sweep, variant)
            for position, name in enumerate(sweep.implementations):
                cells: list[Cell | Tellable] = []
                if several:
                    cells.append(label if not position else Cell(""))
                cells.append(Cell(name))
                for metric in metrics:
                    best = _best(data, sweep, variant, metric.name)
                    for value in sweep.values:
                        run = sweep.run_at(name, variant, value)
                        cell = printed_value(data, sweep, run, metric.name)
                        cells.append(replace(cell, strong=name in best.get(value, ())))
                yield Row(cells, implementation=name, first=not position)


def _alternatives_table(data: ReportData, sweep: Sweep) -> Table:
    """Of alternatives at one setting: a row an implementation and variant.

    What is derived from a metric tells nothing more of runs that do the same work, and is left out.
    """
    variants = sweep.varying_variants
    metrics = [m for m in sweep.benchmark.metrics if not m.derived and _is_known(sweep, m)]
    columns = [
        say("column.implementation"),
        *(heading(variant.labels) for variant in variants),
        *(with_unit(data.panel(metric), metric) for metric in metrics),
    ]
    rows, name = [], ""
    for run in sweep.ordered:
        first = run["implementation"] != name
        name = run["implementation"]
        cells: list[Cell | Tellable] = [
            Cell(name if first else ""),
            *(setting(p, run[p.name]) for p in variants),
        ]

        def value(metric: Metric, run: RunRow = run) -> Cell:
            return printed_value(data, sweep, run, metric.name)

        cells += data.metric_cells(run, metrics, value)
        rows.append(Row(cells, implementation=name, first=first))
    numeric = range(1 + len(variants), len(columns))
    caption = _caption(data, metrics, rows, "caption.compact.bold.best")
    return Table(columns, rows, numeric=numeric, caption=caption)


def _is_known(sweep: Sweep, metric: Metric) -> bool:
    """Whether any run has a metric."""
    return any(row["value"] is not None for row in sweep.metrics if row["metric"] == metric.name)


def _several_table(
    data: ReportData, group: Sequence[Sweep], shown: Collection[tuple[str, Variant]]
) -> Table:
    sweep, benchmark = group[0], data.benchmark
    metrics = [*chosen_metrics(benchmark)[-1:], *metrics_of(benchmark, exact=True)]
    if len(sweep.values) * len(metrics) > 2 * MOST_VALUES:
        metrics = metrics[:1]
    several = len(shown) > 1
    columns: list[Tellable] = [*([say("column.setting")] if several else [])]
    columns.append(say("column.implementation"))
    groups: list[tuple[Tellable, int]] = [("", len(columns))]
    for metric in metrics:
        symbol = sweep.parameter.symbol
        label = Listed([with_unit(heading(metric.labels), metric), f", {symbol} ="], "")
        groups.append((label, len(sweep.values)))
        columns += [str(value) for value in sweep.values]
    rows = list(_rows_of(data, group, shown, metrics))
    numeric = range(1 + several, len(columns))
    caption = _caption(data, metrics, rows, "caption.compact.bold.best")
    return Table(columns, rows, numeric=numeric, caption=caption, groups=groups)


def compact_table(
    data: ReportData, group: Sequence[Sweep], told: Collection[frozenset[str]]
) -> Table | None:
    """The table of a chapter, with its caption; None where nothing gave numbers.

    A variant whose runs an earlier chapter's table holds (`told`, sets of record names) is left out
    where another one remains.
    """
    if all(run["status"] != "ok" for sweep in group for run in sweep.runs):
        return None
    if group[0].has_alternatives:
        return aligned(_alternatives_table(data, group[0]))
    every = [(sweep, variant) for sweep in group for variant in sweep.variants]
    fresh = [pair for pair in every if records_of(*pair) not in told] or every
    names = [name for name in group[0].implementations if name == data.baseline]
    names += [name for name in group[0].implementations if name != data.baseline]
    if len(group) == 1 and len(names) == 2 and data.baseline in names:
        return aligned(_pair_table(data, group[0], names, [variant for _, variant in fresh]))
    return aligned(_several_table(data, group, [(sweep.name, v) for sweep, v in fresh]))


def records_of(sweep: Sweep, variant: Variant) -> frozenset[str]:
    """The records behind one variant of an experiment."""
    return frozenset(run["record"] for run in sweep.runs if sweep.variant_of(run) == variant)
