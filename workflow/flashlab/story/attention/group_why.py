"""Why, with three or more implementations: what another process counted at the same setting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from flashlab.story.attention.groups import Chapter
from flashlab.story.attention.sweep import BACKWARD, FORWARD, OFF, ON
from flashlab.story.attention.why import (
    counted,
    counters_evidence,
    launched,
    matrix_work,
    traffic_of,
)
from flashlab.story.observation import Observation
from flashlab.story.tables import FASTER, SLOWER, Section, Speed

ALIKE_BYTES = 1.10
"""Within what factor the fused implementations move the same."""

IDLE = 1.0
"""Percent of the time below which Tensor Cores are hardly used."""

STEADY = 1.10
"""Within what factor an implementation's Tensor Core activity is alike at both ends of a sweep."""

FEW = 0.8
"""Of the bytes of others, what is decidedly less."""


def groups_traffic(chapter: Chapter) -> Observation | None:
    """The DRAM traffic of the forwards by group, and whether Tensor Core activity orders them."""
    section, variant, naive = chapter.main.section, chapter.main.variant, chapter.naive
    if chapter.switch or naive is None or not chapter.fused:
        return None
    names = [*chapter.stored, *chapter.fused]
    at = next(
        (
            value
            for value in reversed(section.experiment.values)
            if _counted(section, [naive], variant, value)
            and len(_counted(section, chapter.fused, variant, value)) > 1
        ),
        None,
    )
    if at is None:
        return None
    moved = {n: traffic_of(section, n, variant, at, FORWARD) for n in names}
    known = {name: each for name, each in moved.items() if each is not None}
    fused = {name: known[name] for name in chapter.fused if name in known}
    if naive not in known or len(fused) < 2:
        return None
    bytes_ = [each["gigabytes"] for each in fused.values()]
    alike = max(bytes_) / min(bytes_) <= ALIKE_BYTES
    if known[naive]["gigabytes"] < 2 * max(bytes_):
        return None
    facts = {
        **{"p": section.symbol, "at": at, "count": len(fused)},
        "gigabytes": [min(bytes_), max(bytes_)],
        "stored": [
            {"name": name, "gigabytes": known[name]["gigabytes"]}
            for name in chapter.stored
            if name in known
        ],
        "order": _order(section, variant, at, fused) if alike else None,
    }
    rows = [(name, variant, at) for name in known]
    return Observation("groups_traffic", chapter.name, facts, counters_evidence(section, rows))


def groups_activity(chapter: Chapter) -> Observation | None:
    """DRAM traffic and Tensor Core activity of the forwards at both ends of a sweep.

    None along the sequence length, of which `groups_traffic` tells, and where fewer than the naive
    and two fused implementations were counted at both ends.
    """
    section, variant, naive = chapter.main.section, chapter.main.variant, chapter.naive
    experiment = section.experiment
    if chapter.switch or naive is None or experiment.parameter.name == "seq_len":
        return None
    at = [experiment.values[0], experiment.values[-1]]
    moved = {
        name: [traffic_of(section, name, variant, value, FORWARD) for value in at]
        for name in (naive, *chapter.fused)
    }
    both = {
        name: [each for each in ends if each is not None and each["activity"] > 0]
        for name, ends in moved.items()
    }
    fused = [name for name in chapter.fused if len(both[name]) == len(at)]
    if len(both[naive]) < len(at) or len(fused) < 2:
        return None
    activity = {name: [each["activity"] for each in both[name]] for name in fused}
    changes = {name: last / first for name, (first, last) in activity.items()}
    by_change = sorted(fused, key=lambda name: -abs(math.log(changes[name])))
    facts = {
        **{"p": section.symbol, "at": at, "naive": naive, "count": len(fused)},
        "naive_gigabytes": [each["gigabytes"] for each in both[naive]],
        "gigabytes": [
            [pick(both[name][end]["gigabytes"] for name in fused) for pick in (min, max)]
            for end in range(len(at))
        ],
        "trend": _trend([*changes.values()]),
        "fused": [{"name": name, "activity": activity[name]} for name in by_change[:3]],
        "activity": [pick(map(pick, activity.values())) for pick in (min, max)],
    }
    rows = [(name, variant, value) for name in (naive, *fused) for value in at]
    return Observation("groups_activity", chapter.name, facts, counters_evidence(section, rows))


def _trend(changes: Sequence[float]) -> str:
    """The change that all activities have in common, from their ratios of the last to the first."""
    if all(change < 1 / STEADY for change in changes):
        return "less"
    if all(change > STEADY for change in changes):
        return "more"
    return "steady" if all(1 / STEADY <= change <= STEADY for change in changes) else "mixed"


def _counted(section: Section, names: Sequence[str], variant: str, value: int) -> list[str]:
    return [n for n in names if counted(section, n, variant, value, FORWARD)]


def _order(section: Section, variant: str, at: int, fused: dict[str, Any]) -> dict[str, Any] | None:
    """The ends of the order by Tensor Core activity; else the plainest pair that it does not order.

    None where no pair is decided. A counterexample is decidedly faster with less activity.
    """
    against: list[tuple[float, str, str]] = []
    decided = 0
    for one, other in itertools.permutations(fused, 2):
        speed = section.speeds(FORWARD, one, variant, other).get(at)
        if speed is not None and speed.verdict == FASTER:
            decided += 1
            if fused[one]["activity"] < fused[other]["activity"]:
                against.append((speed.x, one, other))
    if not decided:
        return None
    if not against:
        ordered = sorted(fused, key=lambda name: -fused[name]["activity"])
        ends = (ordered[0], ordered[-1])
        return {"by_activity": True, "ends": [{"name": n, **fused[n]} for n in ends]}
    x, one, other = max(against)
    return {
        **{"by_activity": False, "x": x},
        "faster": {"name": one, "activity": fused[one]["activity"]},
        "slower": {"name": other, "activity": fused[other]["activity"]},
    }


