"""Observations of a chapter on three or more implementations: the groups first, then the leaders.

A function for each observation, from the chapter's tables to the facts of its macro, or None where
its condition does not hold. Times are in ms, rates in the benchmark's unit, memory in MiB.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from flashlab.analysis import choices
from flashlab.story import words
from flashlab.story.attention.groups import Chapter, spread_of
from flashlab.story.attention.sweep import (
    FORWARD,
    MASK,
    MEMORY,
    OFF,
    ON,
    PASSES,
    TOTAL,
    head_dims,
    matrix_ceiling,
    memory_equal,
    operations,
    varies,
)
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

ALIKE = 3
"""Margins within which the growth of all implementations is told as one range."""


# What varies


def groups_varies(chapter: Chapter) -> Observation:
    """The swept and fixed sizes of a chapter, with and without the mask."""
    found = varies(chapter.first)
    if len(chapter.sections) == 1:
        return found
    facts, differs = {**found.facts}, dict[str, Any]()
    for parameter in chapter.first.benchmark.given:
        seen = {run[parameter.name] for each in chapter.sections for run in each.experiment.runs}
        if parameter.symbol in facts["fixed"] and len(seen) > 1:
            differs[parameter.symbol] = sorted(seen)
    masks = {run[MASK] for each in chapter.sections for run in each.experiment.runs}
    facts["fixed"] = {k: v for k, v in facts["fixed"].items() if k not in differs}
    facts["along"] = {**facts["along"], **differs}
    facts["mask"] = "each" if len(masks) > 1 else facts["mask"]
    return Observation("varies", chapter.name, facts)


# Time


def groups_time(chapter: Chapter) -> Observation | None:
    """The growth of both groups' total times from end to end, and the times at the last value."""
    section, variant, fused = chapter.main.section, chapter.main.variant, chapter.whole
    naive = chapter.naive
    if chapter.switch or naive is None or not fused:
        return None
    values = section.values(fused, variant, TOTAL)
    if len(values) < 2:
        return None
    first, last = values[0], values[-1]
    stored = _at_both(section, variant, chapter.stored, TOTAL, (first, last))
    times = {n: section.medians(TOTAL, n, variant) for n in [*stored, *fused]}
    factors = {name: each[last] / each[first] for name, each in times.items()}
    work = operations(section, variant, values)
    swept = section.experiment.values
    grown = {n: section.growth(TOTAL, n, variant, last) for n in times}
    dims = [head_dims(section, variant)[value] for value in (first, last)]
    facts: dict[str, Any] = {
        **{
            "p": section.symbol,
            "first": first,
            "last": last,
            "naive": naive if naive in stored else None,
        },
        "operations": work[last] / work[first],
        "masked": chapter.is_half and variant == ON,
        "d": dims if dims[0] != dims[1] else None,
        "stored": [
            {"name": name, "total": times[name][last], "factor": factors[name]} for name in stored
        ],
        "total": spread_of({name: times[name][last] for name in fused}),
        "growth": spread_of({name: factors[name] for name in fused}),
        "alike": max(factors.values()) / min(factors.values()) <= words.margins(ALIKE),
        "range": span([*factors.values()]),
        "count": len(times),
        "keeps_up": {words.growth(each, work[last] / work[first]) for each in grown.values()}
        <= {"as operations", "near"},
        "turns": turning(chapter, fused),
        "no_faster": _no_faster(section, variant, fused, swept),
        "without": [name for name in chapter.fused if name not in fused],
        "reached": None
        if naive in stored or chapter.is_half
        else _reached(section, variant, naive, fused),
    }
    apart = facts["growth"]["apart"]
    if apart:  # and what it comes to, beside the others
        facts["growth"]["apart"] = {**apart, "total": times[apart["name"]][last]}
        rest = [times[name][last] for name in fused if name != apart["name"]]
        facts["total"] = {"count": len(rest), "range": span(rest), "apart": None}
    return Observation("groups_time", chapter.name, facts, evidence(grown.values()))


def _reached(
    section: Section, variant: str, naive: str, fused: Sequence[str]
) -> dict[str, Any] | None:
    """The naive one's total at the last value that it has, and those of the fused there."""
    times = section.medians(TOTAL, naive, variant)
    if not times:
        return None
    at = max(times)
    others = [section.medians(TOTAL, name, variant).get(at) for name in fused]
    if not (known := [time for time in others if time is not None]):
        return None
    return {"name": naive, "at": at, "total": times[at], "fused": span(known)}


