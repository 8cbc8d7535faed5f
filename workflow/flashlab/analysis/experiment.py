"""An experiment as its tables hold it: the one view that stories, figures and report share."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Value
from flashlab.benchmarks.registry import find_benchmark

TABLES = ("runs", "metrics", "samples")
"""The tables of an experiment; of a benchmark with curves, these too (`table_names`)."""

CURVES = "curves"
COMPARISONS = "comparisons.csv"
"""The table of the whole dataset (`flashlab.analysis.comparisons`)."""

OBSERVATIONS = "observations.json"
"""The observations of its report (`flashlab.story`)."""

ESTIMATES = "estimates.csv"
"""The estimates of each run by itself (`flashlab.analysis.run_estimates`)."""

OF_DATASET = (COMPARISONS, ESTIMATES)
"""The tables of a whole dataset, in its folder of results."""

DERIVED = (*OF_DATASET, OBSERVATIONS)
"""The tables of a whole dataset, and its observations."""

RUN_COLUMNS = (
    *("process", "status", "message", "protocol", "device_name", "provider", "torch", "driver"),
    *("power_limit_W", "inputs", "commit", "started", "ended", "gpu_uuid", "boot", "warnings"),
    *("gate", "kernels", "power_limited", "page_faults", "graph_breaks", "source_changed"),
    *("record", "sha256"),
)
METRIC_COLUMNS = (
    *("metric", "unit", "status", "processes", "samples", "stopped", "value", "low", "high"),
    *("deviation", "GFLOP"),
)
SAMPLE_COLUMNS = ("process", "metric", "index", "value")

MEAN = "{metric}.mean"
"""The name, in the table of samples, of a metric whose calls were timed together: their mean, one
value for each process."""

SITTING = "sitting"
"""The numbers of the sittings of a run's processes, which `flashlab.analysis.sittings` adds to the
columns."""

SITTINGS_DIFFER = "sittings_differ"
"""The code of the warning on runs that are compared and were measured in different sittings."""

CARDS = "cards"
"""The GPUs of a run's processes by their UUIDs, beside its sittings; None where any is unknown."""

CARDS_DIFFER = "cards_differ"
"""The code of the warning on runs that are compared and were measured on different GPUs."""

INPUTS_DIFFER = "inputs_differ"
"""The code of the warning on runs that are compared and were given q, k and v in other forms."""

DIRTY = "-dirty"
"""Ends the commit of a run that was measured with uncommitted changes."""

ABSENT = "absent"
"""The status of an optional metric that a run which is ok does not have."""

IMPORTED = "imported"
"""The warning of a record that was converted from a file of the course's script."""

IMPLAUSIBLE = "implausible"
"""The status of a run whose rate is more than the device can do, and the code of the warning on it
(`flashlab.analysis.ceilings.is_implausible`). It has its numbers, which nothing is concluded from.
"""

SAMPLE_DIGITS = 9
"""Significant digits of a sample in the tables."""

EXACT_DIGITS = 12
"""Those of a metric's value: a byte counts up to 100 GiB, in MiB."""

INTEGERS = frozenset({"process", "processes", "samples", "index", "graph_breaks"})
NUMBERS = frozenset(
    {"value", "low", "high", "least", "most", "deviation", "GFLOP", "power_limited"}
)
BOOLEANS = frozenset({"source_changed"})

Row = Mapping[str, Any]
Variant = tuple[tuple[str, Value], ...]
"""The values of the benchmark's variants: ``(("causal", False),)``; empty where it has none."""


def table_names(benchmark: Benchmark) -> tuple[str, ...]:
    """The tables of each experiment of a benchmark."""
    return (*TABLES, CURVES) if benchmark.curves else TABLES


def run_keys(benchmark: Benchmark) -> tuple[str, ...]:
    """The columns that distinguish one run from all others."""
    return ("implementation", *(p.name for p in benchmark.given), "dtype", "device")


def parameter_columns(benchmark: Benchmark) -> tuple[str, ...]:
    """The columns of the run table that describe a run: its keys and what follows from them."""
    return (*run_keys(benchmark), *(p.name for p in benchmark.derived_parameters))


