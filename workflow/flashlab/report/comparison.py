"""The section on the implementations: who runs them, how near the ceilings, who overtakes whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Variant, chosen_metrics
from flashlab.analysis.select import MIN_CHOICES
from flashlab.benchmarks.model import Metric
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Implementations, Row, Table, grouped, run_cell, table_of
from flashlab.report.front import STEPS_FIGURE, SUMMARY_FIGURE, overview_figures
from flashlab.report.kernels import render_kernels
from flashlab.report.profile import render_profile
from flashlab.report.statements import links, render_statements
from flashlab.telling.stretches import ends_of_stretch
from flashlab.telling.values import Label, Tellable, heading, in_turn, say

BOUNDS = ("compute_bound", "memory_bound", "neither", "model_error")
CEILINGS = ("matrix_percent", "copy_percent")
ROOFLINE_COLUMNS = (
    *("column.implementation", "column.quantity", "column.matrix_share", "column.run"),
    *("column.copy_share", "column.run", "column.compute_bound", "column.memory_bound"),
    *("column.neither", "column.model_error"),
)


def _error_cell(runs: Sequence[Mapping[str, Any]], compared: str) -> Cell:
    """The largest error of the records that passed, and that of the plain formula."""

    def largest(kind: str) -> str:
        gates = [run["gate"] for run in runs if run["status"] == "ok" and run["gate"]]
        found = [gate.get(kind, {}).get(compared) for gate in gates]
        worst = max((error for error in found if error is not None), default=None)
        return "" if worst is None else f"{worst:.1e}".replace("e-0", "e-")

    plain = largest("plain_errors")
    return Cell(largest("errors") or "–", f"({plain})" if plain else "")


def _table(data: ReportData) -> Table:
    """Each implementation: its label, what ran it, its runs, how they went, and its errors."""
    gated = {} if data.is_unchecked else data.benchmark.gated
    rows = []
    for name, entry in data.implementations.items():
        mine = [run for run in data.runs if run["implementation"] == name]
        records = [record for record in data.records if record["implementation"] == name]
        providers = sorted({run["provider"] for run in mine if run["provider"]})
        good = sum(run["status"] == "ok" for run in mine)
        cells: list[Cell | Tellable] = [
            name,
            Label(entry["label"]),
            Cell(", ".join(providers) or "–"),
            f"{good} / {len(mine)}",
            *(_error_cell(records, compared) for compared in gated),
        ]
        rows.append(Row(cells, implementation=name))
    keys = ("column.implementation", "column.label", "column.provider", "column.runs_ok")
    columns = [
        *map(say, keys),
        *(say("column.error", compared=heading(each)) for each in gated.values()),
    ]
    unchecked = "caption.implementations.unchecked"
    told = [say(unchecked if data.is_unchecked else "caption.implementations")]
    if any(run["gate"] and "plain_errors" in run["gate"] for run in data.runs):
        told.append(say("caption.implementations.plain"))
    return Table(columns, rows, numeric=range(3, len(columns)), caption=in_turn(told))


def _title(data: ReportData, experiment: Experiment, variant: Variant) -> Tellable:
    """An experiment's title, and the variant, if there is one."""
    title = Label(experiment.plan["title"])
    if not variant:
        return title
    return say("crossover.where", title=title, variant=data.variant(variant))


# Which to choose


def _choices(data: ReportData) -> Table | None:
    """Who is best by each metric along each experiment, where there is a choice of several.

    A cell is the same in every language: ``N = 128–512: SdpaCudnn; 1024: Flash4``.
    """
    metrics = chosen_metrics(data.benchmark)
    rows: dict[str, Row] = {}
    for experiment in data.experiments:
        for variant in experiment.variants:
            several = len(experiment.variants) > 1
            cells: list[Cell | Tellable] = [_title(data, experiment, variant if several else ())]
            for metric in metrics:
                about = {"metric": metric.name, "variant": dict(variant)}
                found = data.find(experiment, "choice", **about)
                if found is None or found.facts["of"] < MIN_CHOICES or not found.facts["count"]:
                    break
                stretches = [
                    f"{', '.join(ends_of_stretch(entry['values']))}: {', '.join(entry['names'])}"
                    for entry in found.facts["winners"]
                ]
                cells.append(Cell(f"{experiment.parameter.symbol} = {'; '.join(stretches)}"))
            else:  # one experiment's may be another's
                rows.setdefault(str(cells[1:]), Row(cells))
    columns = [say("column.experiment"), *(heading(metric.labels) for metric in metrics)]
    return Table(columns, [*rows.values()], caption=say("caption.choices")) if rows else None