def groups_masked_work(chapter: Chapter) -> Observation | None:
    """The Tensor Cores' busy time in the fused forwards with the mask, by that without it.

    At the first and the last length at which two or more were counted with and without it.
    """
    section = chapter.first
    if not chapter.switch:
        return None
    work = {
        value: {
            name: on / off
            for name in chapter.fused
            if (off := matrix_work(launched(section, name, OFF, value)))
            and (on := matrix_work(launched(section, name, ON, value)))
        }
        for value in section.experiment.values
    }
    at = [value for value, each in work.items() if len(each) > 1]
    if len(at) < 2:
        return None
    first, last = work[at[0]], work[at[-1]]
    names = [name for name in first if name in last]
    if len(names) < 2:
        return None
    facts = {
        **{"p": section.symbol, "first": at[0], "last": at[-1], "count": len(names)},
        "work": [
            [pick(each[name] for name in names) for pick in (min, max)] for each in (first, last)
        ],
        "falls": all(last[name] < first[name] for name in names),
    }
    rows = [
        (name, variant, at_) for name in names for variant in (OFF, ON) for at_ in at[:1] + at[-1:]
    ]
    return Observation("groups_masked_work", chapter.name, facts, counters_evidence(section, rows))


def why_no_matrix_units(chapter: Chapter) -> Observation | None:
    """One whose matrix products hardly use the Tensor Cores, and what else takes its time."""
    section, variant = chapter.main.section, chapter.main.variant
    if chapter.switch:
        return None
    for value in reversed(section.experiment.values):
        for name in [*chapter.stored[1:], *chapter.fused] if chapter.naive else ():
            kernels = launched(section, name, variant, value)
            products = [kernel for kernel in kernels if kernel.kind == "product"]
            time = sum(kernel.milliseconds for kernel in products)
            if not products or not time:
                continue
            active = sum(k.milliseconds * k.tensor for k in products) / time
            whole = sum(kernel.milliseconds for kernel in kernels)
            if active < IDLE and _is_slower(section, name, variant, value):
                facts = {
                    **{"name": name, "p": section.symbol, "at": value, "activity": active / 100},
                    **{"products": len(products), "share": time / whole},
                    "others": len(kernels) - len(products),
                }
                rows = [(name, variant, value)]
                return Observation(
                    "why_no_matrix_units", chapter.name, facts, counters_evidence(section, rows)
                )
    return None


def _is_slower(section: Section, name: str, variant: str, value: int) -> bool:
    """True of a forward that is decidedly slower than that of the naive one."""
    speed = section.speeds(FORWARD, name, variant).get(value) if name != section.baseline else None
    return speed is not None and speed.verdict == SLOWER


def why_launches(chapter: Chapter) -> Observation | None:
    """On the shortest sequences, how many kernels the fastest backward is and what it moves.

    Beside one that launches as few, or moves as little, and is slower than those with more.
    """
    section, variant = chapter.main.section, chapter.main.variant
    if chapter.switch or section.experiment.parameter.name != "seq_len":
        return None
    at = section.experiment.values[0]
    moved = {
        name: each
        for name in chapter.fused
        if (each := traffic_of(section, name, variant, at, BACKWARD)) is not None
    }
    times = {name: section.medians(BACKWARD, name, variant).get(at) for name in moved}
    if len(moved) < 3 or any(time is None for time in times.values()):
        return None
    first = min(moved, key=lambda name: times[name] or 0)
    usual = [
        name
        for name, each in moved.items()
        if each["kernels"] > moved[first]["kernels"]
        and moved[first]["gigabytes"] < FEW * each["gigabytes"]
        and _verdict(section, variant, at, first, name) == FASTER
    ]
    if len(usual) < 2:
        return None
    counts = {moved[name]["kernels"] for name in usual}
    common = max(counts, key=lambda count: sum(moved[n]["kernels"] == count for n in usual))
    usual = [name for name in usual if moved[name]["kernels"] == common]
    others = [
        name
        for name, each in moved.items()
        if name not in (first, *usual)
        and each["kernels"] <= moved[first]["kernels"]
        and any(_verdict(section, variant, at, name, other) == SLOWER for other in usual)
    ]
    facts = {
        **{"p": section.symbol, "at": at, "first": {"name": first, **moved[first]}},
        **{"usual": usual, "kernels": common},
        "gigabytes": [f([moved[n]["gigabytes"] for n in usual]) for f in (min, max)],
        "but": {"name": others[0], **moved[others[0]]} if others else None,
    }
    rows = [(name, variant, at) for name in moved]
    return Observation("why_launches", chapter.name, facts, counters_evidence(section, rows))


def _verdict(section: Section, variant: str, at: int, one: str, other: str) -> str | None:
    speed: Speed | None = section.speeds(BACKWARD, one, variant, other).get(at)
    return speed.verdict if speed else None
