"""What is missing or odd: runs that are wrong, do not fit or are not supported, and odd points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashlab.analysis.doubts import DIPS
from flashlab.analysis.experiment import Row
from flashlab.story.observation import Observation
from flashlab.story.tables import Section


def gaps(sections: Sequence[Section]) -> Observation | None:
    """Which implementations have no numbers where in the experiments of a chapter, and why."""
    found = failures(sections)
    if not found:
        return None
    return Observation("gaps", sections[0].name, {"of": found})


def odd_points(sections: Sequence[Section]) -> Observation | None:
    """Runs that are slower than the sizes on both sides of them leave room for."""
    found: dict[tuple[str, str], set[int]] = {}
    for section in sections:
        experiment = section.experiment
        for run in experiment.runs:
            marks = [w for w in run["warnings"] or () if w["code"] == DIPS]
            if any(mark["experiment"] == section.name for mark in marks):
                at = found.setdefault((run["implementation"], section.symbol), set())
                at.add(experiment.value_of(run))
    if not found:
        return None
    points = [{"name": name, "p": p, "at": sorted(at)} for (name, p), at in found.items()]
    return Observation("odd_points", sections[0].name, {"of": points})


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
