"""The circumstances of the two sides: device, software, the code of kernels and measuring."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab.analysis.ceilings import COPY, read_ceilings
from flashlab.files import read_json
from flashlab.plan.identity import deciding
from flashlab.records import Record

FIELDS = {
    **{"device_name": "{}", "gpu.memory_clock_MHz": "{:g} MHz", "gpu.power_limit_W": "{:g} W"},
    **{"driver": "{}", "packages.torch": "{}", "cpu_count": "{:g}", "protocol": "{}"},
    **{"measuring_digest": "digest {:.12}", "measured": "{}", "commit": "{}", "gpus": "{}"},
    **{"processes": "{}", "implementation_digest": "digest {:.12}", "provider": "{}"},
}
"""What the records state, as it is printed."""

NAMES = {
    **{"gpu.memory_clock_MHz": "memory_clock", "gpu.power_limit_W": "power_limit"},
    **{"packages.torch": "torch", "measuring_digest": "measuring", "commit": "commits"},
    "implementation_digest": "kernel",
}
OF_KERNEL = ("implementation_digest", "provider")
"""The fields of each implementation."""


def _facts(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each record: its environment and sources, and what follows from them."""
    rows = []
    for record in records:
        commit, dirty = record.environment.get("commit"), record.environment.get("dirty")
        protocol = deciding(record.protocol)
        keys = [f"{key} {value}" for key, value in sorted(protocol.items()) if key != "name"]
        about = {
            "implementation": record.run.implementation,
            "processes": str(record.run),
            "protocol": ", ".join([protocol["name"], *keys]),
            "measured": record.started[:10],
            "commit": commit and commit[:12] + ("-dirty" if dirty else ""),
        }
        about["boot"] = record.environment.get("boot") or ""
        rows.append({**record.environment, **record.sources, **about})
    facts = pd.json_normalize(rows).reindex(columns=["boot", "gpu_uuid", "implementation", *FIELDS])
    facts["gpus"] = facts.groupby("boot").gpu_uuid.transform("nunique")
    facts["processes"] = facts.processes.map(facts.processes.value_counts())
    return facts


def compare_circumstances(sides: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's kernel, with its verdict.

    Both sides are the records of the same runs. Each row has the values that occur on each side:
    ``agrees`` where they are the same, ``unstated`` where one side states none.
    """
    facts = [*map(_facts, sides)]
    of: list[tuple[str, str | None]] = [(name, None) for name in FIELDS if name not in OF_KERNEL]
    of += [(each, name) for name in sorted({*facts[0].implementation}) for each in OF_KERNEL]
    found = []
    for column, name in of:
        one, other = (
            sorted({FIELDS[column].format(value) for value in shown[column].dropna() if value})
            for side in facts
            for shown in [side if name is None else side[side.implementation == name]]
        )
        verdict = "agrees" if one == other else "differs" if one and other else "unstated"
        row = {"field": NAMES.get(column, column), "implementation": name}
        found.append({**row, "one": one, "other": other, "verdict": verdict})
    return found


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
    for dtype in sorted(dtypes):
        if all(dtype in ceilings.matrix for ceilings in both):
            rates.append((dtype, 1e12, [ceilings.matrix[dtype] for ceilings in both]))
    return [
        {"what": what, "one": one.rate / unit, "other": other.rate / unit}
        | {"sustained": [c.sustained_rate and c.sustained_rate / unit for c in (one, other)]}
        for what, unit, (one, other) in rates
    ]
