"""Records to tidy CSV: for each experiment a row a run, a row a metric, and a row a sample.

The columns are those that the benchmark declares. Each row of the metric table states its unit,
which is also that of the metric's samples; after a run's metrics come its counters, if they
were read. A run that is not ``ok`` has its status and empty cells, never a zero. Numbers are
rounded to `TABLE_DIGITS` before they are written.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flashlab.anonymity import anonymous
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, json_text, open_atomically, read_json, sha256_of
from flashlab.records import Measurement, Record, parse_record, read_record
from flashlab.runs import Run
from flashlab.statistics import estimate_median, function_interval, median_interval
from flashlab.sweep import (
    DIRTY,
    METRIC_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    TABLE_DIGITS,
    TABLES,
    parameter_columns,
    run_keys,
)


@dataclass(frozen=True)
class Tables:
    """The three tables of an experiment, as rows of column → cell."""

    runs: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    samples: list[dict[str, Any]]


def _cell(value: Any) -> str:
    if isinstance(value, str):  # by far the most
        return value
    if isinstance(value, float):
        return f"{value:.{TABLE_DIGITS}g}"
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
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


def _estimate(metric: Metric, record: Record, benchmark: Benchmark) -> _Estimate:
    """A metric of a run that is ok."""
    if metric.derived is None:
        return _measured_estimate(metric, record.metrics[metric.name])
    bases = [benchmark.metric(name) for name in metric.derived.of]
    compute = partial(metric.derived.compute, record.run)
    if len(bases) > 1:
        return _estimate_of_several(compute, bases, record)
    base = _estimate(bases[0], record, benchmark)
    # Monotonic, so that the ends of its interval are those of the base's, in either order.
    ends = [float(compute(end)) for end in (base.low, base.high) if end is not None]
    low, high = sorted(ends) if ends else (None, None)
    return _Estimate(float(compute(base.value)), low, high, base.samples)


def _measured_estimate(metric: Metric, measured: Measurement) -> _Estimate:
    value, count = measured.value, len(measured.samples)
    if metric.exact or not count:
        return _Estimate(value, None, None, count, measured.stopped)
    interval = median_interval(measured.samples)
    return _Estimate(interval.median, interval.low, interval.high, count, measured.stopped)


def _estimate_of_several(
    compute: Callable[..., Any], bases: Sequence[Metric], record: Record
) -> _Estimate:
    """A function of several measured metrics, with its interval."""
    measured = [record.metrics[base.name] for base in bases]
    value = float(compute(*(each.value for each in measured)))
    count = min(len(each.samples) for each in measured)
    if not count:
        return _Estimate(value, None, None, 0)
    estimates = [estimate_median(each.samples) for each in measured]
    low, high = function_interval(compute, estimates) or (None, None)
    return _Estimate(value, low, high, count)


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
    found = _estimate(metric, record, benchmark)
    return row | {
        "samples": found.samples,
        "stopped": found.stopped,
        "value": found.value,
        "low": found.low,
        "high": found.high,
    }


def _counter_rows(record: Record, counted: Record, benchmark: Benchmark) -> list[dict[str, Any]]:
    """A row for each counter; none if they are of another device or provider.

    They tell of a run only where the same code ran on the same device.
    """
    if counted.status == "ok" and any(
        counted.environment.get(key) != record.environment.get(key)
        for key in ("device_name", "provider")
    ):
        return []
    return [
        {
            **dict.fromkeys(METRIC_COLUMNS),
            **record.run.to_json(),
            "metric": metric.name,
            "unit": metric.unit,
            "status": counted.status,
            "value": counted.metrics[metric.name].value if counted.metrics else None,
        }
        for metric in benchmark.all_counters(record.run.device)
    ]


def _is_source_changed(recorded: Mapping[str, Any], now: Mapping[str, str]) -> bool:
    """Whether a kernel's source differs from the one that a record was measured with.

    Records know its digest, older ones only the hash of its file.
    """
    for key, kept in (("digest", "implementation_digest"), ("sha256", "implementation_sha256")):
        if key in now and kept in recorded:
            return bool(recorded[kept] != now[key])
    return False


def _commit_of(environment: Mapping[str, Any]) -> str | None:
    """The commit that a run was measured at; ``-dirty`` after it marks uncommitted changes."""
    commit: str | None = environment.get("commit")
    return f"{commit}{DIRTY}" if commit and environment.get("dirty") else commit


def _gate_cell(gate: Mapping[str, Any] | None) -> str | None:
    """The errors that the correctness gate found and its tolerance; None where it did not run."""
    if not gate:
        return None
    return canonical({"errors": gate["errors"], "tolerance": gate["tolerance"]})


def _run_row(
    record: Record, benchmark: Benchmark, path: Path, sha256: str, source: Mapping[str, str]
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
        "commit": _commit_of(environment),
        "started": record.started,
        "gpu_uuid": environment.get("gpu_uuid"),
        "boot": environment.get("boot"),
        "warnings": canonical(record.warnings) if record.warnings else "",
        "gate": _gate_cell(record.gate),
        "source_changed": _is_source_changed(record.sources, source),
        "record": path.as_posix(),
        "sha256": sha256,
    }


def _anonymised(path: Path) -> tuple[Record, str, Path]:
    """A record without what identifies machine or person, its hash as attached, and its place.

    The place of a recorded dataset elsewhere is told as if it were in this folder.
    """
    document = anonymous(read_json(path))
    digest = hashlib.sha256(json_text(document).encode()).hexdigest()
    outside = path.is_absolute() or ".." in path.parts
    return parse_record(document, path.name), digest, Path(*path.parts[-4:]) if outside else path


def tables_of(plan: Mapping[str, Any]) -> Tables:
    """The tables of an experiment, from the records that its plan names (`plan.records_document`).

    Raises:
        RecordError: a record is missing, malformed, of another run, or not the manifest's.
    """
    benchmark = find_benchmark(plan["benchmark"])
    tables = Tables([], [], [])
    is_anonymous = plan.get("anonymous", False)
    for entry in plan["records"]:
        run, path = Run.of(benchmark, entry["run"]), Path(entry["path"])
        record, sha256 = read_record(path, run, entry["sha256"]), sha256_of(path)
        if is_anonymous:
            record, sha256, path = _anonymised(path)
        source = plan["sources"][run.implementation]
        tables.runs.append(_run_row(record, benchmark, path, sha256, source))
        tables.metrics.extend(_metric_row(m, record, benchmark) for m in benchmark.metrics)
        if counters := entry.get("counters"):
            counted = read_record(Path(counters["path"]), run, counters["sha256"])
            tables.metrics.extend(_counter_rows(record, counted, benchmark))
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
