"""Published figures of the same runs on other devices, beside those measured here."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.experiment import Row as RunRow
from flashlab.benchmarks.model import Benchmark, Value
from flashlab.report.compact import printed_value
from flashlab.report.data import ReportData, with_unit
from flashlab.report.document import Cell, Row, Table, grouped
from flashlab.telling.values import Tellable, heading, say, setting

FIGURES = Path(__file__).parents[3] / "data" / "published"
"""The folder of published figures, a table for each benchmark that has any."""


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that a document gives of a run on a device, in the metric's unit.

    `named` is the document's name of the implementation; `parameters` are the run's without the
    nominal ones.
    """

    device: str
    implementation: str
    named: str
    parameters: Mapping[str, Value]
    metric: str
    value: float


def read_figures(benchmark: Benchmark) -> list[PublishedFigure]:
    """The published figures of a benchmark's runs, in the order of their file; none without one."""
    path = FIGURES.joinpath(f"{benchmark.name}.csv")
    if not path.is_file():
        return []
    given = [parameter for parameter in benchmark.given if not parameter.nominal]
    with path.open(encoding="utf-8", newline="") as file:
        return [
            PublishedFigure(
                device=row["device"],
                implementation=row["implementation"],
                named=row["named"],
                parameters={
                    p.name: row[p.name] == "true" if p.kind is bool else p.kind(row[p.name])
                    for p in given
                    if p.name in row
                },
                metric=benchmark.metric(row["metric"]).name,
                value=float(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


def render_published(data: ReportData) -> Table | None:
    """A table of the runs that were published; None where no run here was."""
    figures = read_figures(data.benchmark)
    for experiment in data.experiments:
        runs = [run for run in experiment.ordered if _of_run(figures, run)]
        if experiment.has_alternatives and runs:
            return _table(data, experiment, figures, runs)
    return None


def _of_run(figures: Sequence[PublishedFigure], run: RunRow) -> list[PublishedFigure]:
    return [
        figure
        for figure in figures
        if figure.implementation == run["implementation"]
        and all(run[name] == value for name, value in figure.parameters.items())
    ]


def _table(
    data: ReportData,
    experiment: Experiment,
    figures: Sequence[PublishedFigure],
    runs: Sequence[RunRow],
) -> Table:
    """A row for each run; for each published metric a column for each device, this one last."""
    several = experiment.varying_variants
    devices = list(dict.fromkeys(figure.device for figure in figures))
    published = {figure.metric for figure in figures}
    metrics = [metric for metric in data.benchmark.metrics if metric.name in published]
    before = 2 + len(several)
    of_each: list[Tellable] = [*devices, say("column.here")]
    columns: list[Tellable] = [
        *map(say, ("column.implementation", "column.named")),
        *(heading(variant.labels) for variant in several),
        *of_each * len(metrics),
    ]
    groups: list[tuple[Tellable, int]] = [("", before)]
    groups += [(with_unit(m), len(of_each)) for m in metrics]
    rows = []
    for run in runs:
        of_run = _of_run(figures, run)
        values = {(figure.metric, figure.device): figure.value for figure in of_run}
        cells: list[Cell | Tellable] = [run["implementation"], Cell(of_run[0].named)]
        cells += [setting(parameter, run[parameter.name]) for parameter in several]
        for metric in metrics:
            cells += [data.number(values.get((metric.name, d)), 6) for d in devices]
            cells.append(printed_value(experiment, run, metric))
        rows.append(Row(cells, implementation=run["implementation"]))
    return Table(
        columns,
        grouped(rows, 2),
        numeric=range(before, len(columns)),
        caption=say("caption.published", device=experiment.device),
        groups=groups,
    )
