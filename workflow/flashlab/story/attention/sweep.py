"""Observations of a section on two implementations: time, rate and memory along its sweep.

A function for each observation, from the section's tables to the facts of its macro, or None where
its condition does not hold. Speeds are those of the other implementation over the baseline;
times are in ms, rates in the benchmark's unit, memory in MiB.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from flashlab.story import words
from flashlab.story.observation import Observation
from flashlab.story.tables import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Section,
    Speed,
    evidence,
    speed_span,
    without_odd,
)

FORWARD, BACKWARD, TOTAL = "forward_time", "backward_time", "forward_backward_time"
PASSES = {"forward": FORWARD, "backward": BACKWARD}
MEMORY = "peak_memory"
MASK = "causal"
OFF, ON = "causal=false", "causal=true"


def pair(section: Section) -> tuple[str, str] | None:
    """The baseline and the only other implementation that has numbers; None for other sections."""
    able = [name for name in section.implementations if _has_numbers(section, name)]
    return (able[0], able[1]) if len(able) == 2 and able[0] == section.baseline else None


def _has_numbers(section: Section, name: str) -> bool:
    return any(section.medians(FORWARD, name, variant) for variant in section.variants)


def is_switch(section: Section) -> bool:
    """True of a section that compares the mask on and off."""
    return section.variants == [OFF, ON]


def variant_of(section: Section) -> str:
    """The variant of a sweep; in a section on the mask, the one without it."""
    return section.variants[0]


def ends(section: Section, names: Sequence[str], variant: str) -> tuple[int, int] | None:
    """The first and the last value at which all have times; None for fewer than two."""
    values = section.values(names, variant, TOTAL)
    return (values[0], values[-1]) if len(values) > 1 else None


def operations(section: Section, variant: str, values: Sequence[int]) -> dict[int, float]:
    """The operations of a forward pass at values of the sweep."""
    work = section.benchmark.metric(FORWARD).work
    assert work is not None
    by_value = {}
    for value in values:
        runs = (section.run(name, variant, value) for name in section.implementations)
        by_value[value] = work.operations(next(run for run in runs if run is not None))
    return by_value


def head_dims(section: Section, variant: str) -> dict[int, int]:
    """The head dimension by value of the sweep."""
    return {
        value: int(run["head_dim"])
        for value in section.experiment.values
        for name in section.implementations
        if (run := section.run(name, variant, value))
    }


def sizes_of(section: Section, variant: str) -> dict[str, Any]:
    """The swept values and the fixed ones, with the head dimensions where they vary."""
    experiment = section.experiment
    rows = [run for run in experiment.runs if section_variant(section, run) == variant]
    along: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    for parameter in experiment.stated:
        if parameter == experiment.parameter or parameter.name == MASK:
            continue
        by_value = {experiment.value_of(run): run[parameter.name] for run in rows}
        several = [by_value[value] for value in sorted(by_value)]
        if len(set(several)) > 1:
            along[parameter.symbol] = several
        else:
            fixed[parameter.symbol] = several[0]
    return {"fixed": fixed, "along": along}


def section_variant(section: Section, run: Any) -> str:
    """The variant of a run, as comparisons.csv has it."""
    return f"{MASK}={str(run[MASK]).lower()}"


# What varies


def necessary(length: int) -> float:
    """The share of the operations on N × N scores that a causal mask leaves: (N + 1) / 2N."""
    return (length + 1) / (2 * length)


def varies(section: Section) -> Observation:
    """The swept and the fixed sizes, and the factor by which the operations grow."""
    variant = variant_of(section)
    values = section.experiment.values
    work = operations(section, variant, values)
    facts = {
        "p": section.symbol,
        "values": values,
        "factor": values[-1] / values[0],
        "operations": work[values[-1]] / work[values[0]],
        "mask": "both" if is_switch(section) else variant == ON,
        "necessary": [necessary(values[0]), necessary(values[-1])] if is_switch(section) else None,
        **sizes_of(section, variant),
    }
    return Observation("varies", section.name, facts)


# Time


def time_growth(section: Section) -> Observation | None:
    """The growth of both times from end to end and in the last step, beside the operations'."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    values = section.values(names, variant, TOTAL)
    if len(values) < 2:
        return None
    first, before, last = values[0], values[-2], values[-1]
    work = operations(section, variant, values)
    facts: dict[str, Any] = {
        **{"p": section.symbol, "first": first, "last": last},
        **{"base": names[0], "new": names[1]},
        "operations": work[last] / work[first],
        "last_operations": work[last] / work[before],
        "steps": len(values) - 1,
    }
    rows: list[Speed | None] = []
    for key, metric in {**PASSES, "total": TOTAL}.items():
        times = {name: section.medians(metric, name, variant) for name in names}
        grown = {name: section.growth(metric, name, variant, last) for name in names}
        rows += grown.values()
        facts[key] = {
            role: {
                "first": times[name][first],
                "last": times[name][last],
                "factor": times[name][last] / times[name][first],
                "last_step": times[name][last] / times[name][before],
                "about": _is_wide(grown[name]),
                "last_about": _is_wide(section.step(metric, name, variant, last)),
            }
            for role, name in zip(("base", "new"), names, strict=True)
        }
    facts["fastest"] = _fastest(section, TOTAL, names[1], variant, values)
    both = [facts["total"][role] for role in ("base", "new")]
    facts["keeps_up"] = _shared(
        words.growth(section.growth(TOTAL, name, variant, last), facts["operations"])
        for name in names
    )
    facts["last_keeps_up"] = _shared(
        words.growth(section.step(TOTAL, name, variant, last), facts["last_operations"])
        for name in names
    )
    alike = facts["keeps_up"] in ("as operations", "near") and not any(e["about"] for e in both)
    facts["starts_lower"] = alike and _starts_lower(section, names, variant, first, both)
    facts["slower_before"] = (
        [] if facts["keeps_up"] == "alone" else _slower_before(section, names, variant, values)
    )
    facts["activity"] = _activity(section, names[1], variant, first, last)
    return Observation("time_growth", section.name, facts, evidence(rows))


