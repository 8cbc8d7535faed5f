"""Runs that are wrong, do not fit or are not supported, and odd points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashlab.analysis.doubts import DIPS
from flashlab.analysis.experiment import Experiment, Row
from flashlab.runs import Run
from flashlab.story.attention.sweep import MEMORY
from flashlab.story.observation import Observation
from flashlab.story.tables import Section, Tables


def gaps(sections: Sequence[Section]) -> Observation | None:
    """Which implementations have no numbers where in the experiments of a chapter, and why."""
    found = failures(sections)
    if not found:
        return None
    return Observation("gaps", sections[0].name, {"of": found})


def odd_points(sections: Sequence[Section]) -> Observation | None:
    """Runs of a chapter that are slower than the sizes beside them leave room for.

    Those that are so in another experiment count too, told with the symbol of what is swept there.
    """
    found: dict[tuple[str, str, str | None], set[int]] = {}
    swept = {each.name: each.symbol for each in sections[0].tables.sections}
    for section in sections:
        for run in section.experiment.runs:
            marks = {w["experiment"] for w in run["warnings"] or () if w["code"] == DIPS}
            elsewhere = [swept[name] for name in swept if name in marks]
            if not elsewhere:
                continue
            there = None if section.name in marks else elsewhere[0]
            at = found.setdefault((run["implementation"], section.symbol, there), set())
            at.add(section.experiment.value_of(run))
    if not found:
        return None
    points = [
        {"name": name, "p": p, "at": sorted(at), "there": there}
        for (name, p, there), at in found.items()
    ]
    return Observation("odd_points", sections[0].name, {"of": points})


def odd_runs(tables: Tables) -> list[dict[str, Any]]:
    """The runs that are odd in an experiment, with how many experiments have each."""
    found = []
    for section in tables.sections:
        experiment = section.experiment
        for run in experiment.runs:
            codes = {
                w["code"] for w in run["warnings"] or () if w.get("experiment") == section.name
            }
            if DIPS in codes:
                key = experiment.key_of(run)
                shared = [
                    e for e in tables.sections if key in map(e.experiment.key_of, e.experiment.runs)
                ]
                about = {"name": run["implementation"], "p": section.symbol}
                found.append({**about, "at": experiment.value_of(run), "shared": len(shared)})
    return found


def failures(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The runs without numbers of some sections: implementation, values and status.

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
                tuple(about.values()),
                {**about, "at": [], "d": [], **_gate(run), **_needs(section, run)},
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


def _needs(section: Section, run: Row) -> dict[str, Any]:
    """The GiB that the tensors of a run out of memory take by the exact model, and the device's."""
    metric = section.benchmark.metric(MEMORY)
    needs = capacity = None
    if run["status"] == "oom" and metric.account is not None:
        given = Run.of(section.benchmark, run)
        parts = metric.account.parts(given, run["provider"], run["device_name"])
        capacity = metric.account.capacity(run["device_name"])
        needs = sum(parts.values()) / 1024 if parts and capacity else None
    return {"needs": needs, "capacity": capacity and capacity / 1024}


def _gate(run: Row) -> dict[str, Any]:
    """Which output was wrong by how much, and how much is allowed; None where it is not known."""
    gate = run["gate"] or {}
    errors, limit = gate.get("errors") or {}, gate.get("tolerance")
    known = {name: error for name, error in errors.items() if error is not None}
    if run["status"] != "incorrect" or not known or limit is None:
        return {"output": None, "error": None, "limit": None}
    worst = max(known, key=known.__getitem__)
    return {"output": worst, "error": known[worst], "limit": limit}
