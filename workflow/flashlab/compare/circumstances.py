"""The circumstances of the two sides: device, software, the code of kernels and measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
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


def _commit(record: Record) -> str | None:
    commit = record.environment.get("commit")
    dirty = "-dirty" if record.environment.get("dirty") else ""
    return commit and f"{commit[:12]}{dirty}"


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
        "torch": stated.get("packages", {}).get("torch"),
        "cpu_count": stated.get("cpu_count"),
        "protocol": _protocol(record),
        "measuring": _digest(record, "measuring"),
        "measured": record.started[:10],
        "commits": _commit(record),
    }


def _stated(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})


def _gpus(records: Iterable[Record]) -> list[str]:
    """The number of GPUs that the records were measured on, for each host that is recorded."""
    known = {(r.environment.get("boot"), r.environment.get("gpu_uuid")) for r in records}
    return _stated(Counter(boot for boot, gpu in known if gpu).values())


def compare_circumstances(one: Records, other: Records) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's kernel, with its verdict.

    Both sides have the same runs. Each row has the values that occur on each side: ``agrees`` where
    they are the same, ``unstated`` where one side states none.
    """
    sides = [[record for records in side.values() for record in records] for side in (one, other)]
    facts = [[_facts(record) for record in side] for side in sides]
    stated: dict[tuple[str, str | None], Sequence[list[str]]] = {
        (field, None): [_stated(each[field] for each in side) for side in facts]
        for field in facts[0][0]
    }
    stated["gpus", None] = [*map(_gpus, sides)]
    processes = [{len(records) for records in side.values()} for side in (one, other)]
    stated["processes", None] = [*map(_stated, processes)]
    for name in sorted({run.implementation for run in one}):
        of_it = [[r for r in side if r.run.implementation == name] for side in sides]
        digests = [[_digest(record, "implementation") for record in side] for side in of_it]
        providers = [[record.environment.get("provider") for record in side] for side in of_it]
        stated["kernel", name] = [*map(_stated, digests)]
        stated["provider", name] = [*map(_stated, providers)]
    return [
        {"field": field, "implementation": name, "one": mine, "other": theirs}
        | {"verdict": AGREES if mine == theirs else DIFFERS if mine and theirs else UNSTATED}
        for (field, name), (mine, theirs) in stated.items()
    ]


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


def describe_side(name: str, runs: Records) -> dict[str, Any]:
    """A side's name, devices, and when its last record was measured."""
    records: list[Record] = [record for processes in runs.values() for record in processes]
    devices = _stated(record.environment.get("device_name") for record in records)
    return {"name": name, "devices": devices, "ended": max(r.started for r in records)}
