"""The runs of an experiment as their records hold them, and the names that its tables have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Value
from flashlab.records import Record
from flashlab.runs import Run

TABLES = ("runs", "metrics", "samples")
"""The tables of an experiment; of a benchmark with curves, these too (`table_names`)."""

CURVES = "curves"
COMPARISONS = "comparisons.csv"
"""The table of the whole dataset (`flashlab.analysis.comparisons`)."""

OBSERVATIONS = "observations.json"
"""The observations of its report (`flashlab.story`)."""

ESTIMATES = "estimates.csv"
"""The estimates of each run by itself (`flashlab.analysis.stage`)."""

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
ESTIMATE_COLUMNS = ("metric", "low", "high", "least", "most", "warnings")
"""Beside what distinguishes a run: the 95% interval of the metric, in its unit; the least and the
greatest of its processes; and the warnings that only the samples give (`analysis.doubts`)."""

MEAN = "{metric}.mean"
"""The name, in the table of samples, of a metric whose calls were timed together: their mean, one
value for each process."""

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

PROCESSES_DIFFER = "processes_differ"
"""The code of the warning on a run whose processes ended differently."""

INPUTS_DIFFER, CARDS_DIFFER, SITTINGS_DIFFER = "inputs_differ", "cards_differ", "sittings_differ"
"""The codes of doubts: the runs that are compared were given q, k and v in other forms, or were
measured on different GPUs or in different sittings."""

IMPLEMENTATIONS, PREVIOUS, FIRST = "implementations", "previous value", "first value"
"""The kinds of comparison beside a variant's, which its parameter names: two implementations, or
one of them at a value of the sweep with the value before it, or with the first."""

DATASET = "dataset"
"""The kind of a comparison of the same runs of two datasets (`flashlab.compare.comparison`)."""

ALTERNATIVES = "alternatives"
"""Two implementations of which the subject alone has the variant switched on: both are ways to do
the same where runs are alternatives at one setting."""

SAMPLE_DIGITS = 9
"""Significant digits of a sample in the tables."""

EXACT_DIGITS = 12
"""Those of a metric's value: a byte counts up to 100 GiB, in MiB."""

Key = tuple[Any, ...]
"""What distinguishes a run from all others, by `run_keys`."""

Warnings = Mapping[Key, Sequence[Mapping[str, Any]]]
"""Warnings on runs beside those of their records, by key."""

Variant = tuple[tuple[str, Value], ...]
"""The values of the benchmark's variants: ``(("causal", False),)``; empty where it has none."""


def table_names(benchmark: Benchmark) -> tuple[str, ...]:
    """The tables of each experiment of a benchmark."""
    return (*TABLES, CURVES) if benchmark.curves else TABLES


def run_keys(benchmark: Benchmark) -> tuple[str, ...]:
    """The columns that distinguish one run from all others."""
    return ("implementation", *(p.name for p in benchmark.given), "dtype", "device")


def variant_words(variant: Iterable[tuple[str, Value]]) -> str:
    """A variant as comparisons.csv has it: ``causal=true``; several with a space between."""
    return " ".join(f"{name}={str(value).lower()}" for name, value in variant)


def status_of(statuses: Sequence[str]) -> str:
    """The status of a run from those of its processes.

    A run that is incorrect once is incorrect, and one that is implausible once is implausible. Else
    it has the numbers of the processes that have any, or the status of the first.
    """
    decisive = ("incorrect", IMPLAUSIBLE, "ok")
    return next((status for status in decisive if status in statuses), statuses[0])


def is_imported(record: Record) -> bool:
    """True if a record was converted from an imported file, so that its time is not known."""
    return any(warning["code"] == IMPORTED for warning in record.warnings)


@dataclass(frozen=True)
class Process:
    """A record of a run, its file, its hash as it is attached, and warnings on impossible rates.

    A report attaches records with our white space, whatever they have.
    """

    record: Record
    path: Path = Path()
    sha256: str = ""
    implausible: Sequence[Mapping[str, Any]] = ()

    @property
    def status(self) -> str:
        """The record's status, or `IMPLAUSIBLE` where a rate is beyond the device's."""
        return IMPLAUSIBLE if self.implausible else self.record.status


