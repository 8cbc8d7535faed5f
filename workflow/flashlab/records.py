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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashlab.benchmarks.model import Benchmark, Metric, UnknownNameError
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import read_json, write_json
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_file

if TYPE_CHECKING:
    import jsonschema

VERSION = 2
"""Version of the JSON format; raised when a reader of the old one would misread the new one."""

STATUSES = ("ok", "oom", "unsupported", "incorrect", "error")

SCHEMAS = Path(__file__).parents[1] / "schemas"

COUNTERS = "counters"
"""Name of the protocol by which a run's passes are counted (`benchmarks.counters`), not timed."""

INTERLEAVED = "interleaved"
"""Name of the protocol by which `bench` times implementations in turns; its records hold the
metrics asked for."""

REMEDY = "./run report measures this run again"


class RecordError(Exception):
    """A record that is missing, malformed, or not the one that was asked for."""


@dataclass(frozen=True)
class Measurement:
    """The value of one metric with its samples, in its unit; none where only a mean is known."""

    value: float
    samples: tuple[float, ...] = ()
    stopped: str | None = None

    def to_json(self, unit: str) -> dict[str, Any]:
        """The measurement as it stands in a record."""
        document: dict[str, Any] = {"unit": unit, "value": self.value}
        if self.samples:
            document["samples"] = list(self.samples)
        if self.stopped:
            document["stopped"] = self.stopped
        return document


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
        if benchmark.top_level_keys is None or self.protocol["name"] in (COUNTERS, INTERLEAVED):
            return {}
        values = {
            metric.name: self.metrics[metric.name].value if metric.name in self.metrics else None
            for metric in benchmark.measured
            if not metric.optional
        }
        return benchmark.top_level_keys(self.run, values)

    def to_json(self) -> dict[str, Any]:
        """The record as the present version writes it."""
        benchmark = find_benchmark(self.benchmark)
        return {
            **self.top_level_keys(),
            "record": {
                "version": VERSION,
                "benchmark": self.benchmark,
                "status": self.status,
                "message": self.message,
                "run": self.run.to_json(),
                "protocol": dict(self.protocol),
                "metrics": {
                    name: measurement.to_json(benchmark.metric(name).unit)
                    for name, measurement in self.metrics.items()
                },
                "gate": self.gate,
                "warnings": list(self.warnings),
                "environment": dict(self.environment),
                "sources": dict(self.sources),
                "started": self.started,
                **({"ended": self.ended} if self.ended else {}),
                **({"details": dict(self.details)} if self.details else {}),
                **({"curves": {k: list(v) for k, v in self.curves.items()}} if self.curves else {}),
            },
        }


TIMED_OUT = "timed out after"


def time_out_message(timeout_s: float) -> str:
    """The message of a record whose run was ended by its time limit."""
    return f"{TIMED_OUT} {timeout_s:g} s"


def _check_items(
    validator: jsonschema.Draft202012Validator, items: Any, instance: Any, schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """The keyword ``items``: thousands of samples satisfy it if the least and the greatest do.

    That holds for what our schemas demand of a number: its type and its bounds.
    """
    from jsonschema import Draft202012Validator

    if isinstance(instance, list) and {*map(type, instance)} in ({float}, {int}, {int, float}):
        numbers = validator.evolve(schema=items)
        if numbers.is_valid(min(instance)) and numbers.is_valid(max(instance)):
            return
    yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


@cache
def _validator(schema: str) -> Any:
    import jsonschema

    extended: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator, {"items": _check_items}
    )
    return extended(read_json(SCHEMAS / f"{schema}.schema.json"))


def schema_problem(document: Any, schema: str) -> str | None:
    """The key and the error of a document that violates a schema; None for one that does not."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator(schema).iter_errors(document))
    if error is None:
        return None
    return f"{'.'.join(map(str, error.absolute_path)) or 'the document'}: {error.message}"


def of_version(version: int, ours: int) -> str:
    """The message that a file is of another version than ours, and which release reads it."""
    remedy = "FlashLab 0.2.0 is the last that reads it" if version == 1 else "update it (git pull)"
    return f"of version {version}, but this FlashLab reads {ours}; {remedy}"


def load_schema() -> None:
    """Load the schema's validator, which takes longer than checking a record."""
    _validator("record")


