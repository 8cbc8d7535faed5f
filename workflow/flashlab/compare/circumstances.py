"""In what the two sides were measured: device, software, and the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flashlab.compare.sides import Records
from flashlab.files import canonical
from flashlab.plan.identity import DIGITS, deciding
from flashlab.records import Record

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"

CODE = ("kernel", "measuring")
"""The fields that tell whether the code was the same."""

FIELDS = ("device_name", "driver", "cuda", "torch", "python", "platform", "protocol", "measuring")
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
        case "commit" if found:
            found = f"{found[:12]}{'-dirty' if environment.get('dirty') else ''}"
    return found


def _stated(records: Iterable[Record], field: str) -> list[str]:
    return sorted({value for record in records if (value := _fact(record, field))})


def _row(
    field: str, sides: Iterable[Iterable[Record]], implementation: str | None = None
) -> dict[str, Any]:
    one, other = (_stated(side, field) for side in sides)
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
    rows = [_row(field, sides) for field in FIELDS]
    first, second = ({record.run.implementation for record in side} for side in sides)
    for name in sorted(first & second):
        of_it = [[r for r in side if r.run.implementation == name] for side in sides]
        rows += [_row(field, of_it, name) for field in FIELDS_OF_IMPLEMENTATION]
    return rows


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
