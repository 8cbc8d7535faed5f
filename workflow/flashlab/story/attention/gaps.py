"""What is missing or odd: runs that are wrong, do not fit or are not supported, and odd points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashlab.analysis.doubts import DIPS
from flashlab.analysis.experiment import Experiment, Row
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
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for section in sections:
        experiment = section.experiment
        masks = _failing_masks(experiment)
        varies = len({run["head_dim"] for run in experiment.runs}) > 1
        for run in experiment.runs:
            name, status = run["implementation"], run["status"]
            if status == "ok" or name in experiment.packed:
                continue
            mask = masks[name, status, experiment.value_of(run)]
            about = {"name": name, "status": status, "p": section.symbol, "mask": mask}
            entry = found.setdefault(
                tuple(about.values()), {**about, "at": [], "d": [], **_gate(run)}
            )
            entry["at"] = sorted({*entry["at"], experiment.value_of(run)})
            entry["d"] = sorted({*entry["d"], run["head_dim"]}) if varies else []
    return [*found.values()]


def _failing_masks(experiment: Experiment) -> dict[tuple[str, str, int], bool | None]:
    """Of each implementation, status and value the mask with which alone it is; None for both.

    None too where it was measured with one mask only.
    """
    planned: dict[tuple[str, int], set[bool]] = {}
    having: dict[tuple[str, str, int], set[bool]] = {}
    for run in experiment.runs:
        name, value = run["implementation"], experiment.value_of(run)
        planned.setdefault((name, value), set()).add(run["causal"])
        having.setdefault((name, run["status"], value), set()).add(run["causal"])
    return {
        (name, status, value): None if masks == planned[name, value] else min(masks)
        for (name, status, value), masks in having.items()
    }


def _gate(run: Row) -> dict[str, Any]:
    """Which output was wrong by how much, and how much is allowed; None where it is not known."""
    gate = run["gate"] or {}
    errors, limit = gate.get("errors") or {}, gate.get("tolerance")
    known = {name: error for name, error in errors.items() if error is not None}
    if run["status"] != "incorrect" or not known or limit is None:
        return {"output": None, "error": None, "limit": None}
    worst = max(known, key=known.__getitem__)
    return {"output": worst, "error": known[worst], "limit": limit}
