"""The report's data, read once: configuration, sweeps, comparisons and ceilings.

Every run has a number, in the order in which the experiments first show it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.comparison_rows import variant_words
from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.experiment import (
    COMPARISONS,
    ESTIMATES,
    Experiment,
    Row,
    Variant,
    read_planned_experiment,
    sections_of,
)
from flashlab.analysis.frames import Dataset, Gain, Key, by_key, gains, read_dataset
from flashlab.analysis.run_estimates import read_run_estimates
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import EFFECTS
from flashlab.files import read_json
from flashlab.numbers import MOST, in_full, measured, places_of
from flashlab.plan.plan_files import (
    OTHERS_PREFIX,
    SUMMARY,
    experiment_file,
    planned_experiments,
    titles_file,
)
from flashlab.report.document import Cell
from flashlab.story.tables import Tables
from flashlab.telling.codes import STATUSES
from flashlab.telling.glyphs import cut, legible, legible_plan
from flashlab.telling.stretches import neighbours
from flashlab.telling.teller import Teller
from flashlab.telling.values import (
    Label,
    Listed,
    Number,
    Tellable,
    heading,
    say,
    settings,
)

SAMPLED_DIGITS = 4
EXACT_DIGITS = 6

MOST_RUNS = 2000
"""Runs of a report beyond which paper has one figure of each section."""

BETTER = {"lower": "better.lower", "higher": "better.higher"}
"""The message for each way in which a metric is better."""

WRITTEN_BY_OTHERS = ("device_name", "driver", "torch", "provider", "message", "commit")
"""Columns of the run table whose text comes from records, and may hold any character."""

LONGEST_TEXT = 500
"""Characters of such a text that a report shows; a word of 20,000 would take minutes to typeset."""


class ReportData:
    """The data that the report's parts look up.

    `experiments` are the sections in order, numbered by their `ordinals`: those of the
    configuration, of which an imported folder may lack some. `others` are settings of such a
    folder that are in no section. `summary` is the headline's; `runs` has every run once, in order
    of its number, and `records_of_runs` the records of each, one for each process. `ceilings` is
    the document of the device's measured ceilings, None where there is none.
    """

    def __init__(self, config: Mapping[str, Any], results: Path, ceilings: Path | None) -> None:
        self.config = config
        self.results = results
        self._ceilings_file = ceilings
        self.ceilings = read_json(ceilings) if ceilings else None
        self.languages: Sequence[str] = config["languages"]
        self.baseline: str = config["baseline"]
        self.summary = self._read(SUMMARY).in_order(config["summary"]["implementations"])
        self.benchmark = self.summary.benchmark
        self.tellers = [Teller(language, self.benchmark) for language in self.languages]
        names = planned_experiments(results)
        configured = [experiment["name"] for experiment in config["experiments"]]
        self.experiments = [self._read(name) for name in configured if name in names]
        self.ordinals = {name: n for n, name in enumerate(configured, start=1)}
        self.others = [self._read(name) for name in names if name.startswith(OTHERS_PREFIX)]
        found: dict[str, tuple[Row, list[Row]]] = {}
        for experiment in (*self.experiments, self.summary, *self.others):
            records: dict[tuple[Any, ...], list[Row]] = {}
            for record in experiment.records:
                records.setdefault(experiment.key_of(record), []).append(record)
            for run in experiment.ordered:
                found.setdefault(run["record"], (run, records[experiment.key_of(run)]))
        self.runs = [run for run, _ in found.values()]
        self.records_of_runs = [records for _, records in found.values()]

    def _read(self, name: str) -> Experiment:
        """An experiment, all of its text legible and cut to `LONGEST_TEXT`."""
        results = self.results
        experiment = read_planned_experiment(experiment_file(results, name), results / "tables")
        known: dict[tuple[str, str], str] = {}  # what many records share is warned of once

        def legible_row(row: Row) -> Row:
            cells = dict(row)
            for column in WRITTEN_BY_OTHERS:
                if text := row[column]:
                    if (column, text) not in known:
                        place = f"{Path(row['record']).name}: {column}"
                        known[column, text] = cut(legible(text, place), LONGEST_TEXT)
                    cells[column] = known[column, text]
            return cells

        return replace(
            experiment,
            plan=legible_plan(experiment.plan, read_json(titles_file(results))),
            runs=[*map(legible_row, experiment.runs)],
            records=[*map(legible_row, experiment.records)],
        )

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

    @cached_property
    def warned(self) -> dict[str, list[int]]:
        """The numbers of the runs that carry each warning, by its code."""
        by_code: dict[str, list[int]] = {}
        for run in self.runs:
            for code in {warning["code"] for warning in run["warnings"] or ()}:
                by_code.setdefault(code, []).append(self.number_of(run))
        return by_code

    @property
    def is_imported(self) -> bool:
        """True if the records were made from a folder of the course's results."""
        return "import" in self.config

    @property
    def is_unchecked(self) -> bool:
        """True if the records are of the course's own script, which checks no result."""
        return self.is_imported and not any(record["gate"] for record in self.records)

    @property
    def headline(self) -> list[str]:
        """The implementations of the headline table, which the sections describe in prose."""
        return self.summary.implementations

    @cached_property
    def implementations(self) -> dict[str, Mapping[str, Any]]:
        """Each implementation once, with its label and style, as the experiments name them."""
        return {
            entry["name"]: entry
            for experiment in (*self.experiments, self.summary, *self.others)
            for entry in experiment.plan["implementations"]
        }

    def experiment(self, name: str | None) -> Experiment:
        """The sweep of this name, the summary among them."""
        return next(each for each in (self.summary, *self.experiments) if each.name == name)

    @property
    def shown(self) -> list[Experiment]:
        """The experiments of the sections and the headline, and `others`, by name."""
        shown = (*self.experiments, self.summary, *self.others)
        return sorted(shown, key=lambda experiment: experiment.name)

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every comparison of the dataset."""
        return read_comparisons(self.results / COMPARISONS)

    @cached_property
    def tables(self) -> Tables:
        """The tables of the dataset, as its story reads them."""
        estimates = read_run_estimates(self.results / ESTIMATES, self.benchmark)
        every = [self.summary, *self.experiments, *self.others]
        return Tables(every, self.comparisons, estimates, self.measured_ceilings)

    @cached_property
    def frames(self) -> Dataset:
        """The tables of the dataset as frames."""
        plans = [experiment_file(self.results, name) for name in planned_experiments(self.results)]
        return read_dataset(plans, self.results / "tables", self._ceilings_file)

    @cached_property
    def _gains(self) -> Mapping[Key, Gain]:
        return by_key(gains(self.comparisons, self.benchmark))

    @cached_property
    def compared(self) -> set[str]:
        """The experiments whose implementations are compared, by name."""
        return {key[0] for key in self._gains}

    def gain(
        self,
        experiment: Experiment,
        variant: Variant,
        metric: Metric,
        names: tuple[str, str],
        value: int,
    ) -> Gain | None:
        """The gain of the first of two implementations over the second at a value of the sweep.

        None where either has no numbers.
        """
        return self._gains.get(
            (experiment.name, variant_words(variant), metric.name, *names, value)
        )

    @property
    def on_cpu(self) -> bool:
        """True if everything was measured on a CPU."""
        return self.distinct("device") == ["cpu"]

    def distinct(self, column: str) -> list[str]:
        """The values of a column over all records, sorted, without the empty ones."""
        return sorted({str(row[column]) for row in self.records if row[column] is not None})

    @cached_property
    def measured_ceilings(self) -> Ceilings | None:
        """The device's ceilings, if they were measured."""
        return read_ceilings(self.ceilings) if self.ceilings else None

    def printed_figures(self, group: Sequence[Experiment]) -> list[tuple[str, str]]:
        """The figures of a section that are on paper, by experiment and id.

        All of one experiment but its curves, and what a variant does in it; of several the first
        one of each. One of each section where there are many runs.
        """
        curves = {curve.name for curve in self.benchmark.curves}
        figures = [
            [
                (experiment.name, figure["id"])
                for figure in experiment.plan["figures"]
                if figure["quantity"] not in curves
            ]
            for experiment in group
        ]
        if len(self.runs) > MOST_RUNS:
            return next((each[:1] for each in figures if each), [])
        if len(group) > 1:
            return [figure for each in figures for figure in each[:1]]
        (name,) = (experiment.name for experiment in group)
        return figures[0] + [(name, EFFECTS)] * (name in self.effects)

    @cached_property
    def effects(self) -> set[str]:
        """The experiments with a figure of a variant's effect (`figures.effects`)."""
        drawn = read_json(self.results / "overview" / "drawn.json")
        return {each.removeprefix(f"{EFFECTS}-") for each in drawn if each.startswith(EFFECTS)}

    @cached_property
    def chapters(self) -> list[tuple[int, list[Experiment]]]:
        """The sections' experiments, each with the number of its chapter and table.

        What an imported folder lacks has its numbers all the same.
        """
        numbers = {experiment.name: n for n, experiment in enumerate(self.experiments, start=1)}
        return [
            (n + self.ordinals[group[0].name] - numbers[group[0].name], group)
            for n, group in enumerate(sections_of(self.experiments), start=1)
        ]

    @cached_property
    def figure_numbers(self) -> dict[tuple[str, str], str]:
        """Numbers of all figures, by experiment and id: 1, 2, … on paper.

        S1, S2, … are those that the configuration calls supplements, and then those that only the
        HTML page has, so that no number is missing on paper but for the experiments that an
        imported folder lacks.
        """
        lacking: dict[str, tuple[int, int]] = {}
        main_before = others_before = 0
        for configured in self.config["experiments"]:
            lacking[configured["name"]] = main_before, others_before
            if configured["name"] not in {experiment.name for experiment in self.experiments}:
                main_before += len(configured["figures"])
                others_before += len(configured["supplement"])
        is_supplement = {
            (experiment.name, figure["id"]): figure["supplement"]
            for experiment in self.experiments
            for figure in experiment.plan["figures"]
        } | {(name, EFFECTS): True for name in self.effects}
        groups = map(self.printed_figures, sections_of(self.experiments))
        printed = list(itertools.chain(*groups))
        main = [key for key in printed if not is_supplement[key]]
        others = [key for key in printed if is_supplement[key]]
        others += [key for key in is_supplement if key not in printed]
        return {key: str(n + lacking[key[0]][0]) for n, key in enumerate(main, start=1)} | {
            key: f"S{n + lacking[key[0]][1]}" for n, key in enumerate(others, start=1)
        }

    # Pieces in words

    def in_words(self, value: Tellable) -> list[str]:
        """A value in words, in each of the report's languages."""
        return [teller.tell(value) for teller in self.tellers]

    def variant(self, variant: Variant) -> Tellable:
        """A variant in words; empty where the benchmark has none."""
        return self.given(dict(variant))

    def given(self, values: Mapping[str, Any]) -> Tellable:
        """Parameters with their values in words; empty for none."""
        words = settings(self.benchmark, values)
        return Listed(words) if words else ""

    def shape(self, run: Row) -> Tellable:
        """The given parameters of a run."""
        return self.given(
            {parameter.name: run[parameter.name] for parameter in self.benchmark.given}
        )

    def panel(self, metric: Metric) -> Label:
        """A metric in short: its part of its quantity, such as a pass, or the quantity."""
        return Label(metric.part or metric.quantity.labels)

    def heading_in_short(self, metric: Metric) -> Tellable:
        """A metric's name among those of its unit, such as its pass, with the unit."""
        label = metric.part if metric.part and not metric.exact else metric.labels
        return with_unit(metric, heading(label))

    def number(self, value: float | None, digits: int = SAMPLED_DIGITS) -> str:
        """A number; the languages of the report write numbers alike."""
        return self.tellers[0].tell(Number(value, digits))

    def value(self, row: Row) -> Cell:
        """The value of a row of the metric table, with its interval if there is one."""
        if self.benchmark.metric(row["metric"]).exact:
            return Cell(self.number(row["value"], EXACT_DIGITS))
        value, low, high = row["value"], row["low"], row["high"]
        if value is None or low is None or high is None:
            return Cell("–" if value is None else measured(value))
        places = places_of(value, low, high, MOST)
        ends = " – ".join(in_full(round(end, places), places) for end in (low, high))
        return Cell(measured(value, low, high), ends)

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


def with_unit(metric: Metric, label: Tellable | None = None) -> Tellable:
    """The heading of a metric, or another label of it, with its unit if it has one."""
    label = heading(metric.labels) if label is None else label
    return label if metric.unit == "1" else Listed([label, f" ({metric.unit})"], "")


def stretches(numbers: Iterable[int]) -> dict[int, str]:
    """The stretches of consecutive numbers, by their first: 1, 2, 3, 7 are ``1–3`` and ``7``."""
    ends = [(each[0], each[-1]) for each in neighbours(sorted(set(numbers)))]
    return {first: "–".join(dict.fromkeys(map(str, (first, last)))) for first, last in ends}