# The roofline


def _roofline_row(data: ReportData, name: str, metric: Metric) -> Row | None:
    """An implementation's nearest approach to either ceiling, and how its runs are bound."""
    bound: dict[str, set[int]] = {verdict: set() for verdict in BOUNDS}
    nearest: dict[str, tuple[float, int]] = {}
    for finding in data.of_kind("roofline"):
        if not finding.is_about(implementation=name, metric=metric.name):
            continue
        for estimate in finding.estimates:
            number = data.number_of(data.run_of(finding, estimate["value"]))
            bound.setdefault(finding.verdict, set()).add(number)
            for ceiling in CEILINGS:
                share = estimate[ceiling]["estimate"]
                if ceiling not in nearest or share > nearest[ceiling][0]:
                    nearest[ceiling] = (share, number)
    if not nearest:
        return None
    cells: list[Cell | Tellable] = [name, heading(metric.labels)]
    for ceiling in CEILINGS:
        share, number = nearest[ceiling]
        cells += [f"{data.number(share, 3)}%", run_cell(number)]
    cells += [len(bound[verdict]) for verdict in BOUNDS]
    return Row(cells, implementation=name)


def _roofline(data: ReportData) -> Table | None:
    timed = [metric for metric in data.benchmark.measured if metric.work]
    rows = [
        row
        for name in data.implementations
        for metric in timed
        if (row := _roofline_row(data, name, metric))
    ]
    numeric, caption = range(2, len(ROOFLINE_COLUMNS)), say("caption.roofline_table")
    return table_of(ROOFLINE_COLUMNS, grouped(rows), numeric=numeric, caption=caption)


# Crossovers


def _crossovers(data: ReportData) -> Table | None:
    """Where the better one of any two implementations changes, beyond what the prose tells."""
    rows: dict[str, Row] = {}
    before: tuple[Tellable, Metric] | None = None
    for finding in data.of_kind("crossover", "crosses"):
        if finding.implementations <= set(data.headline):
            continue
        experiment = data.experiment(str(finding.experiment))
        facts, metric = finding.facts, data.benchmark.metric(str(finding.metric))
        found = links(data, finding)
        # An experiment that shares its runs with an earlier one has the same crossovers.
        runs = [link.target for link in found if link.target.startswith("run-")]
        key = str([finding.subject, facts, runs])
        if key in rows:
            continue
        title = _title(data, experiment, finding.variant or ())
        group = (title, metric)
        span = f"{experiment.parameter.symbol} = {facts['low_at']} – {facts['high_at']}"
        cells: list[Cell | Tellable] = [
            title,
            heading(metric.labels) if group != before else "",
            Cell(f"{facts['before']} → {facts['after']}"),
            Cell(span, target=found[-1].target),
        ]
        rows[key] = Row(cells, implementation=finding.subject["implementation"])
        before = group
    keys = ("column.experiment", "column.quantity", "column.overtaking", "column.between")
    return table_of(keys, grouped(rows.values()), caption=say("caption.crossovers"))


def render_implementations(data: ReportData) -> Implementations:
    """The section on the implementations."""
    shown_before = (SUMMARY_FIGURE, STEPS_FIGURE)
    figures = [f for id, f in overview_figures(data).items() if not id.startswith(shown_before)]
    rooflines = [figure for figure in figures if figure.path.stem.startswith("roofline")]
    # What is told of the dataset as a whole and of the roofline; the tables have the rest.
    told = [f for f in data.findings if f.told and (f.kind == "roofline" or f.experiment is None)]
    errors = [f for f in told if f.verdict == "model_error"]
    told = [f for f in told if f not in errors]
    told.sort(key=lambda f: f.kind == "roofline")
    return Implementations(
        table=_table(data),
        kernels=render_kernels(data),
        profile=render_profile(data),
        choices=_choices(data),
        rooflines=rooflines,
        errors=render_statements(data, errors, titled=True),
        statements=render_statements(data, told, titled=True),
        roofline=_roofline(data),
        others=[figure for figure in figures if figure not in rooflines],
        crossovers=_crossovers(data),
    )
