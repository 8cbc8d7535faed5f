"""What is missing: runs that are wrong, that do not fit or that are not supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashlab.analysis.experiment import Row
from flashlab.story.observation import Observation
from flashlab.story.tables import Section


def gaps(sections: Sequence[Section]) -> Observation | None:
    """Which implementations have no numbers where in the experiments of a chapter, and why."""
    found = failures(sections)
    if not found:
        return None
    return Observation("gaps", sections[0].name, {"of": found})


def failures(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """What has no numbers in some sections: who, where, and why, each place once.

    Twins with packed inputs are left out: they fail where the ones with separate inputs do.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for section in sections:
        experiment = section.experiment
        varies = len({run["head_dim"] for run in experiment.runs}) > 1
        for run in experiment.runs:
            name, status = run["implementation"], run["status"]
            if status == "ok" or name in experiment.packed:
                continue
            about = {"name": name, "status": status, "p": section.symbol}
            entry = found.setdefault(
                (name, status, section.symbol), {**about, "at": [], "d": [], **_gate(run)}
            )
            entry["at"] = sorted({*entry["at"], experiment.value_of(run)})
            entry["d"] = sorted({*entry["d"], run["head_dim"]}) if varies else []
    return [*found.values()]


def _gate(run: Row) -> dict[str, Any]:
    """Which output was wrong by how much, and how much is allowed; None where it is not known."""
    gate = run["gate"] or {}
    errors, limit = gate.get("errors") or {}, gate.get("tolerance")
    known = {name: error for name, error in errors.items() if error is not None}
    if run["status"] != "incorrect" or not known or limit is None:
        return {"output": None, "error": None, "limit": None}
    worst = max(known, key=known.__getitem__)
    return {"output": worst, "error": known[worst], "limit": limit}