def parse_cell(column: str, cell: str, kinds: Mapping[str, type]) -> Any:
    """A cell in its column's type, None where it is empty; `kinds` are those of the parameters."""
    if cell == "":
        return None
    if column in INTEGERS or kinds.get(column) is int:
        return int(cell)
    if column in BOOLEANS or kinds.get(column) is bool:
        return cell == "true"
    if column in NUMBERS:
        return float(cell)
    if column in ("warnings", "gate", "kernels"):
        return json.loads(cell)
    return cell


def read_table(path: Path, benchmark: Benchmark) -> list[dict[str, Any]]:
    """Rows of one of the tables, each cell in its column's type, empty cells as None."""
    kinds: dict[str, type] = {p.name: p.kind for p in benchmark.parameters}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {column: parse_cell(column, cell, kinds) for column, cell in row.items()}
            for row in csv.DictReader(file)
        ]


SampleKey = tuple[Any, ...]
"""The columns of a run's key, and of a metric or curve of it."""

Samples = Sequence[Sequence[float]]
"""The samples of each process, in order of the processes and of measurement."""


PROCESSES_DIFFER = "processes_differ"
"""The code of the warning on a run whose processes ended differently, or, with a metric, whose
exact values differ."""


def status_of(statuses: Sequence[str]) -> str:
    """The status of a run from those of its processes.

    A run that is incorrect once is incorrect, and one that is implausible once is implausible. Else
    it has the numbers of the processes that have any, or the status of the first.
    """
    decisive = ("incorrect", IMPLAUSIBLE, "ok")
    return next((status for status in decisive if status in statuses), statuses[0])


def _merge_warnings(records: Sequence[Row]) -> list[dict[str, Any]]:
    """The warnings on any process of a run, each once, and one if they ended differently."""
    found = [dict(warning) for record in records for warning in record["warnings"] or ()]
    statuses = [record["status"] for record in records]
    if len(set(statuses)) > 1:
        found.append({"code": PROCESSES_DIFFER, "statuses": statuses})
    return [warning for i, warning in enumerate(found) if warning not in found[:i]]


def merge_processes(benchmark: Benchmark, records: Iterable[Row]) -> list[Row]:
    """A row for each run from the rows for each of its records, in their order.

    It is that of the first process that ended as the run did, with all processes' warnings.
    """
    by_run: dict[tuple[Any, ...], list[Row]] = {}
    keys = run_keys(benchmark)
    for record in records:
        by_run.setdefault(tuple([record[column] for column in keys]), []).append(record)
    merged = []
    for mine in by_run.values():
        status = status_of([record["status"] for record in mine])
        first = next(record for record in mine if record["status"] == status)
        changed = any(record["source_changed"] for record in mine)
        merged.append(
            {**first, "warnings": _merge_warnings(mine) or None, "source_changed": changed}
            if len(mine) > 1
            else first
        )
    return merged


def _with_exact_differences(benchmark: Benchmark, runs: list[Row], metrics: list[Row]) -> list[Row]:
    """The runs with a warning on each exact metric in which their processes differ."""
    differing: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in metrics:
        if row["low"] is not None and benchmark.metric(row["metric"]).exact:
            key = tuple(row[column] for column in run_keys(benchmark))
            warning = {"code": PROCESSES_DIFFER, "metric": row["metric"]}
            differing.setdefault(key, []).append(warning)
    return with_warnings(benchmark, runs, differing)


def with_warnings(
    benchmark: Benchmark, runs: Iterable[Row], added: Mapping[tuple[Any, ...], Sequence[Any]]
) -> list[Row]:
    """The runs with the `added` warnings, by run key, after the warnings that they have."""
    found, keys = [], run_keys(benchmark)
    for run in runs:
        more = added.get(tuple([run[column] for column in keys]))
        found.append({**run, "warnings": [*(run["warnings"] or ()), *more]} if more else run)
    return found


