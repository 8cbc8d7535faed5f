"""Peak memory: how it grows, what share of the baseline's is needed, and what does not fit.

Where the exact model gives what was measured to the byte, its parts say what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from flashlab.analysis.frames import Sweep, number
from flashlab.benchmarks.attention.declaration import memory_capacity, memory_parts
from flashlab.devices import find_device, known_devices
from flashlab.runs import Run
from flashlab.story.attention import roles
from flashlab.story.attention.roles import MEMORY, share
from flashlab.story.observation import Observation, clause

LARGEST = 2**24
"""The longest sequence at which the memory model is asked."""

NEARLY = 1.1
"""Within what factor a growth is nearly proportional, or two additions are nearly the same."""


def parts(s: Sweep, name: str, at: int, length: int | None = None) -> Mapping[str, float] | None:
    """The exact model of a run's peak memory in MiB, by part; at another length if one is given.

    None where it does not give what was measured. A GPU that is not known, as in an imported
    folder, has the workspaces of one that is.
    """
    run = s.run(name, at)
    if run is None:
        return None
    run = {**run, "implementation": name}
    given = Run.of(s.data.benchmark, run)
    longer = Run.of(s.data.benchmark, {**run, "seq_len": length or run["seq_len"]})
    own = str(run["device_name"])
    measured = number(s.medians(MEMORY), at, name)
    for device in [own] if find_device(own) else [each.name for each in known_devices()]:
        found = memory_parts(given, str(run["provider"]), device)
        if found and math.isclose(sum(found.values()), measured, rel_tol=1e-9):
            return memory_parts(longer, str(run["provider"]), device)
    return None


def limit(s: Sweep) -> dict[str, Any] | None:
    """By the exact model: the first doubled length at which the baseline does not fit the device.

    GiB that it and the subjects would need there.
    """
    base, names = s.data.baseline, roles.subjects(s)
    at = roles.ends(s, [base], MEMORY)
    if s.symbol != "N" or not at or s.runs.batch_size.nunique() > 1:
        return None
    device = str((s.run(base, at[1]) or {})["device_name"])
    capacity, length = memory_capacity(device), 2 * at[1]

    def needed(name: str) -> float:
        return sum((parts(s, name, at[1], length) or {"unknown": math.nan}).values())

    if capacity is None or math.isnan(needed(base)):
        return None
    while needed(base) <= capacity and length < LARGEST:
        length *= 2
    rest = {name: x / 1024 for name in names if not math.isnan(x := needed(name))}
    if not rest or needed(base) <= capacity:
        return None
    facts = {"at": length, "needs": needed(base) / 1024, "has": capacity / 1024}
    who = roles.group(s, rest, short=True)
    return {**facts, "rest": roles.span(rest.values()), "who": who}


def memory(s: Sweep) -> Observation | None:
    """The peak memory of the baseline and the subjects along a sweep; None where none grows."""
    base, table = s.data.baseline, s.medians(MEMORY)
    at = roles.ends(s, [base], MEMORY) if roles.has_baseline(s) else []
    names = [n for n in roles.subjects(s) if at and table[n].reindex(at).notna().all()]
    if not names or s.is_switch:
        return None
    grown = {n: number(table, at[1], n) / number(table, at[0], n) for n in [base, *names]}
    if all(math.isclose(x, 1, rel_tol=0.01) for x in grown.values()):
        return None
    facts = {
        **{"p": s.symbol, "first": at[0], "last": at[1], "base": base},
        **{"grown": grown[base], "others": roles.span(grown[n] for n in names)},
        "shares": [roles.span(share(s, n, end) for n in names) for end in at],
        "who": roles.group(s, names, short=True),
    }
    variant, more = _variant(s, names, at, grown)
    evidence = s.rows(MEMORY, [base, *names], at)
    return Observation("memory", s.name, {**facts, **more}, evidence, variant)


def _variant(
    s: Sweep, names: list[str], at: list[int], grown: Mapping[str, float]
) -> tuple[str, dict[str, Any]]:
    """Which sentence, and what else it prints."""
    (first, last), base, table = at, s.data.baseline, s.medians(MEMORY)
    model = parts(s, base, last)
    scores = model.get("scores") if model else None
    if s.symbol == "N" and scores:
        run = s.run(base, last) or {}
        tensor = 2 * run["batch_size"] * run["num_heads"] * run["seq_len"] ** 2 / 2**20
        told = {"tensors": round(scores / tensor), "held": scores / number(table, last, base)}
        found = limit(s)
        return ("limit", {**told, "limit": found}) if found else ("scores", told)
    if s.symbol == "B" and all(abs(x * first / last - 1) < NEARLY - 1 for x in grown.values()):
        times = 1 / max(share(s, name, last) for name in names)
        if times > NEARLY:
            unit = 1 if times >= 10 else 10  # "at least": never rounded up
            return "batch", {"times": math.floor(unit * times) / unit}
    added = {n: number(table, last, n) - number(table, first, n) for n in [base, *names]}
    if s.symbol == "H" and s.runs.emb_dim.nunique() == 1 and _adds(s):
        most = max(grown[name] for name in names) - 1
        others = clause("adds_little", who=roles.group(s, names, short=True))
        if most >= 0.02:
            others = clause("adds_most", who=roles.group(s, names, short=True), x=most)
        each = added[base] / (last - first)
        what = clause("of_scores") if scores else None
        return "heads", {"each": each, "rest": others, "what": what}
    ratios = [added[name] / added[base] for name in names if added[base] > 0]
    if s.symbol == "E" and ratios and all(1 / NEARLY < x < NEARLY for x in ratios):
        return "alike", {"added": [added[base], [added[name] for name in names]]}
    return "grown", {}


def _adds(s: Sweep) -> bool:
    """True if each unit of the sweep adds the same to the baseline's peak, not nothing."""
    sizes = s.medians(MEMORY)[s.data.baseline].dropna()
    steps = np.diff(sizes) / np.diff(sizes.index.to_numpy(dtype=float))
    return bool(len(steps) and steps.min() > 0 and np.ptp(steps) <= 1e-6 * steps.max())
