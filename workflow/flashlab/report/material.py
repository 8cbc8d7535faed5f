"""The report's inputs, read once: configuration, plans, tables, findings and ceilings.

Every run has a number, in the order in which the experiments first show it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.catalogs import SYMBOLS
from flashlab.glyphs import legible, legible_plan
from flashlab.plan_files import SUMMARY, experiment_file
from flashlab.report.document import Cell, Link
from flashlab.report.wording import Texts, Words, measured, number
from flashlab.tables import read_csv

TIME_DIGITS = 4
WRITTEN_BY_OTHERS = ("device_name", "driver", "torch", "provider", "message", "commit")
"""Columns of the run table whose text comes from records, and may hold any character."""

Row = Mapping[str, Any]
Finding = Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One experiment's plan and tables."""

    plan: Mapping[str, Any]
    runs: list[dict[str, Any]]
    passes: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return str(self.plan["name"])

    @property
    def sweep(self) -> str:
        """The parameter that varies; the summary, which has one shape, is told by its seq_len."""
        return str(self.plan["sweep"] or "seq_len")

    @property
    def symbol(self) -> str:
        """The letter of the parameter that varies."""
        return SYMBOLS[self.sweep]

    @property
    def implementations(self) -> list[str]:
        """Names, in the plan's order."""
        return [entry["name"] for entry in self.plan["implementations"]]

    @property
    def masks(self) -> list[bool]:
        """Whether full (False), causal (True), or both were measured."""
        return sorted({row["causal"] for row in self.runs})

    @property
    def varied_with(self) -> list[str]:
        """The parameters that vary along with the sweep's own."""
        return [
            key for key in SYMBOLS if key != self.sweep and len({row[key] for row in self.runs}) > 1
        ]

    @cached_property
    def ordered(self) -> list[dict[str, Any]]:
        """The runs as the table shows them: by implementation, mask and value."""
        order = self.implementations
        return sorted(
            self.runs,
            key=lambda row: (order.index(row["implementation"]), row["causal"], row[self.sweep]),
        )

    @cached_property
    def _by_run(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {(_key(row), row["pass"]): row for row in self.passes}

    def run(self, implementation: str, causal: bool, value: int) -> Row:
        """The row of the run at a value of the sweep."""
        return next(
            row
            for row in self.runs
            if (row["implementation"], row["causal"], row[self.sweep])
            == (implementation, causal, value)
        )

    def pass_row(self, run: Row, name: str) -> Row:
        """The row of one pass of a run."""
        return self._by_run[_key(run), name]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[k] for k in ("implementation", *SYMBOLS, "causal"))


def read_experiment(results: Path, name: str) -> Experiment:
    """The experiment's plan and tables in the folder of a dataset's results, all of it legible."""
    plan = json.loads(experiment_file(results, name).read_text(encoding="utf-8"))
    tables = results / "tables" / name
    runs = read_csv(tables / "runs.csv")
    known: dict[tuple[str, str], str] = {}  # what many records share is warned of once
    for row in runs:
        for column in WRITTEN_BY_OTHERS:
            if text := row[column]:
                if (column, text) not in known:
                    known[column, text] = legible(text, f"{Path(row['record']).name}: {column}")
                row[column] = known[column, text]
    return Experiment(legible_plan(plan), runs, read_csv(tables / "passes.csv"))