@dataclass(frozen=True, eq=False)
class Measured:
    """The records of a run, one for each process, and the record of its counters.

    `rows` are its rows of the metric table, made once for all experiments that have it.
    """

    run: Run
    processes: Sequence[Process]
    counted: Record | None = None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    @cached_property
    def key(self) -> Key:
        """What distinguishes it from all other runs."""
        return tuple(self.run.to_row().values())

    @cached_property
    def status(self) -> str:
        """The status of the run over all processes."""
        return status_of([process.status for process in self.processes])

    @property
    def first(self) -> Process:
        """The first process that ended as the run did."""
        return next(process for process in self.processes if process.status == self.status)

    @cached_property
    def with_numbers(self) -> list[Record]:
        """The records that the run's numbers come from."""
        if self.status not in ("ok", IMPLAUSIBLE):
            return []
        return [process.record for process in self.processes if process.record.status == "ok"]

    @cached_property
    def warnings(self) -> list[Mapping[str, Any]]:
        """The warnings on any of its processes, and one if they ended differently."""
        found = [warning for process in self.processes for warning in process.record.warnings]
        statuses = [process.status for process in self.processes]
        differ = {"code": PROCESSES_DIFFER, "statuses": statuses}
        return [*found, differ] if len({*statuses}) > 1 else found

    def has(self, *metrics: str) -> bool:
        """True if it has numbers, and all of them hold these measured metrics."""
        records = self.with_numbers
        return bool(records) and all(record.metrics.keys() >= {*metrics} for record in records)


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of a planned experiment, whatever became of them."""

    plan: Mapping[str, Any]
    benchmark: Benchmark
    runs: Sequence[Measured]

    @property
    def name(self) -> str:
        """The experiment's name in the configuration."""
        return str(self.plan["name"])

    @cached_property
    def implementations(self) -> list[str]:
        """Names of the implementations, in the plan's order."""
        return [entry["name"] for entry in self.plan["implementations"]]

    @property
    def records(self) -> Iterator[Record]:
        """The record of each process of each run."""
        return (process.record for each in self.runs for process in each.processes)

    @cached_property
    def swept(self) -> Parameter:
        """The swept parameter (`swept_in`)."""
        return swept_in(self.benchmark, self.plan)

    @property
    def is_ordered(self) -> bool:
        """True if the swept values are sizes, along which metrics may grow."""
        return bool(self.plan["sweep"]) and not self.swept.nominal

    @property
    def is_simulated(self) -> bool:
        """True if a simulator ran the implementations, so that times are compared with nothing."""
        return any(each.run.device in self.benchmark.simulated for each in self.runs)

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants that were asked for, in order."""
        return sorted({variant for _, variant in self._along})

    @cached_property
    def values(self) -> list[int]:
        """The values of the parameter that were asked for, in order."""
        return sorted({value for along in self._along.values() for value in along})

    @cached_property
    def _along(self) -> dict[tuple[str, Variant], dict[int, Measured]]:
        found: dict[tuple[str, Variant], dict[int, Measured]] = {}
        derive, name = self.swept.derive, self.swept.name
        at = {each.key: int(derive(each.run) if derive else each.run[name]) for each in self.runs}
        for each in sorted(self.runs, key=lambda each: at[each.key]):
            variant = tuple((p.name, each.run[p.name]) for p in self.benchmark.variants)
            found.setdefault((each.run.implementation, variant), {})[at[each.key]] = each
        return found

    def along(self, implementation: str, variant: Variant) -> Mapping[int, Measured]:
        """The runs of an implementation in a variant by value of the sweep, in its order."""
        return self._along.get((implementation, variant), {})


def swept_in(benchmark: Benchmark, plan: Mapping[str, Any]) -> Parameter:
    """The parameter that an experiment sweeps; where nothing is swept, the first size."""
    first = next(parameter for parameter in benchmark.given if not parameter.is_variant)
    return benchmark.parameter(plan["sweep"]) if plan["sweep"] else first


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


def operations_of(benchmark: Benchmark, run: Run) -> dict[str, float]:
    """The operations behind each measured time of a run of which they are known, by metric."""
    timed = (m for m in benchmark.measured if not m.higher_is_better)
    return {m.name: m.work(run) for m in timed if m.work}
