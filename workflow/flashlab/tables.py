"""Records to tidy CSV: a row for each run, each pass and each sample of an experiment.

Units stand in the column names. A run that is not ``ok`` has its status and empty cells, never a
zero. Numbers are rounded to nine significant digits before they are written.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab import costs
from flashlab.records import (
    PASSES,
    SHAPE_PARAMETERS,
    Run,
    canonical,
    read_record,
    sha256_of,
    written_whole,
)
from flashlab.statistics import Interval, bootstrap_interval, median_interval, sum_of_medians

RUN_KEYS = ("implementation", *SHAPE_PARAMETERS, "dtype", "device")
RUN_COLUMNS = (
    *RUN_KEYS,
    *("head_dim", "status", "message", "peak_memory_MiB", "protocol", "device_name", "provider"),
    *("torch", "driver", "commit", "started", "warnings", "source_changed", "record", "sha256"),
)
PASS_COLUMNS = (
    *RUN_KEYS,
    *("pass", "status", "samples", "stopped", "time_ms", "time_low_ms", "time_high_ms"),
    *("rate_TFLOPs", "rate_low_TFLOPs", "rate_high_TFLOPs", "GFLOPs"),
)
SAMPLE_COLUMNS = (*RUN_KEYS, "pass", "index", "time_ms")

SIGNIFICANT_DIGITS = 9


@dataclass(frozen=True)
class Tables:
    """The three tables of an experiment, as rows of column → cell."""

    runs: list[dict[str, Any]]
    passes: list[dict[str, Any]]
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
    """Write rows as CSV, whole or not at all."""
    with written_whole(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def _pass_interval(name: str, record: Mapping[str, Any]) -> tuple[int, Interval]:
    """Sample count of a pass and its time in seconds with the 95% interval."""
    samples = record["record"]["samples"]
    stated = Interval(record[name]["time(s)"], None, None)
    if name == "forward_backward":
        both = [samples["forward"], samples["backward"]]
        bounds = bootstrap_interval(sum_of_medians, both)
        low, high = bounds or (None, None)
        return min(map(len, both)), Interval(stated.median, low, high)
    if not samples[name]:
        return 0, stated
    return len(samples[name]), median_interval(samples[name])


def _pass_row(name: str, run: Run, record: Mapping[str, Any]) -> dict[str, Any]:
    operations = costs.flops(run.shape)[name]
    row: dict[str, Any] = dict.fromkeys(PASS_COLUMNS)
    row |= {
        **run.to_json(),
        "pass": name,
        "status": record["record"]["status"],
        "GFLOPs": operations / 1e9,
    }
    if record["record"]["status"] != "ok":
        return row
    count, time = _pass_interval(name, record)

    def rate(seconds: float | None) -> float | None:
        return None if seconds is None else operations / seconds / 1e12

    def milliseconds(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1e3

    return row | {
        "samples": count,
        "stopped": record["record"]["stopped"].get(name),
        "time_ms": milliseconds(time.median),
        "time_low_ms": milliseconds(time.low),
        "time_high_ms": milliseconds(time.high),
        "rate_TFLOPs": rate(time.median),
        "rate_low_TFLOPs": rate(time.high),
        "rate_high_TFLOPs": rate(time.low),
    }


def _source_changed(recorded: Mapping[str, Any], now: Mapping[str, str]) -> bool:
    """Whether a kernel's source differs from the one that a record was measured with.

    Records know its digest, older ones only the hash of its file.
    """
    for key, kept in (("digest", "implementation_digest"), ("sha256", "implementation_sha256")):
        if key in now and kept in recorded:
            return bool(recorded[kept] != now[key])
    return False


def _run_row(
    run: Run, record: Mapping[str, Any], path: Path, source: Mapping[str, str]
) -> dict[str, Any]:
    inner = record["record"]
    environment = inner["environment"]
    return {
        **run.to_json(),
        "head_dim": run.shape.head_dim,
        "status": inner["status"],
        "message": inner["message"],
        "peak_memory_MiB": record["peak_memory_usage(MB)"],
        "protocol": inner["protocol"]["name"],
        "device_name": environment.get("device_name"),
        "provider": environment.get("provider"),
        "torch": environment.get("packages", {}).get("torch"),
        "driver": environment.get("driver"),
        "commit": environment.get("commit"),
        "started": inner["started"],
        "warnings": canonical(inner["warnings"]) if inner["warnings"] else "",
        "source_changed": _source_changed(inner["sources"], source),
        "record": path.as_posix(),
        "sha256": sha256_of(path),
    }


def tables_of(plan: Mapping[str, Any]) -> Tables:
    """The tables of an experiment, from the records that its plan names (`plan.records_file`).

    Raises:
        RecordError: a record is missing, malformed, of another run, or not the manifest's.
    """
    tables = Tables([], [], [])
    for entry in plan["records"]:
        run, path = Run.from_json(entry["run"]), Path(entry["path"])
        record = read_record(path, run, entry["sha256"])
        tables.runs.append(_run_row(run, record, path, plan["sources"][run.implementation]))
        tables.passes.extend(_pass_row(name, run, record) for name in PASSES)
        tables.samples.extend(
            {**run.to_json(), "pass": name, "index": index, "time_ms": seconds * 1e3}
            for name in PASSES  # and not as the record has them, whose keys have no order
            for index, seconds in enumerate(record["record"]["samples"].get(name, ()))
        )
    return tables


def write_tables(plan_file: Path, runs: Path, passes: Path, samples: Path) -> None:
    """Write the three CSV files of the experiment planned in `plan_file`."""
    tables = tables_of(json.loads(plan_file.read_text(encoding="utf-8")))
    write_csv(samples, SAMPLE_COLUMNS, tables.samples)
    write_csv(passes, PASS_COLUMNS, tables.passes)
    write_csv(runs, RUN_COLUMNS, tables.runs)


# Reading them back, for the stages that stand on tables


def parsed(column: str, cell: str) -> Any:
    """A cell in its column's type, None where it is empty."""
    if cell == "":
        return None
    if column in ("batch_size", "seq_len", "num_heads", "emb_dim", "head_dim", "samples", "index"):
        return int(cell)
    if column in ("causal", "source_changed"):
        return cell == "true"
    if column.endswith(("_ms", "_TFLOPs", "_MiB", "GFLOPs")):
        return float(cell)
    if column == "warnings":
        return json.loads(cell)
    return cell


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Rows of one of the tables, each cell in its column's type, empty cells as None."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {column: parsed(column, cell) for column, cell in row.items()}
            for row in csv.DictReader(file)
        ]