def _in_order(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """The experiment with its implementations in the order of `names`."""
    entries = sorted(experiment.plan["implementations"], key=lambda e: names.index(e["name"]))
    return replace(experiment, plan={**experiment.plan, "implementations": entries})


class Material:
    """All that the report's parts look up."""

    def __init__(self, config: Mapping[str, Any], results: Path, ceilings: Path | None) -> None:
        self.config = config
        self.results = results
        self.ceilings = json.loads(ceilings.read_text(encoding="utf-8")) if ceilings else None
        self.words = Words(config["languages"])
        self.baseline: str = config["baseline"]
        self.summary = _in_order(
            read_experiment(results, SUMMARY), config["summary"]["implementations"]
        )
        self.experiments = [read_experiment(results, e["name"]) for e in config["experiments"]]
        order = {experiment.name: n for n, experiment in enumerate(self.experiments)}
        found = json.loads((results / "findings.json").read_text(encoding="utf-8"))
        # In the order of the sections; those about no experiment of the report come last.
        self.findings: list[Finding] = sorted(
            found, key=lambda finding: order.get(finding["experiment"], len(order))
        )

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """Every run once, in order of its number."""
        found: dict[str, dict[str, Any]] = {}
        for experiment in (*self.experiments, self.summary):
            for row in experiment.ordered:
                found.setdefault(row["record"], row)
        return list(found.values())

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {row["record"]: n for n, row in enumerate(self.runs, start=1)}

    def number_of(self, row: Row) -> int:
        """The run's number in the appendix."""
        return self._numbers[row["record"]]

    @property
    def headline(self) -> list[str]:
        """The implementations of the headline table, about which the sections speak in prose."""
        return self.summary.implementations

    @property
    def implementations(self) -> dict[str, Mapping[str, Any]]:
        """Each implementation once, with its label and style, in the order of the styles."""
        found = {
            entry["name"]: entry
            for experiment in (self.summary, *self.experiments)
            for entry in experiment.plan["implementations"]
        }
        return dict(sorted(found.items(), key=lambda item: item[1]["style"]))

    def experiment(self, name: str) -> Experiment:
        """The experiment of this name, the summary among them."""
        return next(e for e in (self.summary, *self.experiments) if e.name == name)

    @property
    def on_cpu(self) -> bool:
        """Whether everything was measured on a CPU."""
        return self.distinct("device") == ["cpu"]

    def distinct(self, column: str) -> list[str]:
        """The values of a column over all runs, sorted, without the empty ones."""
        return sorted({str(row[column]) for row in self.runs if row[column] is not None})

    # Pieces in words

    def same(self, value: str) -> Texts:
        """What reads the same in every language."""
        return dict.fromkeys(self.words.languages, value)

    def mask(self, causal: bool) -> Texts:
        """The mask in words."""
        return self.words.each("mask.causal" if causal else "mask.full")

    def number(self, value: float | None, digits: int = TIME_DIGITS) -> str:
        """A number; the languages of the report write numbers alike."""
        return number(value, self.words.languages[0], digits)

    def ratio(self, value: float) -> str:
        """A ratio of measured figures, to three digits, zeros and all, as the findings print it."""
        return measured(float(f"{value:.3g}"), self.words.languages[0])

    def measured(self, row: Row, name: str) -> Cell | Texts:
        """A time or rate with its interval (``<name>``, ``<low>``, ``<high>``), or the status."""
        if row["status"] != "ok":
            return self.words.each(f"status.{row['status']}")
        stem, unit = name.rsplit("_", 1)
        low, high = row[f"{stem}_low_{unit}"], row[f"{stem}_high_{unit}"]
        interval = "" if low is None else f"{self.number(low)} – {self.number(high)}"
        return Cell(self.number(row[name]), interval)

    def memory(self, run: Row) -> Cell | Texts:
        """A run's peak memory, or its status."""
        if run["status"] != "ok":
            return self.words.each(f"status.{run['status']}")
        return Cell(self.number(run["peak_memory_MiB"], 6))

    def run_links(self, rows: Iterable[Row]) -> list[Link]:
        """Ways to the runs in the appendix, one for each stretch of numbers: 3–6, 11."""
        return [
            Link(f"run-{first}", self.same(str(first) if first == last else f"{first}–{last}"))
            for first, last in stretches(self.number_of(row) for row in rows)
        ]


def stretches(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The stretches of consecutive numbers: 1, 2, 3, 7 are (1, 3), (7, 7)."""
    ordered: Sequence[int] = sorted(set(numbers))
    grouped = itertools.groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    found = []
    for _, pairs in grouped:
        values = [value for _, value in pairs]
        found.append((values[0], values[-1]))
    return found