def _check_version(document: Any, where: str) -> None:
    """Refuse a record of a version that is read no more, or not yet."""
    try:
        version = document["record"]["version"]
    except (TypeError, KeyError):
        return  # the schema says what is missing
    if type(version) is int and version != VERSION:
        raise RecordError(f"{where}: is a record {of_version(version, VERSION)}")


def _check_schema(document: Any, where: str) -> None:
    if problem := schema_problem(document, "record"):
        raise RecordError(f"{where}: {problem}")


def read_metrics(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Measurement]:
    """The metrics of a record, or of a measuring process's answer, by name."""
    return {
        name: Measurement(
            measured["value"], tuple(measured.get("samples", ())), measured.get("stopped")
        )
        for name, measured in document.items()
    }


def _check_metrics(
    metrics: Mapping[str, Any],
    declared: Sequence[Metric],
    in_part: bool,
    benchmark: Benchmark,
    where: str,
) -> None:
    """The metrics of a record must be those that are declared, in their units.

    The value of one is the median of its samples, where it has some.
    An optional one may be missing, and any one where a record may hold them `in_part`.
    """
    for name, measured in metrics.items():
        if samples := measured.get("samples"):
            median = statistics.median(samples)
            if not math.isclose(measured["value"], median):
                raise RecordError(
                    f"{where}: record.metrics.{name}: the value is {measured['value']:g}, but the "
                    f"median of its samples {median:g}"
                )
    units = {
        metric.name: metric.unit
        for metric in declared
        if metric.name in metrics or not (in_part or metric.optional)
    }
    stated = {name: measured["unit"] for name, measured in metrics.items()}
    if metrics and stated != units:
        raise RecordError(
            f"{where}: record.metrics: holds {stated}, but {benchmark.name} measures {units}"
        )


def _check_times(started: str, ended: str | None, where: str) -> None:
    """A record's times must be such, with their offsets from UTC, and in order."""
    try:
        times = [datetime.fromisoformat(time) for time in (started, ended) if time is not None]
    except ValueError as error:
        raise RecordError(f"{where}: record.started, record.ended: {error}") from error
    if any(time.tzinfo is None for time in times):
        raise RecordError(f"{where}: record.started, record.ended: the offset from UTC is missing")
    if times != sorted(times):
        raise RecordError(f"{where}: record.ended: {ended} is before it started, at {started}")


def parse_record(document: Any, where: str) -> Record:
    """A record from its JSON; RecordError naming `where` if it is none."""
    _check_version(document, where)
    _check_schema(document, where)
    inner = document["record"]
    try:
        benchmark = find_benchmark(inner["benchmark"])
        run = Run.of(benchmark, inner["run"])
    except UnknownNameError as error:
        raise RecordError(f"{where}: record.benchmark: {error}") from error
    except KeyError as error:
        raise RecordError(f"{where}: record.run: {error.args[0]} is missing") from error
    _check_times(inner["started"], inner.get("ended"), where)
    protocol = inner["protocol"]["name"]
    counted, in_part = protocol == COUNTERS, protocol == INTERLEAVED
    declared = benchmark.all_counters(run.device) if counted else benchmark.measured
    _check_metrics(inner["metrics"], declared, in_part, benchmark, where)
    record = Record(
        benchmark=benchmark.name,
        run=run,
        status=inner["status"],
        message=inner["message"],
        protocol=inner["protocol"],
        metrics=read_metrics(inner["metrics"]),
        gate=inner["gate"],
        warnings=tuple(inner["warnings"]),
        environment=inner["environment"],
        sources=inner["sources"],
        started=inner["started"],
        ended=inner.get("ended"),
        details=inner.get("details"),
        curves=inner.get("curves", {}),
    )
    expected = {"record", *record.top_level_keys()}
    if different := sorted(document.keys() ^ expected):
        raise RecordError(f"{where}: {different[0]}: is missing or does not belong in a record")
    return record


def write_record(path: Path, record: Record) -> None:
    """Write a record atomically; RecordError where it is none by the schema."""
    document = record.to_json()
    _check_schema(document, str(path))
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