def _at_both(
    section: Section, variant: str, names: Sequence[str], metric: str, ends: Sequence[int]
) -> list[str]:
    """Those of these implementations that have a metric at both ends."""
    return [n for n in names if {*ends} <= section.medians(metric, n, variant).keys()]


def turning(chapter: Chapter, names: Sequence[str]) -> list[list[str]]:
    """The pairs of which one is decidedly faster in total at one value and slower at another."""
    section, variant = chapter.main.section, chapter.main.variant
    return [
        [one, other]
        for one, other in itertools.combinations(names, 2)
        if {FASTER, SLOWER}
        <= {speed.verdict for speed in section.speeds(TOTAL, one, variant, other).values()}
    ]


def _no_faster(
    section: Section, variant: str, names: Sequence[str], values: Sequence[int]
) -> dict[str, Any] | None:
    """Those that at the first value, with less work, are shown no faster than at the next."""
    if len(values) < 2:
        return None
    first, second = values[:2]
    work = operations(section, variant, [first, second])
    if work[second] < 1.5 * work[first]:
        return None
    found = []
    for name in names:
        step = section.step(TOTAL, name, variant, second)
        if step is not None and step.low is not None and step.low > 1 / words.margins(1):
            times = section.medians(TOTAL, name, variant)
            found.append({"name": name, "times": [times[first], times[second]]})
    share = work[first] / work[second]
    return {"at": [first, second], "of": found, "share": share} if found else None


def groups_growth(chapter: Chapter) -> Observation | None:
    """The growth of the totals, but of a sweep of head dimensions at equal operations."""
    return groups_time(chapter) if groups_head_dim(chapter) is None else None


def groups_head_dim(chapter: Chapter) -> Observation | None:
    """At equal operations, at which head dimension each fused one is fastest and slowest."""
    section, variant = chapter.main.section, chapter.main.variant
    values = section.experiment.values
    if chapter.switch or section.experiment.parameter.name != "num_heads" or len(values) < 2:
        return None
    work = operations(section, variant, values)
    dims = head_dims(section, variant)
    if max(work.values()) / min(work.values()) > 1.01 or len(set(dims.values())) < 2:
        return None
    found: dict[str, dict[str, Any]] = {}
    for name in chapter.fused:
        times = section.medians(TOTAL, name, variant)
        best, worst = (choose(times, key=times.__getitem__) for choose in (min, max))
        found[name] = {
            "best": dims[best],
            "worst": dims[worst],
            "ratio": times[worst] / times[best],
        }
    if not found:
        return None
    best = _most_common([each["best"] for each in found.values()])
    worst = _most_common([each["worst"] for each in found.values()])
    ratios = {name: each["ratio"] for name, each in found.items()}
    naive, growth = chapter.naive, None
    if naive:
        times = section.medians(TOTAL, naive, variant)
        ends = sorted(times)
        growth = {"at": [ends[0], ends[-1]], "factor": times[ends[-1]] / times[ends[0]]}
    facts = {
        **{"p": section.symbol, "count": len(found), "best": best, "worst": worst},
        "at_best": [name for name, each in found.items() if each["best"] == best],
        "best_elsewhere": [
            {"name": name, "d": each["best"]}
            for name, each in found.items()
            if each["best"] != best
        ],
        "worst_elsewhere": [
            {"name": name, "d": each["worst"]}
            for name, each in found.items()
            if each["worst"] != worst
        ],
        "ratios": span([*ratios.values()]),
        "least": min(ratios, key=ratios.__getitem__),
        "most": max(ratios, key=ratios.__getitem__),
        **{"naive": naive, "naive_growth": growth},
    }
    return Observation("groups_head_dim", chapter.name, facts)


def _most_common(values: Sequence[int]) -> int:
    return max(sorted(set(values)), key=values.count)


# The mask


