"""In what the two sides were measured: device, software, and the code of kernels and measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from flashlab.analysis.ceilings import COPY, read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row
from flashlab.compare.sides import Records
from flashlab.files import canonical, read_json
from flashlab.plan.identity import DIGITS, deciding
from flashlab.records import Record

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"

CODE = ("kernel", "measuring")
"""The fields that tell whether the code was the same."""

FIELDS = (
    *("device_name", "memory_clock", "power_limit", "driver", "cuda", "torch", "python"),
    *("platform", "cpu_count", "protocol", "measuring"),
)
GPU_STATES = {
    "memory_clock": ("memory_clock_MHz", "MHz"),
    "power_limit": ("power_limit_W", "W"),
}
"""What the driver states of a GPU, by the name of the field: its name in records, and its unit."""

FIELDS_OF_IMPLEMENTATION = ("provider", "kernel")


def _digest(record: Record, what: str) -> str | None:
    """The digest of a record's kernel or measuring code; older records hold another kind of it."""
    for kind in ("digest", "sha256"):
        if digest := record.sources.get(f"{what}_{kind}"):
            return f"{kind} {digest[:DIGITS]}"
    return None


def _fact(record: Record, field: str) -> str | None:
    """What a record states of a field; None too for a run that failed before it was known."""
    environment: Mapping[str, Any] = record.environment
    found: str | None = environment.get(field)
    match field:
        case "torch":
            found = environment.get("packages", {}).get("torch")
        case "protocol":
            found = canonical(deciding(record.protocol))
        case "measuring":
            found = _digest(record, "measuring")
        case "kernel":
            found = _digest(record, "implementation")
        case "memory_clock" | "power_limit":
            name, unit = GPU_STATES[field]
            state = (environment.get("gpu") or {}).get(name)
            found = f"{state:g} {unit}" if state else None
        case "cpu_count" if found:
            found = str(found)
        case "commit" if found:
            found = f"{found[:12]}{'-dirty' if environment.get('dirty') else ''}"
    return found


def _stated(records: Iterable[Record], field: str) -> list[str]:
    return sorted({value for record in records if (value := _fact(record, field))})


def row_of(record: Record) -> Row:
    """What findings read of where and when a process ran."""
    told = {name: record.environment.get(name) for name in ("device_name", "gpu_uuid", "boot")}
    return {
        **record.run.to_json(),
        **told,
        "process": record.process,
        "status": record.status,
        "started": record.started,
        "ended": record.ended,
        "warnings": record.warnings,
        "record": f"{record.run} {record.process}",
    }


def _row(
    field: str, sides: Iterable[list[str]], implementation: str | None = None
) -> dict[str, Any]:
    one, other = sides
    kinds = [{value.partition(" ")[0] for value in values} for values in (one, other)]
    # Digests of two kinds cannot be compared.
    incomparable = kinds[0] != kinds[1] and {"digest", "sha256"} >= kinds[0] | kinds[1]
    verdict = UNSTATED if incomparable or not one or not other else DIFFERS
    return {
        "field": field,
        "implementation": implementation,
        "one": one,
        "other": other,
        "verdict": AGREES if one == other else verdict,
    }


def compare_circumstances(one: Records, other: Records) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's provider and kernel, with its verdict.

    Each has the values that occur on each side: ``agrees`` where they are the same, ``unstated``
    where one side states none.
    """
    sides = [[record for records in side.values() for record in records] for side in (one, other)]
    rows = [_row(field, (_stated(side, field) for side in sides)) for field in FIELDS]
    rows.append(_row("gpus", map(_gpus, sides)))
    processes = [{str(len(records)) for records in side.values()} for side in (one, other)]
    rows.append(_row("processes", map(sorted, processes)))
    first, second = ({record.run.implementation for record in side} for side in sides)
    for name in sorted(first & second):
        of_it = [[r for r in side if r.run.implementation == name] for side in sides]
        rows += [
            _row(field, (_stated(side, field) for side in of_it), name)
            for field in FIELDS_OF_IMPLEMENTATION
        ]
    return rows


def _gpus(records: Iterable[Record]) -> list[str]:
    """Of each host that says so, how many of its GPUs these were measured on."""
    known = {(r.environment.get("boot"), r.environment.get("gpu_uuid")) for r in records}
    hosts = Counter(boot for boot, gpu in known if gpu)
    return sorted({str(count) for count in hosts.values()})


def compare_ceilings(
    one: Path | None, other: Path | None, dtypes: Set[str]
) -> list[dict[str, Any]]:
    """The rates that both devices were measured to reach at first.

    `what` is ``copy``, in GB/s, or one of these dtypes of a matrix product, in TFLOP/s. Empty where
    a side has no file of ceilings.
    """
    if one is None or other is None:
        return []
    first, second = (read_ceilings(read_json(file), Estimates()) for file in (one, other))
    found = [(COPY, 1e9, first.copy, second.copy)]
    found += [
        (dtype, 1e12, first.matrix[dtype], second.matrix[dtype])
        for dtype in sorted(first.matrix.keys() & second.matrix.keys() & dtypes)
    ]
    return [
        {"what": what, "one": mine.rate / unit, "other": theirs.rate / unit}
        for what, unit, mine, theirs in found
    ]


def describe_side(name: str, runs: Records) -> dict[str, Any]:
    """What a side is: its name, how much it holds, when and at which commits it was measured."""
    records = [record for processes in runs.values() for record in processes]
    started = [record.started for record in records]
    return {
        "name": name,
        "runs": len(runs),
        "records": len(records),
        "devices": _stated(records, "device_name"),
        "begun": min(started, default=None),
        "ended": max(started, default=None),
        "commits": _stated(records, "commit"),
    }
