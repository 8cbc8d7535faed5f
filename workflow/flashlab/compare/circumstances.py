"""In what the two sides were measured: device, software, and the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    kinds = (kind for kind in ("digest", "sha256") if record.sources.get(f"{what}_{kind}"))
    return next((f"{kind} {record.sources[f'{what}_{kind}'][:DIGITS]}" for kind in kinds), None)


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


def _verdict(one: Sequence[str], other: Sequence[str]) -> str:
    if one == other:
        return AGREES
    kinds = [{value.partition(" ")[0] for value in side} for side in (one, other)]
    digests = {"digest", "sha256"}
    if not one or not other or (kinds[0] <= digests and kinds[0] != kinds[1]):
        return UNSTATED  # digests of two kinds cannot be compared
    return DIFFERS


def compare_circumstances(one: Records, other: Records) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's provider and kernel, with its verdict.

    Each has the values that occur on each side: ``agrees`` where they are the same, ``unstated``
    where one side states none.
    """
    sides = [[record for records in side.values() for record in records] for side in (one, other)]

    def row(field: str, fact: Fact, name: str | None = None) -> dict[str, Any]:
        first, second = (
            _stated((r for r in side if name in (None, r.run.implementation)), fact)
            for side in sides
        )
        verdict = _verdict(first, second)
        return {
            **{"field": field, "implementation": name},
            **{"one": first, "other": second, "verdict": verdict},
        }

    first, second = ({record.run.implementation for record in side} for side in sides)
    return [
        *(row(field, fact) for field, fact in FACTS.items()),
        *(
            row(field, fact, name)
            for name in sorted(first & second)
            for field, fact in FACTS_OF_IMPLEMENTATION.items()
        ),
    ]


def _commit(record: Record) -> str | None:
    commit = record.environment.get("commit")
    return commit and f"{commit[:12]}{'-dirty' if record.environment.get('dirty') else ''}"


def describe_side(name: str, runs: Records) -> dict[str, Any]:
    """What a side is: its name, how much it holds, when and at which commits it was measured."""
    records = [record for processes in runs.values() for record in processes]
    days = sorted(record.started for record in records)
    return {
        "name": name,
        "runs": len(runs),
        "records": len(records),
        "devices": _stated(records, FACTS["device_name"]),
        "begun": days[0] if days else None,
        "ended": days[-1] if days else None,
        "commits": _stated(records, _commit),
    }
