"""The report's data, read once: configuration, sweeps, findings and ceilings.

Every run has a number, in the order in which the experiments first show it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, Variant, read_planned_experiment
from flashlab.analysis.finding import Finding, read_findings
from flashlab.benchmarks.model import Metric
from flashlab.files import read_json
from flashlab.plan.plan_files import (
    CLAIMS_PREFIX,
    SUMMARY,
    experiment_file,
    planned_experiments,
    titles_file,
)
from flashlab.report.document import Cell, Link
from flashlab.telling.codes import STATUSES
from flashlab.telling.glyphs import legible, legible_plan
from flashlab.telling.stretches import neighbours
from flashlab.telling.teller import Teller
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    Number,
    Tellable,
    heading,
    say,
    settings,
)

SAMPLED_DIGITS = 4
EXACT_DIGITS = 6
BETTER = {"lower": "better.lower", "higher": "better.higher"}
"""The message for each way in which a metric is better."""

WRITTEN_BY_OTHERS = ("device_name", "driver", "torch", "provider", "message", "commit")
"""Columns of the run table whose text comes from records, and may hold any character."""


def read_legible_experiment(
    results: Path, name: str, titles: Mapping[str, Mapping[str, str]]
) -> Experiment:
    """The sweep of an experiment in the folder of a dataset's results, all of its text legible."""
    experiment = read_planned_experiment(experiment_file(results, name), results / "tables")
    known: dict[tuple[str, str], str] = {}  # what many records share is warned of once

    def legible_row(row: Row) -> Row:
        cells = dict(row)
        for column in WRITTEN_BY_OTHERS:
            if text := row[column]:
                if (column, text) not in known:
                    known[column, text] = legible(text, f"{Path(row['record']).name}: {column}")
                cells[column] = known[column, text]
        return cells

    runs, records = ([*map(legible_row, rows)] for rows in (experiment.runs, experiment.records))
    plan = legible_plan(experiment.plan, titles)
    return replace(experiment, plan=plan, runs=runs, records=records)


