"""Records to tidy CSV: for each experiment a row a run, a row a metric, and a row a sample.

The columns are those that the benchmark declares; each row of metrics and samples states its unit
or stands in it. A run that is not ``ok`` has its status and empty cells, never a zero. Numbers are
rounded to nine significant digits before they are written.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, open_atomically, read_json, sha256_of
from flashlab.records import Measurement, Record, read_record
from flashlab.runs import Run
from flashlab.statistics import function_interval, median_interval, resampled_median
from flashlab.sweep import (
    METRIC_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    TABLES,
    parameter_columns,
    run_keys,
)

SIGNIFICANT_DIGITS = 9


@dataclass(frozen=True)
class Tables:
    """The three tables of an experiment, as rows of column → cell."""

    runs: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    samples: list[dict[str, Any]]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.{SIGNIFICANT_DIGITS}g}"
    return str(value)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV, atomically."""
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


@dataclass(frozen=True)
class _Estimate:
    """A metric of a run with its 95% interval, and how many samples are behind it."""

    value: float
    low: float | None
    high: float | None
    samples: int
    stopped: str | None = None


def _measured_estimate(metric: Metric, measured: Measurement) -> _Estimate:
    value, count = measured.value, len(measured.samples)
    if metric.exact or not count:
        return _Estimate(value, None, None, count, measured.stopped)
    interval = median_interval(measured.samples)
    return _Estimate(interval.median, interval.low, interval.high, count, measured.stopped)


def _derived_estimate(metric: Metric, record: Record, benchmark: Benchmark) -> _Estimate:
    """A metric that follows from others: from one by its interval's ends, else by bootstrap."""
    assert metric.derived is not None
    derived = metric.derived

    def compute(*values: Any) -> Any:
        return derived.compute(record.run, *values)

    bases = [benchmark.metric(name) for name in derived.of]
    if any(base.derived for base in bases):
        (only,) = bases
        found = _derived_estimate(only, record, benchmark)
    elif len(bases) == 1:
        found = _measured_estimate(bases[0], record.metrics[bases[0].name])
    else:
        measured = [record.metrics[base.name] for base in bases]
        value = float(compute(*(each.value for each in measured)))
        count = min(len(each.samples) for each in measured)
        if not count:
            return _Estimate(value, None, None, 0)
        estimates = [
            resampled_median(each.samples, f"{record.run} {base.name}")
            for each, base in zip(measured, bases, strict=True)
        ]
        low, high = function_interval(compute, estimates) or (None, None)
        return _Estimate(value, low, high, count)
    ends = [None if end is None else float(compute(end)) for end in (found.low, found.high)]
    low, high = (None, None) if None in ends else sorted(end for end in ends if end is not None)
    return _Estimate(float(compute(found.value)), low, high, found.samples)


def _metric_row(metric: Metric, record: Record, benchmark: Benchmark) -> dict[str, Any]:
    run = record.run
    row: dict[str, Any] = {
        **dict.fromkeys(METRIC_COLUMNS),
        **run.to_json(),
        "metric": metric.name,
        "unit": metric.unit,
        "status": record.status,
        "GFLOP": metric.work.operations(run) / 1e9 if metric.work else None,
    }
    if record.status != "ok":
        return row
    if metric.derived:
        found = _derived_estimate(metric, record, benchmark)
    else:
        found = _measured_estimate(metric, record.metrics[metric.name])
    return row | {
        "samples": found.samples,
        "stopped": found.stopped,
        "value": found.value,
        "low": found.low,
        "high": found.high,
    }


def _is_source_changed(recorded: Mapping[str, Any], now: Mapping[str, str]) -> bool:
    """Whether a kernel's source differs from the one that a record was measured with.

    Records know its digest, older ones only the hash of its file.
    """
    for key, kept in (("digest", "implementation_digest"), ("sha256", "implementation_sha256")):
        if key in now and kept in recorded:
            return bool(recorded[kept] != now[key])
    return False


def _run_row(
    record: Record, benchmark: Benchmark, path: Path, source: Mapping[str, str]
) -> dict[str, Any]:
    environment = record.environment
    return {
        **record.run.to_json(),
        **benchmark.all_parameters(record.run),
        "status": record.status,
        "message": record.message,
        "protocol": record.protocol["name"],
        "device_name": environment.get("device_name"),
        "provider": environment.get("provider"),
        "torch": environment.get("packages", {}).get("torch"),
        "driver": environment.get("driver"),
        "commit": environment.get("commit"),
        "started": record.started,
        "warnings": canonical(record.warnings) if record.warnings else "",
        "source_changed": _is_source_changed(record.sources, source),
        "record": path.as_posix(),
        "sha256": sha256_of(path),
    }


def tables_of(plan: Mapping[str, Any]) -> Tables:
    """The tables of an experiment, from the records that its plan names (`plan.records_document`).

    Raises:
        RecordError: a record is missing, malformed, of another run, or not the manifest's.
    """
    benchmark = find_benchmark(plan["benchmark"])
    tables = Tables([], [], [])
    for entry in plan["records"]:
        run, path = Run.of(benchmark, entry["run"]), Path(entry["path"])
        record = read_record(path, run, entry["sha256"])
        source = plan["sources"][run.implementation]
        tables.runs.append(_run_row(record, benchmark, path, source))
        tables.metrics.extend(_metric_row(m, record, benchmark) for m in benchmark.metrics)
        tables.samples.extend(
            {**run.to_json(), "metric": name, "index": index, "value": value}
            for name, measured in record.metrics.items()
            for index, value in enumerate(measured.samples)
        )
    return tables


def write_tables(plan_file: Path, folder: Path) -> None:
    """Write the CSV files of the experiment planned in `plan_file` into `folder`."""
    plan = read_json(plan_file)
    benchmark = find_benchmark(plan["benchmark"])
    keys, tables = run_keys(benchmark), tables_of(plan)
    described = parameter_columns(benchmark)
    columns = {
        "runs": (*described, *RUN_COLUMNS),
        "metrics": (*keys, *METRIC_COLUMNS),
        "samples": (*keys, *SAMPLE_COLUMNS),
    }
    for name in reversed(TABLES):  # runs.csv last
        write_csv(folder / f"{name}.csv", columns[name], getattr(tables, name))