def mask_effects(chapter: Chapter) -> tuple[dict[str, Any], list[Speed]] | None:
    """The mask's effect on both groups' totals at the last and the first length, and its rows."""
    section = chapter.first
    if not chapter.switch or not chapter.fused:
        return None
    every = {n: section.switched(MASK, TOTAL, n, ON) for n in [*chapter.stored, *chapter.fused]}
    total = {name: each for name, each in every.items() if each}
    stored, names = ([n for n in of if n in total] for of in (chapter.stored, chapter.fused))
    if not names:
        return None
    common = sorted(set.intersection(*({*each} for each in total.values())))
    if not common:
        return None
    first, last = common[0], common[-1]
    fused = {name: total[name][last] for name in names}
    x = {name: speed.x for name, speed in fused.items()}
    facts = {
        **{"p": section.symbol, "first": first, "last": last, "count": len(fused)},
        "faster": [name for name, speed in fused.items() if speed.verdict == FASTER],
        "x": span([*x.values()]),
        "most": {"name": (most := max(x, key=x.__getitem__)), "x": x[most]},
        "faster_first": [n for n in names if total[n][first].verdict == FASTER],
        "stored": [{"name": name, **total[name][last].facts} for name in stored],
        "stored_x": span([total[name][last].x for name in stored] or [1.0]),
        "stored_verdict": _shared_verdict([total[name][last] for name in stored]),
        "same_memory": memory_equal(section) is not None,
    }
    rows = [total[name][at] for name in total for at in (first, last)]
    return facts, rows


def _shared_verdict(speeds: Sequence[Speed]) -> str | None:
    """The verdict that all of them have; None where they differ or there are none."""
    verdicts = {speed.verdict for speed in speeds}
    return verdicts.pop() if len(verdicts) == 1 else None


def groups_switch(chapter: Chapter) -> Observation | None:
    """The mask's effect on time: on the fused ones in total, on those that store scores by pass."""
    found = mask_effects(chapter)
    if found is None:
        return None
    facts, rows = found
    section, stored = chapter.first, []
    for name in [each["name"] for each in facts["stored"]]:
        by_pass = {}
        for key, metric in PASSES.items():
            speed = section.switched(MASK, metric, name, ON).get(facts["last"])
            if speed is None:
                return None
            rows.append(speed)
            by_pass[key] = speed.facts
        stored.append({"name": name, **by_pass})
    verdicts = {each["verdict"] for each in facts["stored"]}
    facts = {**facts, "stored": stored, "slower": verdicts == {SLOWER}}
    return Observation("groups_switch", chapter.name, facts, evidence(rows))


# Who leads


def leaders_section(chapter: Chapter) -> Observation | None:
    """The leaders of each pass along the sweep, and the project's own kernel against them."""
    others = chapter.others
    if len(others) < 2:
        return None
    section, variant = chapter.main.section, ON if chapter.switch else chapter.main.variant
    passes = {
        key: _runs(ranking_along(section, variant, metric, others))
        for key, metric in PASSES.items()
    }
    if not all(passes.values()):
        return None
    facts = {
        **{"p": section.symbol, "passes": passes, "of": len(section.experiment.values)},
        "mask": variant == ON,
        "project": _project(chapter, section, variant),
    }
    return Observation("leaders_section", chapter.name, facts)


def ranking_along(
    section: Section, variant: str, metric: str, names: Sequence[str]
) -> pd.DataFrame:
    """The ranking of some implementations along one sweep, with its ``value``s."""
    table = section.tables.comparisons
    mine = table[(table.experiment == section.name) & (table.variant == variant)]
    ranked = choices.ranking(mine, metric, names)
    return ranked.assign(value=ranked[section.experiment.parameter.name])


def _runs(ranked: pd.DataFrame) -> list[dict[str, Any]]:
    """Neighbouring values at which the same ones lead, with how they do.

    ``names`` are at each of the values the best, within its margin or not told apart from it, the
    best at the first value first; ``alone``: the one is decidedly faster than all others, by
    ``lead``, at each; ``equal``: none of them is undecided.
    """
    if ranked.empty:
        return []
    found: list[dict[str, Any]] = []
    for value in sorted(map(int, ranked.value.unique())):
        group = ranked[ranked.value == value]
        suits = group[group.verdict != choices.SLOWER]
        nexts = float(group[group.verdict != choices.BEST].behind.min())
        alone = len(suits) == 1
        here: dict[str, Any] = {
            **{"values": [value], "names": [*suits.name], "alone": alone},
            **{"equal": choices.UNDECIDED not in set(suits.verdict), "lead": [nexts, nexts]},
        }
        last = found[-1] if found else None
        common = [name for name in last["names"] if name in here["names"]] if last else []
        if last and common and last["names"][0] in common and last["alone"] == alone:
            last["values"].append(value)
            last["names"] = common
            last["equal"] &= here["equal"]
            last["lead"] = [min(last["lead"][0], nexts), max(last["lead"][1], nexts)]
        else:
            found.append(here)
    return found


