"""The record of one run: how it is written, checked and read.

A record is written atomically and never changed afterwards.

Under ``record`` are the benchmark's name and ``metrics``, each with unit, value, samples and why
sampling stopped; warnings name a metric. What the benchmark adds at the top level, such as the
course's keys, is for other readers. Under the protocol ``counters`` a record holds the benchmark's
counters in the place of its metrics, and `details`. ``curves``, where the benchmark declares any,
hold a value for each step.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, UnknownNameError
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import read_json, write_json
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_file

VERSION = 2
"""Version of the JSON format; raised when a reader of the old one would misread the new one."""

SCHEMAS = Path(__file__).parents[1] / "schemas"

COUNTERS = "counters"
"""Name of the protocol by which a run's passes are counted (`benchmarks.counters`), not timed."""

REMEDY = "./run report measures this run again"


class RecordError(Exception):
    """A record that is missing, malformed, or not the one that was asked for."""


def _stated(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that have a value: a record leaves out the others."""
    return {key: value for key, value in keys.items() if value}


@dataclass(frozen=True)
class Measurement:
    """The value of one metric with its samples, in its unit; none where only a mean is known."""

    value: float
    samples: tuple[float, ...] = ()
    stopped: str | None = None

    def to_json(self, unit: str) -> dict[str, Any]:
        """The measurement as it stands in a record."""
        further = {"samples": list(self.samples), "stopped": self.stopped}
        return {"unit": unit, "value": self.value, **_stated(further)}


@dataclass(frozen=True)
class Record:
    """The record of a run, of whichever version; `metrics` is empty unless `status` is ``ok``.

    `details` is what a protocol gives beside metrics: for counters, the kernels or operators of
    each pass. `started` and `ended` are when its process was, and of older records the latter is
    not known. `curves` are values by step, those of a benchmark's `Curve` by its name.
    """

    benchmark: str
    run: Run
    status: str
    message: str | None
    protocol: Mapping[str, Any]
    metrics: Mapping[str, Measurement]
    gate: Mapping[str, Any] | None
    warnings: tuple[Mapping[str, Any], ...]
    environment: Mapping[str, Any]
    sources: Mapping[str, Any]
    started: str
    ended: str | None = None
    details: Mapping[str, Any] | None = None
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def has_counters(self) -> bool:
        """True if it holds counters rather than the benchmark's metrics."""
        return bool(self.protocol["name"] == COUNTERS)

    @property
    def process(self) -> int:
        """The number of its process among those that measured the run, from 0."""
        return int(self.sources.get("process", 0))

    def top_level_keys(self) -> dict[str, Any]:
        """The benchmark's keys at the top level of the JSON, for readers of another format."""
        benchmark = find_benchmark(self.benchmark)
        if benchmark.top_level_keys is None or self.has_counters:
            return {}
        measured = {name: measurement.value for name, measurement in self.metrics.items()}
        needed = [metric.name for metric in benchmark.measured if not metric.optional]
        return benchmark.top_level_keys(self.run, {name: measured.get(name) for name in needed})

    def to_json(self) -> dict[str, Any]:
        """The record as the present version writes it."""
        benchmark = find_benchmark(self.benchmark)
        metrics = {n: m.to_json(benchmark.metric(n).unit) for n, m in self.metrics.items()}
        curves = {name: list(values) for name, values in self.curves.items()}
        return {
            **self.top_level_keys(),
            "record": {
                "version": VERSION,
                "benchmark": self.benchmark,
                "status": self.status,
                "message": self.message,
                "run": self.run.to_json(),
                "protocol": dict(self.protocol),
                "metrics": metrics,
                "gate": self.gate,
                "warnings": list(self.warnings),
                "environment": dict(self.environment),
                "sources": dict(self.sources),
                "started": self.started,
                **_stated({"ended": self.ended, "details": self.details, "curves": curves}),
            },
        }


TIMED_OUT = "timed out after"


def time_out_message(timeout_s: float) -> str:
    """The message of a record whose run was ended by its time limit."""
    return f"{TIMED_OUT} {timeout_s:g} s"


def _shortened(value: Any, levels: int = 4) -> Any:
    """A document with the least and the greatest in place of thousands of samples.

    These satisfy the schema of records where all do: it demands the type and the bounds of each.
    """
    if isinstance(value, dict) and levels:
        return {key: _shortened(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list) and value and {*map(type, value)} <= {int, float}:
        return [min(value), max(value)]
    return value


@cache
def validator() -> Any:
    """The validator of the schema of records; to load it takes longer than to check a record."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(read_json(SCHEMAS / "record.schema.json"))


def _check_schema(document: Any, where: str) -> None:
    """RecordError naming the key of a document that violates the schema of records."""
    if validator().is_valid(_shortened(document)):
        return
    from jsonschema.exceptions import best_match

    if error := best_match(validator().iter_errors(document)):
        key = ".".join(map(str, error.absolute_path)) or "the document"
        raise RecordError(f"{where}: {key}: {error.message}")


def of_version(version: int, ours: int) -> str:
    """The message that a file is of another version than ours, and which release reads it."""
    remedy = "FlashLab 0.2.0 is the last that reads it" if version == 1 else "update it (git pull)"
    return f"of version {version}, but this FlashLab reads {ours}; {remedy}"


def read_metrics(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Measurement]:
    """The metrics of a record, or of a measuring process's answer, by name."""
    return {
        name: Measurement(found["value"], tuple(found.get("samples", ())), found.get("stopped"))
        for name, found in document.items()
    }


def _metrics_problem(metrics: Mapping[str, Any], benchmark: Benchmark, of: str, device: str) -> str:
    """What is wrong with the metrics of a record by the protocol `of`; empty if nothing is.

    They must be those that are declared, in their units, though an optional one may be missing. The
    value of one is the median of its samples, where it has some.
    """
    for name, measured in metrics.items():
        median = statistics.median(measured.get("samples") or [measured["value"]])
        if not math.isclose(measured["value"], median):
            return (
                f"record.metrics.{name}: the value is {measured['value']:g}, but the median of its "
                f"samples {median:g}"
            )
    declared = benchmark.all_counters(device) if of == COUNTERS else benchmark.measured
    units = {m.name: m.unit for m in declared if m.name in metrics or not m.optional}
    stated = {name: measured["unit"] for name, measured in metrics.items()}
    if metrics and stated != units:
        return f"record.metrics: holds {stated}, but {benchmark.name} measures {units}"
    return ""


def _times_problem(started: str, ended: str | None) -> str:
    """What is wrong with a record's times: each with its offset from UTC, and in order."""
    try:
        times = [datetime.fromisoformat(time) for time in (started, ended) if time is not None]
    except ValueError as error:
        return f"record.started, record.ended: {error}"
    if any(time.tzinfo is None for time in times):
        return "record.started, record.ended: the offset from UTC is missing"
    if times != sorted(times):
        return f"record.ended: {ended} is before it started, at {started}"
    return ""


def parse_record(document: Any, where: str) -> Record:
    """A record from its JSON; RecordError naming `where` if it is none."""
    inner = document.get("record") if isinstance(document, dict) else None
    version = inner.get("version") if isinstance(inner, dict) else None
    if type(version) is int and version != VERSION:
        raise RecordError(f"{where}: is a record {of_version(version, VERSION)}")
    _check_schema(document, where)
    inner = document["record"]
    try:
        benchmark = find_benchmark(inner["benchmark"])
        for each in benchmark.given:
            if type(inner["run"].get(each.name, each.kind())) is not each.kind:
                raise RecordError(f"{where}: record.run.{each.name}: is no {each.kind.__name__}")
        run = Run.of(benchmark, inner["run"])
    except UnknownNameError as error:
        raise RecordError(f"{where}: record.benchmark: {error}") from error
    except KeyError as error:
        raise RecordError(f"{where}: record.run: {error.args[0]} is missing") from error
    of = inner["protocol"]["name"]
    if problem := (
        _times_problem(inner["started"], inner.get("ended"))
        or _metrics_problem(inner["metrics"], benchmark, of, run.device)
    ):
        raise RecordError(f"{where}: {problem}")
    own = {"metrics": read_metrics(inner["metrics"]), "warnings": tuple(inner["warnings"])}
    keys = {key: inner[key] for key in inner if key != "version"}
    record = Record(**keys | own | {"run": run})
    if different := sorted(document.keys() ^ {"record", *record.top_level_keys()}):
        raise RecordError(f"{where}: {different[0]}: is missing or does not belong in a record")
    return record


def write_record(path: Path, record: Record) -> None:
    """Write a record atomically; RecordError where it is none that can be read."""
    document = record.to_json()
    parse_record(document, str(path))
    write_json(path, document)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")


def read_record(path: Path, expected: Run | None = None, sha256: str | None = None) -> Record:
    """Read the record of the run `expected`, or of any run.

    RecordError where the file is missing, is no record, belongs to another run, or (where
    `sha256` is given, from a dataset's manifest) has changed since it was recorded.
    """
    whose = f" of {expected}" if expected else ""
    try:
        content = read_file(path)
    except UnsoundFileError as error:
        raise RecordError(f"{path}: the record{whose}: {error} {REMEDY}") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise RecordError(
            f"{path}: the file differs from its dataset's manifest (sha256). "
            "Restore it, or record the dataset again."
        )
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON ({error}); {REMEDY}") from error
    record = parse_record(document, str(path))
    if expected is not None and record.run != expected:
        raise RecordError(f"{path}: holds the run {record.run}, but {expected} was asked for")
    return record
