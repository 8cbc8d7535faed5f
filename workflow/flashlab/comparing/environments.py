"""In what the two sides were measured: device, software, and the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashlab.files import canonical
from flashlab.plan.identity import DIGITS, WITHOUT_EFFECT
from flashlab.records import Record
from flashlab.runs import Run

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"

CODE = ("kernel", "measuring")
"""The fields that tell whether the code was the same."""


def _facts(record: Record) -> dict[str, str | None]:
    """What a record states of its surroundings, by field."""
    environment = record.environment
    packages = environment.get("packages", {})
    protocol = {k: v for k, v in record.protocol.items() if k not in WITHOUT_EFFECT}
    return {
        "device_name": environment.get("device_name"),
        "driver": environment.get("driver"),
        "cuda": environment.get("cuda"),
        "torch": packages.get("torch"),
        "python": environment.get("python"),
        "platform": environment.get("platform"),
        "protocol": canonical(protocol),
        "measuring": _digest(record, "measuring"),
    }


def _digest(record: Record, what: str) -> str | None:
    """The digest of a record's kernel or measuring code; older records hold another kind of it."""
    for kind in ("digest", "sha256"):
        if found := record.sources.get(f"{what}_{kind}"):
            return f"{kind} {found[:DIGITS]}"
    return None


def _values(records: Iterable[Record], field: str) -> list[str]:
    return sorted({value for record in records if (value := _facts(record)[field]) is not None})


def _verdict(one: Sequence[str], other: Sequence[str]) -> str:
    if not one or not other:
        return AGREES if one == other else UNSTATED
    if {v.split()[0] for v in one} != {v.split()[0] for v in other} and one[0].startswith(
        ("digest ", "sha256 ")
    ):
        return UNSTATED  # digests of two kinds cannot be compared
    return AGREES if one == other else DIFFERS


def _row(
    field: str, implementation: str | None, one: list[str], other: list[str]
) -> dict[str, Any]:
    return {
        "field": field,
        "implementation": implementation,
        "one": one,
        "other": other,
        "verdict": _verdict(one, other),
    }


def compare_environments(
    one: Mapping[Run, Sequence[Record]], other: Mapping[Run, Sequence[Record]]
) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's provider and kernel, with its verdict.

    Each has the values that occur on each side: ``agrees`` where they are the same, ``unstated``
    where one side states none.
    """
    sides = [[record for records in side.values() for record in records] for side in (one, other)]
    first, second = sides
    rows = [
        _row(field, None, _values(first, field), _values(second, field))
        for field in (_facts(first[0]) if first else ())
    ]
    names = [{record.run.implementation for record in side} for side in sides]
    for name in sorted(names[0] & names[1]):
        mine = [[r for r in side if r.run.implementation == name] for side in sides]
        # A run that failed may have ended before it was known who would run it.
        providers = [
            sorted({r.environment["provider"] for r in side if r.environment.get("provider")})
            for side in mine
        ]
        kernels = [
            sorted({found for r in side if (found := _digest(r, "implementation"))})
            for side in mine
        ]
        rows.append(_row("provider", name, *providers))
        rows.append(_row("kernel", name, *kernels))
    return rows


def describe_side(name: str, runs: Mapping[Run, Sequence[Record]]) -> dict[str, Any]:
    """What a side is: its name, how much it holds, when and at which commits it was measured."""
    records = [record for found in runs.values() for record in found]
    days = sorted(record.started for record in records)
    commits = sorted(
        {
            f"{commit[:12]}{'-dirty' if record.environment.get('dirty') else ''}"
            for record in records
            if (commit := record.environment.get("commit"))
        }
    )
    return {
        "name": name,
        "runs": len(runs),
        "records": len(records),
        "devices": _values(records, "device_name"),
        "begun": days[0] if days else None,
        "ended": days[-1] if days else None,
        "commits": commits,
    }