def _project(chapter: Chapter, section: Section, variant: str) -> dict[str, Any] | None:
    """By pass how many times as fast as the best of the others the project's own kernel is."""
    mine = chapter.groups.mine
    if mine is None or mine not in chapter.fused:
        return None
    found: dict[str, Any] = {"name": mine}
    for key, metric in PASSES.items():
        ranked = ranking_along(section, variant, metric, chapter.others)
        best = ranked[ranked.verdict == choices.BEST]
        speeds = {
            int(value): speed
            for value, name in zip(best.value, best.name, strict=True)
            if (speed := section.speeds(metric, mine, variant, name).get(int(value)))
        }
        if not speeds:
            return None
        found[key] = {
            "x": speed_span(speeds.values()),
            "of": len(speeds),
            **{
                verdict: sorted(v for v, speed in speeds.items() if speed.verdict == verdict)
                for verdict in (FASTER, SLOWER)
            },
        }
    return found


# Rate


def groups_rate(chapter: Chapter) -> Observation | None:
    """The forward rates at both ends of the sweep: of the best, the project's own and the naive."""
    section, variant = chapter.main.section, chapter.main.variant
    if chapter.switch:
        return None
    values = section.values(chapter.whole, variant, "forward_rate")
    if len(values) < 2:
        return None
    at = [values[0], values[-1]]
    stored = _at_both(section, variant, chapter.stored, "forward_rate", at)
    names = [*stored, *chapter.whole]
    rates = {n: [section.medians("forward_rate", n, variant)[v] for v in at] for n in names}
    others = [n for n in chapter.others if n in chapter.whole] or chapter.whole
    best = max(others, key=lambda name: rates[name][1])
    shown = [best, *([mine] if (mine := chapter.groups.mine) in rates else []), *stored[:1]]
    facts = {
        **{"p": section.symbol, "at": at, "unit": section.benchmark.rate_unit},
        "rates": [{"name": name, "rate": rates[name]} for name in dict.fromkeys(shown)],
        "ceiling": matrix_ceiling(section),
    }
    grown = [section.growth(FORWARD, name, variant, at[1]) for name in names]
    return Observation("groups_rate", chapter.name, facts, evidence(grown))


def groups_rate_definition(chapter: Chapter) -> Observation | None:
    """That all rates fall with the mask, since their operations are halved by definition."""
    section, names = chapter.first, [*chapter.stored, *chapter.fused]
    if not chapter.switch:
        return None
    values = [
        v for v in section.values(names, ON, FORWARD) if v in section.values(names, OFF, FORWARD)
    ]
    if not values:
        return None
    last = values[-1]
    rates = {
        name: [section.medians("forward_rate", name, variant)[last] for variant in (OFF, ON)]
        for name in names
    }
    if any(on >= off for off, on in rates.values()):
        return None
    best = max(chapter.others or chapter.fused, key=lambda name: rates[name][0])
    shown = [best, *chapter.stored[:1]]
    facts = {
        **{"p": section.symbol, "last": last, "unit": section.benchmark.rate_unit},
        "rates": [{"name": name, "rate": rates[name]} for name in shown],
    }
    return Observation("groups_rate_definition", chapter.name, facts)


# Memory


def memory_at(section: Section, name: str, variant: str, value: int) -> float | None:
    """The peak memory of a run in MiB; None where it has none."""
    return section.medians(MEMORY, name, variant).get(value)