class ReportData:
    """All that the report's parts look up.

    `experiments` are the sections in order, `summary` the headline's, `of_claims` the records that
    only published claims are about; `ceilings` is the document of the device's measured ceilings,
    None where there is none.
    """

    def __init__(self, config: Mapping[str, Any], results: Path, ceilings: Path | None) -> None:
        self.config = config
        self.results = results
        self.ceilings = read_json(ceilings) if ceilings else None
        self.languages: Sequence[str] = config["languages"]
        self.baseline: str = config["baseline"]
        titles = read_json(titles_file(results))
        self.summary = read_legible_experiment(results, SUMMARY, titles).in_order(
            config["summary"]["implementations"]
        )
        self.benchmark = self.summary.benchmark
        self.tellers = [Teller(language, self.benchmark) for language in self.languages]
        self.of_claims = [
            read_legible_experiment(results, name, titles)
            for name in planned_experiments(results)
            if name.startswith(CLAIMS_PREFIX)
        ]
        self.experiments = [
            read_legible_experiment(results, e["name"], titles) for e in config["experiments"]
        ]
        order = {experiment.name: position for position, experiment in enumerate(self.experiments)}
        # In the order of the sections; those about no experiment of the report come last.
        self.findings: list[Finding] = sorted(
            read_findings(results / "findings.json"),
            key=lambda finding: order.get(finding.experiment or "", len(order)),
        )

    @cached_property
    def runs(self) -> list[Row]:
        """Every run once, in order of its number."""
        found: dict[str, Row] = {}
        for experiment in (*self.experiments, self.summary, *self.of_claims):
            for row in experiment.ordered:
                found.setdefault(row["record"], row)
        return list(found.values())

    @cached_property
    def records_of_runs(self) -> list[list[Row]]:
        """The records of each run, one for each process, in order of the runs' numbers."""
        found: dict[str, list[Row]] = {}
        for experiment in (*self.experiments, self.summary, *self.of_claims):
            records: dict[tuple[Any, ...], list[Row]] = {}
            for record in experiment.records:
                records.setdefault(experiment.key_of(record), []).append(record)
            for row in experiment.runs:
                found.setdefault(row["record"], records[experiment.key_of(row)])
        return [found[run["record"]] for run in self.runs]

    @cached_property
    def records(self) -> list[Row]:
        """Every record once, in order of the runs' numbers."""
        return list(itertools.chain(*self.records_of_runs))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {
            record["record"]: n
            for n, records in enumerate(self.records_of_runs, start=1)
            for record in records
        }

    def number_of(self, run: Row) -> int:
        """The number in the appendix of a run, or of the run that a record is of."""
        return self._numbers[run["record"]]

    @property
    def headline(self) -> list[str]:
        """The implementations of the headline table, which the sections describe in prose."""
        return self.summary.implementations

    @cached_property
    def implementations(self) -> dict[str, Mapping[str, Any]]:
        """Each implementation once, with its label and style, as the experiments name them."""
        return {
            entry["name"]: entry
            for experiment in (*self.experiments, self.summary)
            for entry in experiment.plan["implementations"]
        }

    @cached_property
    def _by_name(self) -> dict[str, Experiment]:
        return {experiment.name: experiment for experiment in (self.summary, *self.experiments)}

    def experiment(self, name: str) -> Experiment:
        """The sweep of this name, the summary among them."""
        return self._by_name[name]

    @cached_property
    def _found(self) -> dict[str | None, dict[str, list[Finding]]]:
        """The findings by their experiment and their kind."""
        found: dict[str | None, dict[str, list[Finding]]] = {}
        for finding in self.findings:
            found.setdefault(finding.experiment, {}).setdefault(finding.kind, []).append(finding)
        return found

    def find(self, experiment: Experiment, kind: str, **subject: Any) -> Finding | None:
        """The first finding of this kind about a subject in an experiment, None for none."""
        found = self._found.get(experiment.name, {}).get(kind, [])
        return next((finding for finding in found if finding.is_about(**subject)), None)

    @property
    def on_cpu(self) -> bool:
        """Whether everything was measured on a CPU."""
        return self.distinct("device") == ["cpu"]

    def distinct(self, column: str) -> list[str]:
        """The values of a column over all records, sorted, without the empty ones."""
        return sorted({str(row[column]) for row in self.records if row[column] is not None})

    # Pieces in words

    def told(self, told: Tellable) -> list[str]:
        """A value in words, in each of the report's languages."""
        return [teller.tell(told) for teller in self.tellers]

    @cached_property
    def measured_ceilings(self) -> Ceilings | None:
        """The device's ceilings, if they were measured."""
        return read_ceilings(self.ceilings, Estimates()) if self.ceilings else None

    def has_fallen(self, dtype: str) -> bool:
        """Whether a dtype's matrix-product rate fell to a sustained one while it was measured."""
        known = self.measured_ceilings.matrix if self.measured_ceilings else {}
        return dtype in known and known[dtype].sustained is not None

    def variant(self, variant: Variant) -> Tellable:
        """A variant in words; empty where the benchmark has none."""
        words = settings(self.benchmark, dict(variant))
        return Listed(words) if words else ""

    def panel(self, metric: Metric) -> Label:
        """A metric in short: what sets it apart within its quantity, or that quantity."""
        return Label(metric.part or metric.quantity.labels)

    def heading_in_short(self, metric: Metric) -> Tellable:
        """What sets a metric apart among those of its unit, or itself, with the unit."""
        label = metric.part if metric.part and not metric.exact else metric.labels
        return with_unit(heading(label), metric)

    def number(self, value: float | None, digits: int = SAMPLED_DIGITS) -> str:
        """A number; the languages of the report write numbers alike."""
        return self.tellers[0].tell(Number(value, digits))

    def rounded_to(self, value: float, half_width: float) -> str:
        """A measured number with the digits that the half-width of its interval supports.

        Two significant digits at least, and `SAMPLED_DIGITS` at most; of more than a hundred the
        whole digits, since a zero in their place would read as measured.
        """
        magnitude = math.floor(math.log10(abs(value))) if value else 0
        supported = math.floor(-math.log10(half_width)) if half_width > 0 else SAMPLED_DIGITS
        places = max(0, min(max(supported, 1 - magnitude), SAMPLED_DIGITS - 1 - magnitude))
        return self.tellers[0].tell(Measured(round(value, places), places))

    def ratio(self, value: float) -> str:
        """A ratio of measured values, to three digits with trailing zeros; from 20 on to two."""
        if value >= 20:
            return f"{float(f'{value:.2g}'):,.0f}"
        return self.tellers[0].tell(Measured(float(f"{value:.3g}")))

    def value(self, row: Row) -> Cell:
        """The value of a row of the metric table, with its interval if there is one."""
        if self.benchmark.metric(row["metric"]).exact:
            return Cell(self.number(row["value"], EXACT_DIGITS))
        low, high = row["low"], row["high"]
        interval = "" if low is None else f"{self.number(low)} – {self.number(high)}"
        return Cell(self.number(row["value"]), interval)

    def metric_cells(
        self, run: Row, metrics: Sequence[Metric], cell: Callable[[Row, Metric], Cell]
    ) -> list[Cell | Tellable]:
        """A run's metrics; its status, once, if it has no numbers."""
        if run["status"] != "ok":
            return [self.status(run), *[Cell("–")] * (len(metrics) - 1)]
        return [cell(run, metric) for metric in metrics]

    def status(self, row: Row) -> Tellable:
        """The status of a run, or of a row of the metric table."""
        return say(STATUSES[row["status"]])

    def run_of(self, finding: Finding, value: int) -> Row:
        """The run that a finding about one implementation and variant has at a value."""
        experiment = self.experiment(str(finding.experiment))
        run = experiment.run_at(finding.subject["implementation"], finding.variant or (), value)
        assert run is not None  # findings are about runs that were asked for
        return run

    def run_links(self, rows: Iterable[Row]) -> list[Link]:
        """Links to the runs in the appendix, one for each stretch of numbers: 3–6, 11."""
        found = stretches(self.number_of(row) for row in rows)
        return [Link(f"run-{first}", text) for first, text in found.items()]


def with_unit(texts: Tellable, metric: Metric) -> Tellable:
    """A heading with the unit of its metric, if it has one."""
    if metric.unit == "1":
        return texts
    return Listed([texts, f" ({metric.unit})"], "")


def stretches(numbers: Iterable[int]) -> dict[int, str]:
    """The stretches of consecutive numbers, by their first: 1, 2, 3, 7 are ``1–3`` and ``7``."""
    found = neighbours(sorted(set(numbers)))
    return {each[0]: "–".join(dict.fromkeys(map(str, (each[0], each[-1])))) for each in found}
