"""The circumstances of the two sides: device, software, the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab.analysis.ceilings import COPY, read_ceilings
from flashlab.files import read_json
from flashlab.plan.identity import DIGITS, deciding
from flashlab.records import Record

AGREES, DIFFERS, UNSTATED = "agrees", "differs", "unstated"
OF_KERNEL = ["kernel", "provider"]
"""The fields of each implementation."""


def _facts(record: Record) -> dict[str, str | None]:
    """The value of each field in a record; None where the record does not state it."""
    stated, protocol = record.environment, deciding(record.protocol)
    gpu, commit = stated.get("gpu") or {}, stated.get("commit")
    clock, limit = gpu.get("memory_clock_MHz"), gpu.get("power_limit_W")
    kernel, measuring = (
        (digest := record.sources.get(f"{what}_digest")) and f"digest {digest[:DIGITS]}"
        for what in ("implementation", "measuring")  # of an imported record there is none
    )
    keys = [f"{key} {value}" for key, value in sorted(protocol.items()) if key != "name"]
    return {
        "device_name": stated.get("device_name"),
        "memory_clock": f"{clock:g} MHz" if clock else None,
        "power_limit": f"{limit:g} W" if limit else None,
        "driver": stated.get("driver"),
        "torch": stated.get("packages", {}).get("torch"),
        "cpu_count": stated.get("cpu_count"),
        "protocol": ", ".join([protocol["name"], *keys]),
        "measuring": measuring,
        "measured": record.started[:10],
        "commits": commit and f"{commit[:12]}{'-dirty' if stated.get('dirty') else ''}",
        "kernel": kernel,
        "provider": stated.get("provider"),
    }


def _stated(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})


def compare_circumstances(sides: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's kernel, with its verdict.

    Both sides are the records of the same runs. Each row has the values that occur on each side:
    ``agrees`` where they are the same, ``unstated`` where one side states none.
    """
    facts = [pd.DataFrame(map(_facts, side), dtype=object) for side in sides]
    values: dict[tuple[str, str | None], list[Iterable[Any]]] = {
        (field, None): [side[field] for side in facts] for field in facts[0].columns.drop(OF_KERNEL)
    }
    cards = [{(r.environment.get("boot"), r.environment.get("gpu_uuid")) for r in s} for s in sides]
    hosts = [pd.Series([boot or "" for boot, card in of if card], dtype=object) for of in cards]
    values["gpus", None] = [of.value_counts() for of in hosts]
    values["processes", None] = [pd.Series([r.run for r in s]).value_counts() for s in sides]
    names = [pd.Series([record.run.implementation for record in side]) for side in sides]
    for name in sorted({*names[0]}):
        for field in OF_KERNEL:
            every = zip(facts, names, strict=True)
            values[field, name] = [side[field][of == name] for side, of in every]
    found = {key: [*map(_stated, both)] for key, both in values.items()}
    return [
        {"field": field, "implementation": name, "one": mine, "other": theirs}
        | {"verdict": AGREES if mine == theirs else DIFFERS if mine and theirs else UNSTATED}
        for (field, name), (mine, theirs) in found.items()
    ]


def compare_ceilings(
    files: Sequence[str | Path | None], dtypes: Collection[str]
) -> list[dict[str, Any]]:
    """The rates that both devices were measured to reach at first.

    `what` is ``copy``, in GB/s, or one of these dtypes of a matrix product, in TFLOP/s; `sustained`
    are the rates after they fell, None where they did not. Empty where a side has no file.
    """
    both = [read_ceilings(read_json(Path(file))) for file in files if file]
    if len(both) < 2:
        return []
    rates = [(COPY, 1e9, [ceilings.copy for ceilings in both])]
    rates += [
        (dtype, 1e12, [ceilings.matrix[dtype] for ceilings in both])
        for dtype in sorted(dtypes)
        if all(dtype in ceilings.matrix for ceilings in both)
    ]
    return [
        {"what": what, "one": one.rate / unit, "other": other.rate / unit}
        | {"sustained": [c.sustained_rate and c.sustained_rate / unit for c in (one, other)]}
        for what, unit, (one, other) in rates
    ]
