"""The surprise of a chapter on three or more implementations: at most one observation."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.analysis import choices
from flashlab.story.attention.group_sections import ranking_along
from flashlab.story.attention.groups import Chapter, VariantSweep
from flashlab.story.attention.sweep import FORWARD, PASSES, head_dims
from flashlab.story.attention.why import traffic_of
from flashlab.story.observation import Observation
from flashlab.story.tables import FASTER, SLOWER, Speed, evidence

JUMP = 1.3
"""Least ratio of a rate's rise to the median of the others' where it jumps."""

MORE = 2.0
"""Least ratio of a slow pass's DRAM traffic to the most of the others', where it is told."""

FAR_BEHIND = 1.10
"""Least ratio of a time to the best one's, by its whole interval, where an order has changed."""


def surprise(chapter: Chapter) -> Observation | None:
    """The first that holds of the three."""
    for observe in (surprise_worse_than_naive, surprise_jump, surprise_order):
        if (found := observe(chapter)) is not None:
            return found
    return None


def surprise_worse_than_naive(chapter: Chapter) -> Observation | None:
    """A pass of fused implementations that is decidedly slower than that of the naive one."""
    naive = chapter.naive
    if naive is None or chapter.switch:
        return None
    section, variant = chapter.main.section, chapter.main.variant
    for key, metric in reversed(PASSES.items()):
        speeds = {name: section.speeds(metric, name, variant) for name in chapter.fused}
        slower = {
            (value, name): speed
            for name, each in speeds.items()
            for value, speed in each.items()
            if speed.verdict == SLOWER
        }
        if not slower:
            continue
        at = max({value for value, _ in slower}, key=lambda v: (sum(w == v for w, _ in slower), -v))
        names = sorted(
            (name for value, name in slower if value == at), key=lambda n: slower[at, n].x
        )[:3]
        times = {n: section.medians(metric, n, variant) for n in [*names, naive]}
        values = section.experiment.values
        index = values.index(at)
        near = [values[i] for i in (index + 1, index - 1) if 0 <= i < len(values)]
        faster = [{v for v, speed in speeds[n].items() if speed.verdict == FASTER} for n in names]
        recovers = next((v for v in near if all(v in each for each in faster)), None)
        facts: dict[str, Any] = {
            **{"p": section.symbol, "at": at, "d": _dim(chapter.main, at), "pass": key},
            **{"naive": naive, "naive_time": times[naive][at]},
            "of": [{"name": name, "time": times[name][at]} for name in names],
            "moves": _moves(chapter, names, at, metric),
            "recovers": recovers
            and {
                **{"at": recovers, "d": _dim(chapter.main, recovers)},
                "times": [times[name][recovers] for name in names],
            },
        }
        return Observation(
            "surprise_worse_than_naive", chapter.name, facts, evidence(slower.values())
        )
    return None


def _moves(
    chapter: Chapter, names: Sequence[str], value: int, metric: str
) -> dict[str, Any] | None:
    """The DRAM traffic, in GB, of a slow pass and of the other fused ones that were counted.

    None unless one is slow alone and moves at least `MORE` times the bytes of each other.
    """
    section, variant = chapter.main.section, chapter.main.variant
    counted = {
        name: traffic["gigabytes"]
        for name in chapter.fused
        if (traffic := traffic_of(section, name, variant, value, metric)) is not None
    }
    if len(names) > 1 or names[0] not in counted or len(counted) < 3:
        return None
    others = [gigabytes for name, gigabytes in counted.items() if name != names[0]]
    if counted[names[0]] < MORE * max(others):
        return None
    return {"gigabytes": counted[names[0]], "others": [min(others), max(others)]}


def _dim(sweep: VariantSweep, value: int) -> int | None:
    """The head dimension at a value, where it varies along the sweep."""
    dims = head_dims(sweep.section, sweep.variant)
    return dims[value] if len(set(dims.values())) > 1 else None


def surprise_jump(chapter: Chapter) -> Observation | None:
    """A forward rate that jumps between neighbouring values, so that it overtakes another one."""
    section, variant = chapter.main.section, chapter.main.variant
    names = chapter.others
    if chapter.switch or len(names) < 3:
        return None
    rates = {name: section.medians("forward_rate", name, variant) for name in names}
    found: list[tuple[float, dict[str, Any], list[Speed]]] = []
    for before, after in itertools.pairwise(section.values(names, variant, "forward_rate")):
        rises = {name: rate[after] / rate[before] for name, rate in rates.items()}
        for name, rise in rises.items():
            typical = statistics.median(r for other, r in rises.items() if other != name)
            if rise < JUMP * typical:
                continue
            for other in names:
                speeds = section.speeds(FORWARD, name, variant, other) if other != name else {}
                ends = [speeds[v] for v in (before, after) if v in speeds]
                if [speed.verdict for speed in ends] == [SLOWER, FASTER]:
                    lost = _slower_until(speeds, before)
                    times = [section.medians(FORWARD, n, variant)[before] for n in (name, other)]
                    facts = {
                        **{"p": section.symbol, "before": before, "after": after, "name": name},
                        **{"over": other, "times": times, "jump": rise, "typical": typical},
                        "at": lost,
                        "always": len(lost) > 1 and lost[0] == section.experiment.values[0],
                    }
                    found.append((rise / typical, facts, ends))
    if not found:
        return None
    _, facts, rows = max(found, key=lambda each: each[0])
    return Observation("surprise_jump", chapter.name, facts, evidence(rows))


def _slower_until(speeds: Mapping[int, Speed], last: int) -> list[int]:
    """The values up to a last one, without a gap, at which it is decidedly slower."""
    found: list[int] = []
    for value in sorted((value for value in speeds if value <= last), reverse=True):
        if speeds[value].verdict != SLOWER:
            break
        found.insert(0, value)
    return found


def surprise_order(chapter: Chapter) -> Observation | None:
    """The fastest forward at the first value, which is more than 10% behind at the last one."""
    if chapter.switch:
        return None
    for sweep in chapter.sweeps:
        ranked = ranking_along(sweep.section, sweep.variant, FORWARD, chapter.others)
        if ranked.empty:
            continue
        values = sorted(ranked.value.unique())
        first, last = ranked[ranked.value == values[0]], ranked[ranked.value == values[-1]]
        best = first[first.verdict == choices.BEST].name.iat[0]
        alone = (first[first.name != best].verdict == choices.SLOWER).all()
        now = last[last.name == best]
        if now.empty or not alone or len(values) < 2 or not now.low.iat[0] > FAR_BEHIND:
            continue
        facts = {
            **{"p": sweep.section.symbol, "first": int(values[0]), "last": int(values[-1])},
            **{"name": best, "by": now.best.iat[0], "longer": float(now.behind.iat[0]) - 1},
            "project": chapter.groups.mine,
            "length": sweep.section.experiment.parameter.name == "seq_len",
        }
        return Observation("surprise_order", chapter.name, facts)
    return None