def groups_memory(chapter: Chapter) -> Observation | None:
    """The growth of both groups' exact peak memory, and the fused one that takes least."""
    section, variant, fused = chapter.main.section, chapter.main.variant, chapter.whole
    naive = chapter.naive
    if chapter.switch or naive is None or not fused:
        return None
    values = section.values(fused, variant, MEMORY)
    if len(values) < 2:
        return None
    stored = _at_both(section, variant, chapter.stored, MEMORY, (values[0], values[-1]))
    names = [*stored, *fused]
    known = {n: section.medians(MEMORY, n, variant) for n in names}
    sizes = {n: [each[v] for v in values if v in each] for n, each in known.items()}
    factors = {name: each[-1] / each[0] for name, each in sizes.items()}
    least = min(fused, key=lambda name: sizes[name][-1])
    growths = {
        n: words.memory_growth([v for v in values if v in known[n]], sizes[n]) for n in names
    }
    step = (values[-1] - values[0]) or 1
    alike = {growths[name] for name in stored}
    facts = {
        **{
            "p": section.symbol,
            "first": values[0],
            "last": values[-1],
            "naive": naive if naive in stored else None,
        },
        "stored": [
            {
                **{"name": name, "factor": factors[name], "growth": growths[name]},
                "adds": (sizes[name][-1] - sizes[name][0]) / step,
            }
            for name in stored
        ],
        "fused": {
            **spread_of({name: factors[name] for name in fused}),
            "whole": span([factors[name] for name in fused]),
            "last": span([sizes[name][-1] for name in fused]),
        },
        "stored_growth": alike.pop() if len(alike) == 1 else None,
        "steady": sum(growths[name] == "constant" for name in fused) * 2 > len(fused),
        "more": [
            {"name": name, "share": factors[name] - 1}
            for name in sorted(fused, key=lambda name: -factors[name])
            if factors[name] > words.margins(1)
        ],
        "least": None
        if max(each[-1] for n, each in sizes.items() if n in fused) < 1.01 * sizes[least][-1]
        else {"name": least, "size": sizes[least][-1]},
    }
    return Observation("groups_memory", chapter.name, facts)


# Packed inputs


def packed(chapter: Chapter) -> Observation | None:
    """The comparisons of packed inputs with separate ones, by verdict."""
    section, counts, rows = chapter.first, dict[str, int](), list[Speed]()
    changed: list[dict[str, Any]] = []
    for name, of in chapter.packed.items():
        for key, metric in PASSES.items():
            for variant in section.variants:
                for value, speed in section.speeds(metric, name, variant, of).items():
                    rows.append(speed)
                    counts[speed.verdict] = counts.get(speed.verdict, 0) + 1
                    if speed.is_decided:
                        about = {"name": of, "pass": key, "p": section.symbol, "at": value}
                        changed.append({**about, "x": speed.x, "verdict": speed.verdict})
    if not rows:
        return None
    facts = {
        **{"names": [*chapter.packed.values()], "of": len(rows), "changed": changed},
        "counts": {
            verdict: counts.get(verdict, 0) for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED)
        },
        **{"x": speed_span(rows), "p": section.symbol},
        "values": section.experiment.values,
    }
    return Observation("packed", chapter.name, facts, evidence(rows))


# What to remember


def groups_take(chapter: Chapter) -> Observation | None:
    """The lesson of a chapter, chosen by the swept parameter and by verdicts."""
    section, swept = chapter.first, chapter.first.experiment.parameter.name
    if chapter.naive is None or not chapter.fused:
        return None
    if chapter.switch:
        return _take_mask(chapter)
    base: dict[str, Any] = {"p": section.symbol, "naive": chapter.naive}
    if swept == "batch_size" and _always_best(chapter):
        return Observation("groups_take", chapter.name, {**base, "lesson": "batch"})
    if swept == "seq_len" and (found := _take_long(chapter)):
        facts = {**base, **found, "lesson": "long", "masked": _take_masked(chapter, found)}
        return Observation("groups_take", chapter.name, facts)
    if swept == "num_heads" and (found := _take_heads(chapter)):
        return Observation("groups_take", chapter.name, {**base, **found, "lesson": "heads"})
    speeds = {n: section.speeds(TOTAL, n, chapter.main.variant) for n in chapter.fused}
    within = [
        name for name, each in speeds.items() if {s.verdict for s in each.values()} == {FASTER}
    ]
    time = groups_time(chapter)
    odd = time and (time.facts["growth"]["apart"] or time.facts["total"]["apart"])
    out = [name for name in speeds if name not in within or (odd and name == odd["name"])]
    within = [name for name in within if name not in out]
    if not within or len(out) > 2:
        return None
    gains = [speed.x for name in within for speed in speeds[name].values()]
    medians = [section.medians(TOTAL, name, chapter.main.variant) for name in within]
    times = [
        [each[value] for each in medians if value in each] for value in section.experiment.values
    ]
    times = [each for each in times if each]
    choice = max((max(each) / min(each) for each in times), default=1.0)
    further = choice if choice > words.margins(1) else None
    facts = {**base, "lesson": "groups", "x": span(gains), "without": out, "choice": further}
    rows = [speed for name in within for speed in speeds[name].values()]
    return Observation("groups_take", chapter.name, facts, evidence(rows))


