"""The form of findings.json as JSON Schema: each kind with its verdicts, and the values told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from flashlab.analysis.conclusions.quoting import VERDICTS as CONCLUSION_VERDICTS
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.registry import KINDS
from flashlab.telling import values

TEXT = {"type": "string"}
OBJECT = {"type": "object"}


def findings_schema() -> dict[str, Any]:
    """The schema; values have the fields of their classes in `flashlab.telling.values`."""
    verdicts = {name: list(kind.verdicts) for name, kind in KINDS.items()}
    verdicts["conclusion"] = list(CONCLUSION_VERDICTS)
    told = {
        "type": ["string", "integer", "object"],
        "required": [values.IS],
        "properties": {values.IS: _one_of(values.KINDS)},
    }
    statement = _object(
        values.Statement,
        required=[values.IS, "key"],
        key=TEXT,
        values={**OBJECT, "additionalProperties": told},
        about={"type": "array", "items": TEXT},
    )
    statement["properties"][values.IS] = {"const": values.Statement.__name__}
    variant = {**OBJECT, "additionalProperties": {"type": ["boolean", "string"]}}
    finding = _object(
        Finding,
        kind=_one_of(verdicts),
        experiment={"type": ["string", "null"]},
        subject={**OBJECT, "properties": {"variant": variant}, "additionalProperties": TEXT},
        verdict=TEXT,
        statements={"type": "array", "items": statement},
        facts=OBJECT,
        estimates={"type": "array", "items": OBJECT},
        reasons={
            "type": "array",
            "items": _object(Reason, required=["code"], code=TEXT, run=OBJECT, status=TEXT),
        },
        warnings={"type": "array", "items": TEXT},
        rank={"type": ["integer", "null"], "minimum": 0},
        told={"type": "boolean"},
        device=TEXT,
    )
    rules = [
        {
            "if": {"properties": {"kind": {"const": name}}},
            "then": {"properties": {"verdict": {"enum": each}}},
        }
        for name, each in verdicts.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {**finding, "allOf": rules},
    }


def _one_of(names: Mapping[str, Any]) -> dict[str, Any]:
    return {"enum": list(names)}


def _object(of: type[Any], required: list[str] | None = None, **of_fields: Any) -> dict[str, Any]:
    """An object that has the fields of a dataclass, each by its schema; all, or the required."""
    names = [field.name for field in fields(of)]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": names if required is None else required,
        "properties": {name: of_fields[name] for name in names},
    }