@dataclass(frozen=True)
class Experiment:
    """An experiment's plan and tables, for look-ups by implementation, variant, metric and value.

    `runs` has a row for each run, `records` one for each process; without them each run has one.
    `samples` are empty in an experiment that was read from its tables.
    """

    plan: Mapping[str, Any]
    benchmark: Benchmark
    runs: Sequence[Row]
    metrics: Sequence[Row]
    samples: Mapping[SampleKey, Samples] = field(default_factory=dict, repr=False)
    records: Sequence[Row] = ()

    @property
    def name(self) -> str:
        """The experiment's name in the configuration."""
        return str(self.plan["name"])

    @property
    def baseline(self) -> str:
        """The implementation that the others are compared with."""
        return str(self.plan["baseline"])

    @property
    def is_summary(self) -> bool:
        """True for the headline: one set of parameters, where nothing is swept."""
        return not self.plan["sweep"]

    @cached_property
    def parameter(self) -> Parameter:
        """The swept parameter; where nothing is swept, the benchmark's first size."""
        if not self.plan["sweep"]:
            return next(p for p in self.benchmark.given if not p.is_variant)
        return self.benchmark.parameter(self.plan["sweep"])

    @property
    def is_ordered(self) -> bool:
        """True if the swept values are sizes, along which metrics may grow."""
        return bool(self.plan["sweep"]) and not self.parameter.nominal

    @cached_property
    def packed(self) -> dict[str, str]:
        """The implementation with separate inputs, by the name of its twin with packed ones."""
        entries = self.plan["implementations"]
        twins = {entry["name"]: entry.get("packed_of") for entry in entries}
        return {name: twin for name, twin in twins.items() if twin in self.implementations}

    @cached_property
    def stated(self) -> tuple[Parameter, ...]:
        """The parameters that say something of its runs, in order of declaration."""
        return self.benchmark.stated(self.runs)

    @property
    def has_alternatives(self) -> bool:
        """True if its runs are alternatives at one setting, which has a name and no size."""
        is_named = self.parameter.nominal and self.parameter.stands_for is None
        return not self.is_summary and is_named and len(self.values) == 1

    @cached_property
    def implementations(self) -> list[str]:
        """Names of the implementations, in the plan's order."""
        return [entry["name"] for entry in self.plan["implementations"]]

    @property
    def is_simulated(self) -> bool:
        """True if a simulator ran the implementations, so that times are compared with nothing."""
        return any(row["device"] in self.benchmark.simulated for row in self.runs)

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants that were asked for, in order."""
        return sorted({self.variant_of(row) for row in self.runs})

    @cached_property
    def values(self) -> list[int]:
        """The values of the parameter that were asked for, whatever became of their runs."""
        return sorted({self.value_of(row) for row in self.runs})

    def variant_of(self, row: Row) -> Variant:
        """The variant of a row of any table."""
        return tuple((p.name, row[p.name]) for p in self.benchmark.variants)

    def value_of(self, row: Row) -> int:
        """The value of the swept parameter in a row of any table."""
        if self.parameter.derive is None:
            return int(row[self.parameter.name])
        return int(self.parameter.derive(row))

    @cached_property
    def _key_columns(self) -> tuple[str, ...]:
        return run_keys(self.benchmark)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """A run's key: implementation, given parameters, dtype and device."""
        return tuple([row[column] for column in self._key_columns])

    @cached_property
    def _by_series(self) -> dict[tuple[Any, ...], list[Row]]:
        """Rows by implementation and variant, those of the metric table by metric too."""
        series: dict[tuple[Any, ...], list[Row]] = {}
        for row in sorted((*self.runs, *self.metrics), key=self.value_of):
            key = row["implementation"], self.variant_of(row), row.get("metric")
            series.setdefault(key, []).append(row)
        return series

    def run_rows(self, implementation: str, variant: Variant) -> list[Row]:
        """Rows of the run table, in order of the sweep."""
        return self._by_series.get((implementation, variant, None), [])

    def metric_rows(self, implementation: str, variant: Variant, metric: str) -> list[Row]:
        """Rows of the metric table for one metric, in order of the sweep."""
        return self._by_series.get((implementation, variant, metric), [])

    @cached_property
    def _metric_by_run(self) -> dict[tuple[Any, ...], Row]:
        return {(*self.key_of(row), row["metric"]): row for row in self.metrics}

    @cached_property
    def _records_by_run(self) -> dict[tuple[Any, ...], list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        for record in sorted(self.records or self.runs, key=lambda record: record["process"] or 0):
            found.setdefault(self.key_of(record), []).append(record)
        return found

    def processes_of(self, row: Row) -> list[Row]:
        """The records of a run that ended as it did, a row for each process, in their order."""
        found = self._records_by_run.get(self.key_of(row), [])
        status = status_of([record["status"] for record in found]) if found else None
        return [record for record in found if record["status"] == status]

    def metric_row(self, run: Row, metric: str) -> Row:
        """The row of one metric of a run."""
        return self._metric_by_run[(*self.key_of(run), metric)]

    def run_at(self, implementation: str, variant: Variant, value: int) -> Row | None:
        """The run at a value of the sweep, None where none was asked for."""
        rows = self.run_rows(implementation, variant)
        return next((row for row in rows if self.value_of(row) == value), None)

    def samples_of(self, row: Row) -> Samples:
        """The samples of each process behind a row of the metric table; empty for none."""
        return self.samples.get((*self.key_of(row), row["metric"]), [])

    def means_of(self, row: Row) -> list[float]:
        """The mean in each process behind a row of the metric table; empty for samples."""
        name = MEAN.format(metric=row["metric"])
        return [value for (value,) in self.samples.get((*self.key_of(row), name), [])]


def warning_codes(runs: Iterable[Row], *metrics: str) -> list[str]:
    """The codes of the warnings on these runs that concern any of these metrics, each once.

    Implausible runs are left out: nothing is concluded from them.
    """
    return sorted(
        {
            warning["code"]
            for row in runs
            if row["status"] != IMPLAUSIBLE
            for warning in row["warnings"] or ()
            if warning.get("metric") in (None, *metrics)
        }
    )


def is_imported(record: Row) -> bool:
    """True if a record was converted from an imported file, so that its time is not known."""
    return any(warning["code"] == IMPORTED for warning in record["warnings"] or ())


def comparison_doubts(compared: Iterable[Iterable[Row]]) -> list[str]:
    """The codes of known differences between compared runs: inputs; cards, else sittings."""
    found = set()
    for runs in map(list, compared):
        if _differ(runs, "inputs"):
            found.add(INPUTS_DIFFER)
        if _differ(runs, CARDS):
            found.add(CARDS_DIFFER)
        elif _differ(runs, SITTING):
            found.add(SITTINGS_DIFFER)
    return sorted(found)


def _differ(runs: Sequence[Row], column: str) -> bool:
    return len({run.get(column) for run in runs} - {None}) > 1


def comparison_warnings(
    benchmark: Benchmark, metric: str, compared: Sequence[Sequence[Row]]
) -> list[str]:
    """The codes of the warnings on runs that are compared, group by group, by a sampled metric."""
    measured = benchmark.measured_behind(metric)
    codes = warning_codes(itertools.chain.from_iterable(compared), *measured)
    return sorted([*codes, *comparison_doubts(compared)])


def metrics_of(benchmark: Benchmark, exact: bool) -> list[Metric]:
    """The metrics that are compared: those that are exact, or those that are sampled."""
    return [metric for metric in benchmark.compared if metric.exact == exact]


def chosen_metrics(benchmark: Benchmark) -> list[Metric]:
    """The metrics that rank implementations: the measured sampled ones, and their totals."""
    return [*metrics_of(benchmark, exact=False), *benchmark.totals]


def use_metrics(benchmark: Benchmark) -> list[Metric]:
    """The metrics of the uses that one chooses for: the first pass, and all passes together."""
    chosen = chosen_metrics(benchmark)
    return chosen[:1] if len(chosen) == 1 else [chosen[0], chosen[-1]]


def read_experiment(plan: Mapping[str, Any], tables: Path) -> Experiment:
    """The sweep of a planned experiment from its folder of `tables`, without samples."""
    benchmark = find_benchmark(plan["benchmark"])
    folder = tables / plan["name"]
    records: list[Row] = [*read_table(folder / "runs.csv", benchmark)]
    metrics: list[Row] = [*read_table(folder / "metrics.csv", benchmark)]
    runs = _with_exact_differences(benchmark, merge_processes(benchmark, records), metrics)
    benchmark = benchmark.having({row["metric"] for row in metrics}).on(runs[0]["device"])
    return Experiment(plan, benchmark, runs, metrics, {}, records)
