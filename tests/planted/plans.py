"""The plan of planted records, as a call that measures them has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planted.records import written

from flashlab.plan.plan_files import Plan


def plan_of(
    folder: Path, records: Sequence[Any], counters: Sequence[Any] = (), **keys: Any
) -> Plan:
    """The plan of these records, which are written, to be frozen as ``mine``."""
    paths = {written(folder, record).as_posix(): record for record in (*records, *counters)}
    orders = {
        path: {"run": record.run.to_json(), "protocol": dict(record.protocol)}
        for path, record in paths.items()
    }
    counted = [path for path, record in paths.items() if record.has_counters]
    top = {"environment": records[0].environment}
    (folder / "top.json").write_text(json.dumps(top))
    config = {
        **{"name": "mine", "freeze_anyway": True, "anonymous": False, "alone": False},
        **{"measure": {"protocol": "sampled"}, "device": "auto"},
        **{"baseline": "Pytorch", "summary": {}, "experiments": []},
        **keys,
    }
    return Plan(
        **{"benchmark": "attention", "report": "lab5", "dataset": "local", "home": ""},
        **{"device": "cpu", "device_name": "", "config": config, "counters": counted},
        **{"orders": orders, "ceilings": str(folder / "top.json")},
    )