def _always_best(chapter: Chapter) -> list[str]:
    """The fused ones that are the best in total, or decidedly within its margin, at every value."""
    ranked = ranking_along(chapter.main.section, chapter.main.variant, TOTAL, chapter.fused)
    suits = ranked[ranked.verdict.isin([choices.BEST, choices.EQUAL])]
    found = suits.groupby("name", sort=False)["value"].nunique()
    return [str(name) for name in found[found == ranked["value"].nunique()].index]


def _take_long(chapter: Chapter) -> dict[str, Any] | None:
    """The leaders in total at the end of a sweep of long sequences, and from which length on."""
    section, variant = chapter.main.section, chapter.main.variant
    if not chapter.is_long or len(chapter.others) < 2:
        return None
    runs = _runs(ranking_along(section, variant, TOTAL, chapter.others))
    if not runs:
        return None
    last = runs[-1]
    values = [value for value in last["values"] if value >= words.LONG]
    return {**last, "from": values[0]} if values else None


def _take_masked(chapter: Chapter, full: dict[str, Any]) -> dict[str, Any] | None:
    """The same with the mask, and ``same``: they are those without it; None without that half."""
    found = next((found for half in chapter.halves if (found := _take_long(half))), None)
    if found is None:
        return None
    same = (set(found["names"]), found["from"]) == (set(full["names"]), full["from"])
    return {**found, "same": same}


def _take_mask(chapter: Chapter) -> Observation | None:
    """The leads of the fused ones over the naive one that the mask widens at the last length."""
    section = chapter.first
    off, on = (
        {n: section.speeds(TOTAL, n, variant) for n in chapter.fused} for variant in (OFF, ON)
    )
    common = sorted(set.intersection(*({*e} for each in (off, on) for e in each.values())))
    if not common:
        return None
    last = common[-1]
    widened = {
        name: (off[name][last], on[name][last])
        for name in chapter.fused
        if off[name][last].verdict == FASTER
        and (on[name][last].low or 0) > (off[name][last].high or math.inf) * words.margins(2)
    }
    if not widened:
        return None
    odd = spread_of({name: each[1].x for name, each in widened.items()})["apart"]
    inside = [each for name, each in widened.items() if odd is None or name != odd["name"]]
    facts = {
        **{"p": section.symbol, "lesson": "mask", "last": last, "naive": chapter.naive},
        "count": len(inside),
        "x": [span([each[0].x for each in inside]), span([each[1].x for each in inside])],
        "without": [name for name in chapter.fused if name not in widened]
        + ([odd["name"]] if odd else []),
    }
    rows = [speed for each in widened.values() for speed in each]
    return Observation("groups_take", chapter.name, facts, evidence(rows))


NEAR_BEST = 1.3
"""Within what factor of its fastest head dimension each fused implementation is to be."""


def _take_heads(chapter: Chapter) -> dict[str, Any] | None:
    """The head dimensions at which most of the fused are near their best, and what others cost."""
    section, variant = chapter.main.section, chapter.main.variant
    dims = head_dims(section, variant)
    cost: dict[int, dict[str, float]] = {d: {} for d in dims.values()}
    for name in chapter.fused:
        times = section.medians(TOTAL, name, variant)
        best = min(times.values(), default=math.inf)
        for value, time in times.items():
            cost[dims[value]][name] = time / best
    good = sorted(d for d, each in cost.items() if each and max(each.values()) <= NEAR_BEST)
    bad = sorted(d for d, each in cost.items() if each and d not in good)
    if not good or not bad:
        return None
    worst = {d: max(cost[d], key=cost[d].__getitem__) for d in bad}
    return {
        "good": good,
        "within": math.ceil(100 * (max(max(cost[d].values()) for d in good) - 1)) / 100,
        "bad": [{"d": d, "name": worst[d], "factor": cost[d][worst[d]]} for d in bad],
    }
