"""The compact table of a chapter: its metrics without intervals and run numbers.

Of two implementations a row is a value of the sweep, and their metrics stand side by side with how
many times as good the other one is; of more, a row is an implementation, and the values of the
sweep are columns of what one chooses by and of the exact metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.experiment import (
    Experiment,
    Variant,
    chosen_metrics,
    metrics_of,
)
from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.frames import Gain
from flashlab.analysis.ratios import exceeds_margin
from flashlab.benchmarks.model import Metric
from flashlab.numbers import measured, times
from flashlab.report.data import ReportData, with_unit
from flashlab.report.document import Cell, Row, Table, grouped
from flashlab.report.ladder import chapter_table
from flashlab.telling.values import (
    Label,
    Listed,
    Tellable,
    heading,
    in_turn,
    say,
    setting,
)

MOST_VALUES = 6
"""Most values of a sweep that fit side by side twice, for two metrics."""

PREFIXES = {"equal": "≈ ", "inconclusive": "? "}
"""The sign before a ratio that is equal or undecided."""

FAR = 20.0
"""From this factor on, or its inverse, only too few calls leave a ratio undecided."""

FAILED = {"oom": "OOM"}
"""The mark in place of a number, by status; × for the others."""

_NUMBER = re.compile(r"\D*?[\d,]*\d(\.\d+)?")


def _aligned(table: Table) -> Table:
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
    """Digits after the point; None where the text is no number or goes on after it."""
    text = cell.text if isinstance(cell, Cell) and not cell.note else cell
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    return len(match[1] or ".") - 1 if match else None


def printed_value(experiment: Experiment, run: RunRow | None, metric: Metric) -> Cell:
    """A metric of a run with as many digits as its interval supports."""
    if run is None:
        return Cell("–")
    if run["status"] != "ok":
        return Cell(FAILED.get(run["status"], "×"))
    row = experiment.metric_row(run, metric.name)
    if row["value"] is None:
        return Cell("–")
    return Cell(measured(row["value"], row["low"], row["high"]))


def _caption(
    data: ReportData, metrics: Sequence[Metric], rows: Sequence[Row], bold: str
) -> Tellable:
    """A table's caption: its metrics, and the meaning of bold where there is any."""
    exact = [Label(metric.labels) for metric in metrics if metric.exact]
    parts = [say("caption.compact")]
    if exact:
        parts = [say("caption.compact.exact", exact=Listed(exact))]
    if any(isinstance(cell, Cell) and cell.strong for row in rows for cell in row.cells):
        parts.append(say(bold))
    return in_turn(parts)


# Two implementations


def _ratio_cell(gain: Gain | None) -> Cell:
    """The gain of one implementation over another, with the sign of the verdict."""
    return Cell("–") if gain is None else ratio_cell(gain.x, gain.verdict, gain.low, gain.high)


def ratio_cell(ratio: float, verdict: str, low: float | None, high: float | None) -> Cell:
    """A ratio, with the sign of its verdict where that is no difference; bold where decided.

    One that is undecided for too few calls alone, being far from 1, has no sign.
    """
    prefix = PREFIXES.get(verdict, "")
    if verdict == "inconclusive" and abs(math.log(ratio)) > math.log(FAR):
        prefix = ""
    return Cell(f"{prefix}{times(ratio, low, high)}×", strong=verdict not in PREFIXES)


def _pair_row(
    data: ReportData,
    experiment: Experiment,
    variant: Variant,
    value: int,
    names: Sequence[str],
    metrics: Sequence[Metric],
) -> Iterator[Cell]:
    """Each metric of both implementations, and their ratio."""
    runs = [experiment.run_at(name, variant, value) for name in names]
    for metric in metrics:
        yield from (printed_value(experiment, run, metric) for run in runs)
        if not metric.exact:
            both = (names[1], names[0])
            yield _ratio_cell(data.gain(experiment, variant, metric, both, value))
            continue
        values = [
            experiment.metric_row(run, metric.name)["value"]
            for run in runs
            if run is not None and run["status"] == "ok"
        ]
        if len(values) == 2:
            yield Cell(f"{times(values[1] / values[0])}×", strong=_is_beyond(*values))
        else:
            yield Cell("–")


def _metrics_of_pair(experiment: Experiment, *, narrow: bool) -> list[Metric]:
    chosen = chosen_metrics(experiment.benchmark)
    exact = metrics_of(experiment.benchmark, exact=True)
    return [*(chosen[-1:] if narrow else chosen), *exact]


def _pair_table(
    data: ReportData,
    experiment: Experiment,
    names: Sequence[str],
    variants: Sequence[Variant],
    metrics: Sequence[Metric],
) -> Table:
    """A row for each variant and value of the sweep; `names` are the baseline and the other one."""
    sizes = [experiment.parameter, *experiment.covarying]
    several = experiment.varying_variants if len(variants) > 1 else []
    columns: list[Tellable] = [
        *(heading(parameter.labels) for parameter in several),
        *(size.symbol for size in sizes),
        *[*names, ""] * len(metrics),
    ]
    groups: list[tuple[Tellable, int]] = [("", len(several) + len(sizes))]
    groups += [(data.heading_in_short(metric), 3) for metric in metrics]
    rows = []
    for variant in variants:
        for value in experiment.values:
            run = next(r for r in experiment.runs if experiment.value_of(r) == value)
            cells: list[Cell | Tellable] = [
                *(setting(p, dict(variant)[p.name]) for p in several),
                *(run[size.name] for size in sizes),
                *_pair_row(data, experiment, variant, value, names, metrics),
            ]
            rows.append(Row(cells, first=value == experiment.values[0] and variant != variants[0]))
    numeric = range(len(several), len(columns))
    caption = _caption(data, metrics, rows, "caption.compact.bold.difference")
    return Table(columns, rows, numeric=numeric, caption=caption, groups=groups)


