"""Observations of a section on grouped-query attention: query heads that share keys and values.

One function for each observation, from the section's tables to the facts of its macro, or None
where its condition does not hold. The sweep goes from the fewest heads of keys and values to the
most; the texts compare the fewest with the most. Memory is in MiB.
"""

from __future__ import annotations

from typing import Any

from flashlab.story.attention.sweep import MEMORY, PASSES, variant_of
from flashlab.story.observation import Observation
from flashlab.story.tables import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Section,
    Speed,
    evidence,
    span,
    speed_span,
)

SHARING = "num_kv_heads"
REPEATS = "repeated"
"""The word in a kernel's file for taking fewer heads of keys by repeating them first."""

MEBI = 2**20

MOST_NAMED = 2
"""Most implementations without a decided change that are named."""


def is_shared(section: Section) -> bool:
    """True of a section that sweeps the heads of keys and values, and nothing along with them."""
    experiment = section.experiment
    is_swept = experiment.parameter.name == SHARING and not experiment.covaried
    return is_swept and len(experiment.values) > 1


def _ends(section: Section) -> dict[str, Any]:
    """The symbol, and the fewest and the most heads of keys and values."""
    values = section.experiment.values
    return {"p": section.symbol, "fewest": values[0], "most": values[-1]}


# By definition


def shared_bytes(section: Section) -> Observation:
    """That the operations stay, and how many bytes any implementation must move, by pass."""
    experiment, at = section.experiment, _ends(section)
    ends = (at["most"], at["fewest"])
    runs = [next(run for run in experiment.runs if experiment.value_of(run) == end) for end in ends]
    moves = {}
    for key, name in PASSES.items():
        declared = section.benchmark.metric(name).work
        assert declared is not None
        moves[key] = [declared.compulsory_bytes(run, run["dtype"]) / MEBI for run in runs]
    return Observation("shared_bytes", section.name, {**at, "moves": moves})


# Memory


def _peaks(section: Section) -> dict[str, list[float]]:
    """The peak memory of each at the most and at the fewest, of those that have both."""
    at, variant = _ends(section), variant_of(section)
    found = {name: section.medians(MEMORY, name, variant) for name in section.implementations}
    ends = (at["most"], at["fewest"])
    return {n: [each[v] for v in ends] for n, each in found.items() if {*ends} <= each.keys()}


def repeating(section: Section) -> list[str]:
    """The implementations that repeat the keys and values before they compute."""
    entries = section.experiment.plan["implementations"]
    how = {entry["name"]: entry.get("takes", {}).get(SHARING) for entry in entries}
    return [name for name in section.implementations if how.get(name) == REPEATS]


def shared_memory(section: Section) -> Observation | None:
    """The exact peak memory of each one at both ends, those that repeat the keys apart.

    Of the others that of which the least is left comes first.
    """
    peaks = _peaks(section)
    if not peaks:
        return None
    repeats = [name for name in repeating(section) if name in peaks]
    every: dict[str, dict[str, Any]] = {
        n: {"name": n, "peak": peaks[n], "share": peaks[n][1] / peaks[n][0]} for n in peaks
    }
    reads = [each for name, each in every.items() if name not in repeats]
    facts = {
        **{**_ends(section), "reads": sorted(reads, key=lambda each: each["share"])},
        "repeats": [every[name] for name in repeats],
    }
    return Observation("shared_memory", section.name, facts)


# Time


def _speeds(section: Section, metric: str) -> dict[str, Speed]:
    """The speed of each with the fewest heads of keys over that with the most."""
    variant, last = variant_of(section), section.experiment.values[-1]
    found = {n: section.growth(metric, n, variant, last) for n in section.implementations}
    return {name: grown.inverse for name, grown in found.items() if grown is not None}


def _by_verdict(speeds: dict[str, Speed]) -> dict[str, Any]:
    """By each verdict that occurs: who has it, and the speeds, the fastest first.

    ``named``: they are named, as who is faster or slower always is.
    """
    ordered = sorted(speeds, key=lambda name: -speeds[name].x)
    found: dict[str, Any] = {}
    for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED):
        mine = [name for name in ordered if speeds[name].verdict == verdict]
        if mine:
            each = [{"name": name, "x": speeds[name].x} for name in mine]
            is_named = verdict in (FASTER, SLOWER) or len(mine) <= MOST_NAMED
            x = speed_span(speeds[name] for name in mine)
            found[verdict] = {"of": each, "x": x, "named": is_named}
    return found


def shared_time(section: Section) -> Observation | None:
    """Whom sharing makes faster or slower in which pass."""
    by_pass = {key: _speeds(section, metric) for key, metric in PASSES.items()}
    if not all(by_pass.values()):
        return None
    facts = {**_ends(section), "passes": {key: _by_verdict(each) for key, each in by_pass.items()}}
    rows = [speed for each in by_pass.values() for speed in each.values()]
    return Observation("shared_time", section.name, facts, evidence(rows))


def shared_take(section: Section) -> Observation | None:
    """What sharing saves of the peak where the keys are read as they are, and what in time."""
    line, memory = line_shared(section), shared_memory(section)
    if line is None or memory is None or not memory.facts["reads"]:
        return None
    shares = span([each["share"] for each in memory.facts["reads"]])
    facts = {**_ends(section), "memory": shares, "passes": line.facts["passes"]}
    return Observation("shared_take", section.name, facts, line.evidence)


# Page one


def line_shared(section: Section) -> Observation | None:
    """Sharing in one line: the memory of all, and how many are faster in which pass."""
    peaks, by_pass = _peaks(section), {k: _speeds(section, m) for k, m in PASSES.items()}
    if not peaks or not all(by_pass.values()):
        return None
    facts = {
        **{"target": section.name, **_ends(section)},
        "memory": span([after / before for before, after in peaks.values()]),
        "passes": {
            key: {
                "of": len(each),
                **{v: sum(s.verdict == v for s in each.values()) for v in (FASTER, SLOWER, EQUAL)},
            }
            for key, each in by_pass.items()
        },
    }
    rows = [speed for each in by_pass.values() for speed in each.values()]
    return Observation("line_shared", None, facts, evidence(rows))
