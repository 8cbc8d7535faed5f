"""The circumstances of the two sides: device, software, the code of kernels and measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from flashlab.analysis.ceilings import COPY, read_ceilings
from flashlab.compare.sides import Records
from flashlab.files import read_json
from flashlab.plan.identity import DIGITS, deciding
from flashlab.records import Record

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"


def _digest(record: Record, what: str) -> str | None:
    """The digest of a record's kernel or measuring code; an imported one has none."""
    digest = record.sources.get(f"{what}_digest")
    return digest and f"digest {digest[:DIGITS]}"


def _protocol(record: Record) -> str:
    """A protocol with the settings that decide its numbers: ``sampled, relative_interval 0.01``."""
    settings = dict(deciding(record.protocol))
    name = settings.pop("name")
    return ", ".join([name, *(f"{key} {value}" for key, value in sorted(settings.items()))])


def _facts(record: Record) -> dict[str, Any]:
    """The value of each field in a record; None where the record does not state it."""
    stated = record.environment
    gpu = stated.get("gpu") or {}
    clock, limit = gpu.get("memory_clock_MHz"), gpu.get("power_limit_W")
    return {
        "device_name": stated.get("device_name"),
        "memory_clock": f"{clock:g} MHz" if clock else None,
        "power_limit": f"{limit:g} W" if limit else None,
        "driver": stated.get("driver"),
        "cuda": stated.get("cuda"),
        "torch": stated.get("packages", {}).get("torch"),
        "python": stated.get("python"),
        "platform": stated.get("platform"),
        "cpu_count": stated.get("cpu_count"),
        "protocol": _protocol(record),
        "measuring": _digest(record, "measuring"),
    }


def _facts_of_implementation(record: Record) -> dict[str, Any]:
    kernel = _digest(record, "implementation")
    return {"provider": record.environment.get("provider"), "kernel": kernel}


def _stated(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})


def _row(
    field: str, sides: Iterable[list[str]], implementation: str | None = None
) -> dict[str, Any]:
    one, other = sides
    verdict = DIFFERS if one and other else UNSTATED
    return {
        "field": field,
        "implementation": implementation,
        "one": one,
        "other": other,
        "verdict": AGREES if one == other else verdict,
    }


def _rows(
    sides: Iterable[Iterable[Record]],
    facts: Callable[[Record], Mapping[str, Any]],
    implementation: str | None = None,
) -> list[dict[str, Any]]:
    """A row for each of these facts, with the values that occur on each of two sides."""
    stated = [[facts(record) for record in side] for side in sides]
    return [
        _row(field, (_stated(row[field] for row in side) for side in stated), implementation)
        for field in stated[0][0]
    ]


def compare_circumstances(one: Records, other: Records) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's provider and kernel, with its verdict.

    Both sides have the same runs. Each row has the values that occur on each side: ``agrees`` where
    they are the same, ``unstated`` where one side states none.
    """
    sides = [[record for records in side.values() for record in records] for side in (one, other)]
    processes = [{len(records) for records in side.values()} for side in (one, other)]
    rows = [
        *_rows(sides, _facts),
        _row("gpus", map(_gpus, sides)),
        _row("processes", map(_stated, processes)),
    ]
    for name in sorted({run.implementation for run in one}):
        of_it = [[r for r in side if r.run.implementation == name] for side in sides]
        rows += _rows(of_it, _facts_of_implementation, name)
    return rows


def _gpus(records: Iterable[Record]) -> list[str]:
    """The number of GPUs that the records were measured on, for each host that is recorded."""
    known = {(r.environment.get("boot"), r.environment.get("gpu_uuid")) for r in records}
    return _stated(Counter(boot for boot, gpu in known if gpu).values())


def compare_ceilings(
    one: Path | None, other: Path | None, dtypes: Set[str]
) -> list[dict[str, Any]]:
    """The rates that both devices were measured to reach at first.

    `what` is ``copy``, in GB/s, or one of these dtypes of a matrix product, in TFLOP/s; `sustained`
    are the rates after they fell, None where they did not. Empty where a side has no file of
    ceilings.
    """
    if one is None or other is None:
        return []
    first, second = (read_ceilings(read_json(file)) for file in (one, other))
    rates = [(COPY, 1e9, first.copy, second.copy)]
    rates += [
        (dtype, 1e12, first.matrix[dtype], second.matrix[dtype])
        for dtype in sorted(first.matrix.keys() & second.matrix.keys() & dtypes)
    ]
    return [
        {
            **{"what": what, "one": mine.rate / unit, "other": theirs.rate / unit},
            "sustained": [c.sustained_rate and c.sustained_rate / unit for c in (mine, theirs)],
        }
        for what, unit, mine, theirs in rates
    ]


def _commit(record: Record) -> str | None:
    commit = record.environment.get("commit")
    dirty = "-dirty" if record.environment.get("dirty") else ""
    return commit and f"{commit[:12]}{dirty}"


def describe_side(name: str, runs: Records) -> dict[str, Any]:
    """A side's name, numbers of runs and records, devices, times of measuring, and commits."""
    records = [record for processes in runs.values() for record in processes]
    started = [record.started for record in records]
    return {
        "name": name,
        "runs": len(runs),
        "records": len(records),
        "devices": _stated(record.environment.get("device_name") for record in records),
        "begun": min(started),
        "ended": max(started),
        "commits": _stated(map(_commit, records)),
    }