# Several


def _differing(
    data: ReportData, group: Sequence[Experiment], experiment: Experiment, variant: Variant
) -> Tellable:
    """An experiment and its variant, by the parameters that differ within its chapter."""
    several = len({variant for each in group for variant in each.variants}) > 1
    given: dict[str, Any] = {}
    for parameter in data.benchmark.stated([row for each in group for row in each.runs]):
        mine, *others = ({row[parameter.name] for row in e.runs} for e in (experiment, *group))
        if parameter.is_variant and several:
            given[parameter.name] = dict(variant)[parameter.name]
        elif len(mine) == 1 and len(set().union(*others)) > 1:
            given[parameter.name] = mine.pop()
    return data.given(given)


def _best(experiment: Experiment, variant: Variant, metric: Metric) -> dict[int, list[str]]:
    """The implementations within the margin of the best, by value of the sweep."""
    values: dict[int, dict[str, float]] = {}
    for name in experiment.implementations:
        for row in experiment.metric_rows(name, variant, metric.name):
            if row["status"] == "ok":
                values.setdefault(experiment.value_of(row), {})[name] = row["value"]
    best = max if metric.higher_is_better else min
    return {
        value: [n for n, each in of.items() if not _is_beyond(each, best(of.values()))]
        for value, of in values.items()
        if len(of) > 1
    }


def _is_beyond(value: float, best: float) -> bool:
    """True if two values differ by more than the margin."""
    return value != best and (
        min(value, best) <= 0 or exceeds_margin(max(value, best) / min(value, best))
    )


def _several_table(
    data: ReportData,
    group: Sequence[Experiment],
    shown: Sequence[tuple[Experiment, Variant]],
    *,
    narrow: bool,
) -> Table:
    """A row for each experiment, variant and implementation; the sweep's values are columns."""
    every, symbol = group[0].values, group[0].parameter.symbol
    metrics = [*chosen_metrics(data.benchmark)[-1:], *metrics_of(data.benchmark, exact=True)]
    values = [every[-1:] if narrow and metric.exact else every for metric in metrics]
    if not narrow and len(every) * len(metrics) > 2 * MOST_VALUES:
        metrics, values = metrics[:1], values[:1]
    several = len(shown) > 1
    columns: list[Tellable] = [
        *([say("column.setting")] if several else []),
        say("column.implementation"),
        *(str(value) for of_metric in values for value in of_metric),
    ]
    groups: list[tuple[Tellable, int]] = [("", 1 + several)]
    groups += [
        (m.unit if narrow and m.exact else Listed([with_unit(m), f", {symbol} ="], ""), len(of))
        for m, of in zip(metrics, values, strict=True)
    ]
    rows = []
    for experiment, variant in shown:
        label = [_differing(data, group, experiment, variant)] if several else []
        bests = [_best(experiment, variant, metric) for metric in metrics]
        for name in experiment.implementations:
            cells: list[Cell | Tellable] = [*label, name]
            for metric, best, of_metric in zip(metrics, bests, values, strict=True):
                for value in of_metric:
                    run = experiment.run_at(name, variant, value)
                    cell = printed_value(experiment, run, metric)
                    cells.append(replace(cell, strong=name in best.get(value, ())))
            rows.append(Row(cells, implementation=name))
    rows = grouped(rows, int(several))
    caption = _caption(data, metrics, rows, "caption.compact.bold.best")
    numeric = range(1 + several, len(columns))
    return Table(columns, rows, numeric=numeric, caption=caption, groups=groups)


def compact_table(
    data: ReportData,
    group: Sequence[Experiment],
    printed: Collection[frozenset[str]],
    *,
    narrow: bool = False,
) -> Table | None:
    """The table of a chapter, with its caption.

    None without numbers, and of alternatives, whose table is on page one; a ladder's is its own.

    A `narrow` one has the total and the exact metrics alone; of more than two implementations these
    at the last value. A variant whose runs are in the table of an earlier chapter (`printed`, sets
    of record names) is left out, unless no other one remains.
    """
    if group[0].has_alternatives:
        return None
    if own := chapter_table(data, group[0].name):
        return own
    if all(run["status"] != "ok" for experiment in group for run in experiment.runs):
        return None
    every = [(experiment, variant) for experiment in group for variant in experiment.variants]
    fresh = [pair for pair in every if records_of(*pair) not in printed] or every
    names = [name for name in group[0].implementations if name == data.baseline]
    names += [name for name in group[0].implementations if name != data.baseline]
    if len(group) == 1 and len(names) == 2 and data.baseline in names:
        metrics = _metrics_of_pair(group[0], narrow=narrow)
        variants = [variant for _, variant in fresh]
        return _aligned(_pair_table(data, group[0], names, variants, metrics))
    return _aligned(_several_table(data, group, fresh, narrow=narrow))


def records_of(experiment: Experiment, variant: Variant) -> frozenset[str]:
    """The records behind one variant of an experiment."""
    return frozenset(
        run["record"] for run in experiment.runs if experiment.variant_of(run) == variant
    )