def _is_wide(grown: Speed | None) -> bool:
    """True of a growth, or a step of it, that is known to no better than ±5%."""
    if grown is None or grown.low is None or grown.high is None:
        return True
    return grown.high / grown.low > words.margins(2)


def _shared(growths: Iterable[str]) -> str:
    """The word for both growths if they are alike, else ``not decided``."""
    distinct = set(growths)
    return distinct.pop() if len(distinct) == 1 else words.NOT_DECIDED


def _starts_lower(
    section: Section, names: tuple[str, str], variant: str, first: int, grown: Sequence[Any]
) -> bool:
    """True if both grow alike (within 10%), and the other one starts at least twice as fast."""
    factors = sorted(each["factor"] for each in grown)
    speed = section.speeds(TOTAL, names[1], variant).get(first)
    alike = factors[-1] / factors[0] <= 1.1 and factors[0] > 1
    return alike and speed is not None and speed.verdict == FASTER and speed.x >= 2


def _fastest(
    section: Section, metric: str, name: str, variant: str, values: Sequence[int]
) -> dict[str, Any] | None:
    """The fastest value, if decidedly faster than the one before it; None if it is the first."""
    times = section.medians(metric, name, variant)
    best = min(values, key=times.__getitem__)
    worst = max(values, key=times.__getitem__)
    if best in (values[0], worst):
        return None
    step = section.step(metric, name, variant, best)
    if step is None or step.verdict != FASTER:
        return None
    return {"at": best, "worst": worst, "slower_by": times[worst] / times[best] - 1}


def _slower_before(
    section: Section, names: Sequence[str], variant: str, values: Sequence[int]
) -> list[dict[str, Any]]:
    """Implementations that take decidedly longer at the first value than at the larger second."""
    slower = []
    for name in names:
        step = section.step(TOTAL, name, variant, values[1])
        if step is not None and step.verdict == FASTER:
            times = section.medians(TOTAL, name, variant)
            at = list(values[:2])
            slower.append({"name": name, "at": at, "times": [times[value] for value in at]})
    return slower


def _activity(section: Section, name: str, variant: str, first: int, last: int) -> Any:
    """The share of the forward with active Tensor Cores at both ends; None if not counted."""
    shares = []
    for value in (first, last):
        run = section.run(name, variant, value)
        counted = section.experiment.counters_of(run, FORWARD) if run else {}
        if "matrix_activity" not in counted:
            return None
        shares.append(counted["matrix_activity"] / 100)
    return shares


def passes_of(section: Section, name: str, variant: str) -> dict[str, dict[int, Speed]]:
    """The speed-ups of each pass and of the total, along the sweep."""
    every = {**PASSES, "total": TOTAL}
    return {key: section.speeds(metric, name, variant) for key, metric in every.items()}


def passes_differ(speeds: dict[str, dict[int, Speed]]) -> bool:
    """True if the passes have opposite decided verdicts somewhere in the sweep."""
    decided = [{s.verdict for s in speeds[key].values()} & {FASTER, SLOWER} for key in PASSES]
    forward, backward = decided
    return any({one, other} == {FASTER, SLOWER} for one in forward for other in backward)


