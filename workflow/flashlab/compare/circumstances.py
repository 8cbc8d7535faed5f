"""In what the two sides were measured: device, software, and the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flashlab.compare.sides import Records
from flashlab.files import canonical
from flashlab.identity import DIGITS, WITHOUT_EFFECT
from flashlab.records import Record

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"

CODE = ("kernel", "measuring")
"""The fields that tell whether the code was the same."""

Fact = Callable[[Record], str | None]


def deciding_protocol(record: Record) -> dict[str, Any]:
    """A record's protocol, but for what decides no number."""
    return {key: value for key, value in record.protocol.items() if key not in WITHOUT_EFFECT}


def _digest(record: Record, what: str) -> str | None:
    """The digest of a record's kernel or measuring code; older records hold another kind of it."""
    for kind in ("digest", "sha256"):
        if digest := record.sources.get(f"{what}_{kind}"):
            return f"{kind} {digest[:DIGITS]}"
    return None


FACTS: Mapping[str, Fact] = {
    "device_name": lambda record: record.environment.get("device_name"),
    "driver": lambda record: record.environment.get("driver"),
    "cuda": lambda record: record.environment.get("cuda"),
    "torch": lambda record: record.environment.get("packages", {}).get("torch"),
    "python": lambda record: record.environment.get("python"),
    "platform": lambda record: record.environment.get("platform"),
    "protocol": lambda record: canonical(deciding_protocol(record)),
    "measuring": lambda record: _digest(record, "measuring"),
}
"""What a record states of its surroundings, by field."""

FACTS_OF_IMPLEMENTATION: Mapping[str, Fact] = {
    # A run that failed may have ended before it was known who would run it.
    "provider": lambda record: record.environment.get("provider"),
    "kernel": lambda record: _digest(record, "implementation"),
}


def _stated(records: Iterable[Record], fact: Fact) -> list[str]:
    return sorted({value for record in records if (value := fact(record))})


def _row(
    field: str, fact: Fact, sides: Iterable[Iterable[Record]], implementation: str | None = None
) -> dict[str, Any]:
    one, other = (_stated(side, fact) for side in sides)
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
    rows = [_row(field, fact, sides) for field, fact in FACTS.items()]
    first, second = ({record.run.implementation for record in side} for side in sides)
    for name in sorted(first & second):
        of_it = [[r for r in side if r.run.implementation == name] for side in sides]
        rows += [_row(field, fact, of_it, name) for field, fact in FACTS_OF_IMPLEMENTATION.items()]
    return rows


def _commit(record: Record) -> str | None:
    commit = record.environment.get("commit")
    return commit and f"{commit[:12]}{'-dirty' if record.environment.get('dirty') else ''}"


def describe_side(name: str, runs: Records) -> dict[str, Any]:
    """What a side is: its name, how much it holds, when and at which commits it was measured."""
    records = [record for processes in runs.values() for record in processes]
    started = [record.started for record in records]
    return {
        "name": name,
        "runs": len(runs),
        "records": len(records),
        "devices": _stated(records, FACTS["device_name"]),
        "begun": min(started, default=None),
        "ended": max(started, default=None),
        "commits": _stated(records, _commit),
    }
