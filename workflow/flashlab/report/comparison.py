"""The section on the implementations: who runs them, how near the ceilings, who overtakes whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import chosen_metrics
from flashlab.analysis.finding import Finding
from flashlab.analysis.select import MIN_CHOICES
from flashlab.benchmarks.model import Metric
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Implementations, Row, Table, table_of
from flashlab.report.front import IN_OVERVIEW, SUMMARY_FIGURE, overview_figures
from flashlab.report.kernels import render_kernels
from flashlab.report.profile import render_profile
from flashlab.report.statements import FindingRenderer
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
    gated = data.benchmark.gated
    rows = []
    for name, entry in data.implementations.items():
        mine = [run for run in data.runs if run["implementation"] == name]
        records = [record for record in data.records if record["implementation"] == name]
        providers = sorted({run["provider"] for run in mine if run["provider"]})
        good = sum(run["status"] == "ok" for run in mine)
        cells: list[Cell | Tellable] = [
            Cell(name),
            Label(entry["label"]),
            Cell(", ".join(providers) or "–"),
            Cell(f"{good} / {len(mine)}"),
            *(_error_cell(records, compared) for compared in gated),
        ]
        rows.append(Row(cells, implementation=name))
    keys = ("column.implementation", "column.label", "column.provider", "column.runs_ok")
    columns = [
        *map(say, keys),
        *(say("column.error", compared=heading(each)) for each in gated.values()),
    ]
    told = [say("caption.implementations")]
    if any(run["gate"] and "plain_errors" in run["gate"] for run in data.runs):
        told.append(say("caption.implementations.plain"))
    return Table(columns, rows, numeric=range(3, len(columns)), caption=in_turn(told))


# Which to choose


def _winners(finding: Finding, symbol: str) -> Cell:
    """Who is best where, the same in every language: ``N = 128–512: SdpaCudnn; 1024: Flash4``."""
    stretches = [
        f"{', '.join(ends_of_stretch(entry['values']))}: {', '.join(entry['names'])}"
        for entry in finding.facts["winners"]
    ]
    return Cell(f"{symbol} = {'; '.join(stretches)}")


def _choices(data: ReportData) -> Table | None:
    """Who is best by each metric along each experiment, where there is a choice of several."""
    metrics = chosen_metrics(data.benchmark)
    rows: list[Row] = []
    for experiment in data.experiments:
        for variant in experiment.variants:
            title: Tellable = Label(experiment.plan["title"])
            if len(experiment.variants) > 1:
                title = say("crossover.where", title=title, variant=data.variant(variant))
            cells: list[Cell | Tellable] = [title]
            for metric in metrics:
                about = {"metric": metric.name, "variant": dict(variant)}
                found = data.find(experiment, "choice", **about)
                if found is None or found.facts["of"] < MIN_CHOICES or not found.facts["count"]:
                    break
                cells.append(_winners(found, experiment.parameter.symbol))
            else:
                known = [row.cells[1:] for row in rows]  # one experiment's may be another's
                if cells[1:] not in known:
                    rows.append(Row(cells))
    if not rows:
        return None
    columns: list[Tellable] = [say("column.experiment")]
    columns += [heading(metric.labels) for metric in metrics]
    return Table(columns, rows, caption=say("caption.choices"))


# The roofline


def _roofline_row(data: ReportData, name: str, metric: Metric, first: bool) -> Row | None:
    """An implementation's nearest approach to either ceiling, and how its runs are bound."""
    bound: dict[str, set[int]] = {verdict: set() for verdict in BOUNDS}
    nearest: dict[str, tuple[float, int]] = {}
    for finding in data.findings:
        if finding.kind != "roofline" or not finding.is_about(
            implementation=name, metric=metric.name
        ):
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
    cells: list[Cell | Tellable] = [Cell(name if first else ""), heading(metric.labels)]
    for ceiling in CEILINGS:
        share, number = nearest[ceiling]
        cells.append(Cell(f"{data.number(share, 3)}%"))
        cells.append(Cell(str(number), target=f"run-{number}"))
    cells += [Cell(str(len(bound[verdict]))) for verdict in BOUNDS]
    return Row(cells, implementation=name, first=first)


def _roofline(data: ReportData) -> Table | None:
    timed = [metric for metric in data.benchmark.measured if metric.work]
    rows = [
        row
        for name in data.implementations
        for metric in timed
        if (row := _roofline_row(data, name, metric, first=metric == timed[0]))
    ]
    numeric, caption = range(2, len(ROOFLINE_COLUMNS)), say("caption.roofline_table")
    return table_of(ROOFLINE_COLUMNS, rows, numeric=numeric, caption=caption)


def _told(data: ReportData) -> list[Finding]:
    """What is told of the dataset as a whole and of the roofline; the tables have the rest.

    Contradictions of the roofline's model come first.
    """
    told = [f for f in data.findings if f.told and (f.kind == "roofline" or f.experiment is None)]
    return sorted(told, key=lambda f: (f.verdict != "model_error", f.kind == "roofline"))


# Crossovers


def _crossovers(data: ReportData, renderer: FindingRenderer) -> Table | None:
    """Where the better one of any two implementations changes, beyond what the prose tells."""
    rows = []
    before: tuple[object, ...] = ()
    known: set[str] = set()
    for finding in data.findings:
        if finding.kind != "crossover" or finding.verdict != "crosses":
            continue
        if finding.implementations <= set(data.headline):
            continue
        experiment = data.experiment(str(finding.experiment))
        facts, metric = finding.facts, data.benchmark.metric(str(finding.metric))
        links = renderer.links(finding)
        # An experiment that shares its runs with an earlier one has the same crossovers.
        runs = [link.target for link in links if link.target.startswith("run-")]
        key = str([finding.subject, facts, runs])
        if key in known:
            continue
        known.add(key)
        group = (experiment.name, finding.variant, metric.name)
        first = group[:2] != before[:2]
        title: Tellable = Label(experiment.plan["title"])
        if finding.variant:
            variant = data.variant(finding.variant)
            title = say("crossover.where", title=title, variant=variant)
        span = f"{experiment.parameter.symbol} = {facts['low_at']} – {facts['high_at']}"
        cells: list[Cell | Tellable] = [
            title if first else Cell(""),
            heading(metric.labels) if group != before else Cell(""),
            Cell(f"{facts['before']} → {facts['after']}"),
            Cell(span, target=links[-1].target),
        ]
        name = finding.subject["implementation"]
        rows.append(Row(cells, implementation=name, first=first))
        before = group
    keys = ("column.experiment", "column.quantity", "column.overtaking", "column.between")
    return table_of(keys, rows, caption=say("caption.crossovers"))


def render_implementations(data: ReportData, renderer: FindingRenderer) -> Implementations:
    """The section on the implementations."""
    shown_before = (SUMMARY_FIGURE, *IN_OVERVIEW)
    figures = [f for id, f in overview_figures(data).items() if not id.startswith(shown_before)]
    rooflines = [figure for figure in figures if figure.path.stem.startswith("roofline")]
    return Implementations(
        table=_table(data),
        kernels=render_kernels(data),
        profile=render_profile(data),
        choices=_choices(data),
        rooflines=rooflines,
        statements=renderer.render(_told(data), titled=True),
        roofline=_roofline(data),
        others=[figure for figure in figures if figure not in rooflines],
        crossovers=_crossovers(data, renderer),
    )