def time_lead(section: Section) -> Observation | None:
    """The lead of the other implementation along the sweep, with the word for its change."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    speeds = passes_of(section, names[1], variant)
    if len(speeds["total"]) < 2 or passes_differ(speeds):
        return None
    total = without_odd(speeds["total"])
    odd = sorted(speeds["total"].keys() - total.keys())
    speeds = {k: {v: s for v, s in each.items() if v in total} for k, each in speeds.items()}
    values = sorted(total)
    best, worst = (choose(values, key=lambda v: total[v].x) for choose in (max, min))
    verdicts = {speed.verdict for speed in total.values()}
    pooled = section.pooled(TOTAL, names[1], variant)
    facts = {
        "p": section.symbol,
        "lead": words.lead(total),
        "verdict": verdicts.pop() if len(verdicts) == 1 else "mixed",
        "range": {key: speed_span(each.values()) for key, each in speeds.items()},
        "ends": {key: [each[v].x for v in (values[0], values[-1])] for key, each in speeds.items()},
        "best": {"at": best, **{key: each[best].x for key, each in speeds.items()}},
        "worst": {"at": worst, **{key: each[worst].x for key, each in speeds.items()}},
        "undecided": [v for v in values if total[v].verdict == UNDECIDED],
        "decided": {key: decided_of(speeds[key]) for key in PASSES},
        **{"of": len(values), "odd": odd},
        "pooled": pooled.facts if pooled else None,
    }
    rows = [speed for each in speeds.values() for speed in each.values()]
    return Observation("time_lead", section.name, facts, evidence(rows))


def time_passes(section: Section) -> Observation | None:
    """The passes apart, where one is faster and the other slower somewhere in the sweep."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    speeds = passes_of(section, names[1], variant)
    if not passes_differ(speeds):
        return None
    pooled = section.pooled(TOTAL, names[1], variant)
    facts = {
        "p": section.symbol,
        "new": names[1],
        "values": sorted(speeds["forward"]),
        "passes": {key: by_verdict(each) for key, each in speeds.items()},
        "pooled": pooled.facts if pooled else None,
    }
    rows = [speed for each in speeds.values() for speed in each.values()]
    return Observation("time_passes", section.name, facts, evidence(rows))


def by_verdict(speeds: dict[int, Speed]) -> dict[str, Any]:
    """The values of the sweep with each verdict that occurs, and the range of their speed-ups."""
    facts: dict[str, Any] = {}
    for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED):
        mine = {value: speed for value, speed in speeds.items() if speed.verdict == verdict}
        if mine:
            facts[verdict] = {"at": sorted(mine), "x": speed_span(mine.values())}
    return facts


def decided_of(speeds: dict[int, Speed]) -> dict[str, Any]:
    """The values at which a pass is decidedly faster or slower, with its speeds."""
    facts = by_verdict(speeds)
    return {verdict: facts[verdict] for verdict in (FASTER, SLOWER) if verdict in facts}


def time_switch(section: Section) -> Observation | None:
    """The mask's effect on the time of both, by pass, at the ends of the sweep."""
    names = pair(section)
    if names is None or not is_switch(section):
        return None
    effects: dict[str, dict[str, Any]] = {}
    rows: list[Speed] = []
    for role, name in zip(("base", "new"), names, strict=True):
        effects[role] = {}
        for key, metric in PASSES.items():
            speeds = section.switched(MASK, metric, name, ON)
            if not speeds:
                return None
            rows += speeds.values()
            effects[role][key] = switch_facts(section, metric, name, speeds)
    values = sorted(section.switched(MASK, FORWARD, names[1], ON))
    facts = {
        **{"p": section.symbol, "first": values[0], "last": values[-1]},
        **{"base": names[0], "new": names[1], "effects": effects},
    }
    return Observation("time_switch", section.name, facts, evidence(rows))


def switch_facts(
    section: Section, metric: str, name: str, speeds: dict[int, Speed]
) -> dict[str, Any]:
    """The mask's effect on one pass: at both ends, by verdict, pooled, and whether it rises."""
    values = sorted(speeds)
    pooled = section.switched_pooled(MASK, metric, name, ON)
    ordered = [speeds[value] for value in values]
    rising = len(values) > 1 and all(
        after.low is not None and before.high is not None and after.low > before.high
        for before, after in itertools.pairwise(ordered)
    )
    verdicts = {speed.verdict for speed in ordered}
    return {
        "first": speeds[values[0]].facts,
        "last": speeds[values[-1]].facts,
        "verdict": verdicts.pop() if len(verdicts) == 1 else "mixed",
        "by_verdict": by_verdict(speeds),
        "rising": rising,
        "pooled": pooled.facts if pooled else None,
    }


