"""Every kind of finding, in the order in which they are derived and counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from flashlab.analysis.conclusions.quoting import VERDICTS as CONCLUSION_VERDICTS
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import Kind
from flashlab.analysis.kinds.anomaly import ANOMALY
from flashlab.analysis.kinds.balance import BALANCE
from flashlab.analysis.kinds.cause import CAUSE
from flashlab.analysis.kinds.choice import CHOICE
from flashlab.analysis.kinds.claim import CLAIM
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.correctness import CORRECTNESS
from flashlab.analysis.kinds.counters import COUNTERS
from flashlab.analysis.kinds.crossover import CROSSOVER
from flashlab.analysis.kinds.curve import CURVE
from flashlab.analysis.kinds.derived_size import DERIVED_SIZE
from flashlab.analysis.kinds.device_use import DEVICE_USE
from flashlab.analysis.kinds.environment import ENVIRONMENT
from flashlab.analysis.kinds.exact_account import EXACT_ACCOUNT
from flashlab.analysis.kinds.exact_comparison import EXACT_COMPARISON
from flashlab.analysis.kinds.jump import JUMP
from flashlab.analysis.kinds.launch_bound import LAUNCH_BOUND
from flashlab.analysis.kinds.monotonicity import MONOTONICITY
from flashlab.analysis.kinds.out_of_memory import OUT_OF_MEMORY
from flashlab.analysis.kinds.packed import PACKED
from flashlab.analysis.kinds.processes import PROCESSES
from flashlab.analysis.kinds.roofline import ROOFLINE
from flashlab.analysis.kinds.saturation import SATURATION
from flashlab.analysis.kinds.scaling import SCALING
from flashlab.analysis.kinds.sittings import SITTINGS
from flashlab.analysis.kinds.step import STEP
from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT
from flashlab.analysis.kinds.variant_gain import VARIANT_GAIN
from flashlab.analysis.kinds.whole import WHOLE
from flashlab.analysis.kinds.worse_than_naive import WORSE_THAN_NAIVE
from flashlab.telling import values

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(CHOICE, VARIANT_EFFECT, COMPARISON, PACKED, CROSSOVER, EXACT_COMPARISON, OUT_OF_MEMORY),
        *(SCALING, MONOTONICITY, ANOMALY),
        *(BALANCE, EXACT_ACCOUNT, LAUNCH_BOUND, SATURATION, JUMP),
        *(STEP, WHOLE, ROOFLINE, CAUSE, DEVICE_USE),
        *(CORRECTNESS, VARIANT_GAIN, DERIVED_SIZE, WORSE_THAN_NAIVE, CURVE),
        *(ENVIRONMENT, PROCESSES, SITTINGS, COUNTERS, CLAIM),
    )
}
"""By name."""


TEXT = {"type": "string"}
OBJECT = {"type": "object"}


def findings_schema() -> dict[str, Any]:
    """The JSON Schema of findings.json: each kind with its verdicts, and the values that are told.

    Those have their fields in `flashlab.telling.values`.
    """
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
        "title": "The findings of a dataset",
        "description": "Generated from flashlab.analysis.registry; docs/findings.md explains it.",
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