# Rate


def rate_growth(section: Section) -> Observation | None:
    """The rates of both forward passes at both ends, and their share of the measured ceiling."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section) or (at := ends(section, names, variant)) is None:
        return None
    work = operations(section, variant, at)
    rates = {
        role: [section.medians("forward_rate", name, variant)[value] for value in at]
        for role, name in zip(("base", "new"), names, strict=True)
    }
    changed = {role: rate[1] / rate[0] for role, rate in rates.items()}
    facts = {
        **{"base": names[0], "new": names[1]},
        **{"unit": section.benchmark.rate_unit, "rates": rates, "changed": changed},
        "equal_work": abs(work[at[1]] / work[at[0]] - 1) < 1e-9,
        "ceiling": matrix_ceiling(section),
    }
    grown = [section.growth(FORWARD, name, variant, at[1]) for name in names]
    return Observation("rate_growth", section.name, facts, evidence(grown))


def matrix_ceiling(section: Section) -> float | None:
    """The measured rate of matrix products in the section's number format, in its unit of rate."""
    ceilings = section.tables.ceilings
    dtypes = {run["dtype"] for run in section.experiment.runs}
    names = {run["device_name"] for run in section.experiment.runs if run["status"] == "ok"}
    if ceilings is None or len(dtypes) > 1 or names != {ceilings.device_name}:
        return None
    ceiling = ceilings.matrix.get(dtypes.pop())
    scale = {"TFLOP/s": 1e12, "GFLOP/s": 1e9}[section.benchmark.rate_unit]
    return ceiling.rate / scale if ceiling else None


def rate_definition(section: Section) -> Observation | None:
    """Rates that fall with the mask, since it halves the operations by definition."""
    names = pair(section)
    if names is None or not is_switch(section):
        return None
    values = section.values(names, ON, FORWARD)
    if not values:
        return None
    last = values[-1]
    rates, saved, rows = {}, {}, []
    for role, name in zip(("base", "new"), names, strict=True):
        both = [section.medians("forward_rate", name, variant).get(last) for variant in (OFF, ON)]
        speed = section.switched(MASK, FORWARD, name, ON).get(last)
        if None in both or speed is None or not both[1] < both[0]:  # type: ignore[operator]
            return None
        rates[role], saved[role] = both, speed.facts
        rows.append(speed)
    facts = {
        **{"p": section.symbol, "last": last, "base": names[0], "new": names[1]},
        **{"unit": section.benchmark.rate_unit, "rates": rates, "saved": saved},
    }
    return Observation("rate_definition", section.name, facts, evidence(rows))


# Memory


def memory_growth(section: Section) -> Observation | None:
    """The growth of both exact peak memories."""
    names, variant = pair(section), variant_of(section)
    if names is None or is_switch(section):
        return None
    values = section.values(names, variant, MEMORY)
    if len(values) < 2:
        return None
    facts: dict[str, Any] = {
        **{"p": section.symbol, "first": values[0], "last": values[-1]},
        **{"base": names[0], "new": names[1]},
    }
    added = []
    for role, name in zip(("base", "new"), names, strict=True):
        sizes = [section.medians(MEMORY, name, variant)[value] for value in values]
        added.append((sizes[-1] - sizes[0]) / (values[-1] - values[0]))
        facts[role + "_memory"] = {
            **{"first": sizes[0], "last": sizes[-1], "factor": sizes[-1] / sizes[0]},
            **{"last_step": sizes[-1] / sizes[-2], "adds": added[-1]},
            "growth": words.memory_growth(values, sizes),
        }
    shares = [
        section.medians(MEMORY, names[1], variant)[v]
        / section.medians(MEMORY, names[0], variant)[v]
        for v in (values[0], values[-1])
    ]
    facts["shares"] = shares
    facts["adds_alike"] = min(added) > 0 and max(added) / min(added) <= 1.15
    return Observation("memory_growth", section.name, facts)


def memory_equal(section: Section) -> Observation | None:
    """The peak memory does not depend on the mask (within 2%); None where it does."""
    names = [name for name in section.implementations if _has_numbers(section, name)]
    if not is_switch(section) or not names:
        return None
    for name in names:
        off, on = (section.medians(MEMORY, name, variant) for variant in (OFF, ON))
        common = off.keys() & on.keys()
        if not common or any(abs(on[v] / off[v] - 1) > 0.02 for v in common):
            return None
    return Observation("memory_equal", section.name, {"count": len(names)})
