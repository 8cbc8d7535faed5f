"""Page one of a report on attention with two implementations: the answer, and a line a sweep."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.story import words
from flashlab.story.attention.gaps import failures, odd_runs
from flashlab.story.attention.shared import is_shared, line_shared
from flashlab.story.attention.sweep import (
    FORWARD,
    MASK,
    MEMORY,
    OFF,
    ON,
    PASSES,
    TOTAL,
    by_verdict,
    is_switch,
    memory_equal,
    memory_growth,
    operations,
    pair,
    passes_differ,
    passes_of,
    time_growth,
    time_lead,
    variant_of,
)
from flashlab.story.attention.why import saved_of, why_products, why_traffic
from flashlab.story.doubts import doubtful, room, runs_of, warned_runs
from flashlab.story.observation import Observation
from flashlab.story.tables import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Section,
    Speed,
    Tables,
    evidence,
    span,
    speed_span,
    without_odd,
)

EVERY = {**PASSES, "total": TOTAL}


def two_of(tables: Tables) -> tuple[str, str] | None:
    """The baseline and the only other implementation of the dataset; None for other datasets."""
    names = tables.implementations
    return (names[0], names[1]) if len(names) == 2 and names[0] == tables.baseline else None


def counts(speeds: Sequence[Speed]) -> dict[str, int]:
    """The number of speeds of each verdict."""
    verdicts = [speed.verdict for speed in speeds]
    return {word: verdicts.count(word) for word in (FASTER, SLOWER, EQUAL, UNDECIDED)}


def memory_shares(tables: Tables, name: str, base: str) -> list[float]:
    """The peak memory of one over that of the other, at each setting of the dataset."""
    found = []
    for section in (Section(tables, each) for each in tables.experiments):
        for variant in section.variants:
            if not {name, base} <= set(section.experiment.implementations):
                continue
            mine, theirs = (section.medians(MEMORY, each, variant) for each in (name, base))
            found += [mine[value] / theirs[value] for value in mine.keys() & theirs.keys()]
    return found


def dataset_pooled(tables: Tables, name: str, metric: str) -> Speed | None:
    """The speed of one over the baseline, pooled over all settings of the dataset."""
    return tables.speed(None, "", metric, name, tables.baseline, None)


def _opposite(tables: Tables, name: str, base: str) -> dict[str, Speed] | None:
    """The speeds of both passes over the dataset, where they lie on opposite sides of 1.

    Each interval excludes 1 and each estimate is beyond the margin; one of them is decided, and
    single settings are decided in each direction.
    """
    found = {key: dataset_pooled(tables, name, metric) for key, metric in PASSES.items()}
    speeds = {key: speed for key, speed in found.items() if speed is not None}
    if len(speeds) < 2 or any(s.low is None or s.high is None for s in speeds.values()):
        return None
    fast = [k for k, s in speeds.items() if (s.low or 0) > 1 and s.x > words.margins(1)]
    slow = [k for k, s in speeds.items() if (s.high or 9) < 1 and s.x < 1 / words.margins(1)]
    single = {s.verdict for metric in PASSES.values() for s in tables.over(name, base, metric)}
    if len(fast) != 1 or len(slow) != 1 or not {FASTER, SLOWER} <= single:
        return None
    return speeds if any(speed.is_decided for speed in speeds.values()) else None


def answer_passes(tables: Tables) -> Observation | None:
    """That one pass is faster and the other slower, over all settings together."""
    names = two_of(tables)
    if names is None or (pooled := _opposite(tables, names[1], names[0])) is None:
        return None
    facts: dict[str, Any] = {"new": names[1], "base": names[0]}
    rows: list[Speed] = [*pooled.values()]
    for key, metric in PASSES.items():
        speeds = tables.over(names[1], names[0], metric)
        facts[key] = {
            **_by_pass({each: speeds for each in PASSES})[key],
            "pooled": pooled[key].facts,
        }
        rows += speeds
    return Observation("answer_passes", None, facts, evidence(rows))


def answer_use(tables: Tables) -> Observation | None:
    """Which of the two to use, how many times as fast it is, and how much memory it needs."""
    names = two_of(tables)
    if names is None:
        return None
    base, new = names
    speeds = {key: tables.over(new, base, metric) for key, metric in EVERY.items()}
    if not speeds["total"]:
        return None
    found = counts(speeds["total"])
    of = len(speeds["total"])
    shares = memory_shares(tables, new, base)
    if found[SLOWER] == of:
        base, new = new, base
        speeds = {key: [speed.inverse for speed in each] for key, each in speeds.items()}
        found, shares = counts(speeds["total"]), [1 / share for share in shares]
        choice = "faster"
    elif found[FASTER] and not found[SLOWER]:
        choice = "faster"
    elif found[FASTER] and found[SLOWER]:
        choice = "mixed"
    else:
        choice = "memory"
        if shares and min(shares) > 1:
            base, new, shares = new, base, [1 / share for share in shares]
            speeds = {key: [speed.inverse for speed in each] for key, each in speeds.items()}
    passes = _opposite(tables, names[1], names[0])
    pooled = dataset_pooled(tables, names[1], TOTAL)
    is_open = choice != "faster" or found[UNDECIDED] > 0
    facts = {
        **{"base": base, "new": new, "choice": choice, "of": of, "counts": found},
        "x": {key: speed_span(each) for key, each in speeds.items()},
        "memory": span(shares),
        "passes": None,
        "pooled": pooled.facts if pooled and is_open and new == names[1] else None,
    }
    if passes is not None:
        faster = "forward" if passes["forward"].x > 1 else "backward"
        facts["passes"] = {"use": "inference" if faster == "forward" else "training"}
    return Observation("answer_use", None, facts, evidence(speeds["total"]))


def answer_by_pass(tables: Tables) -> Observation | None:
    """Each pass alone, and all settings together, where the total is undecided at some."""
    use = answer_use(tables)
    if use is None or use.facts["passes"] or not use.facts["counts"][UNDECIDED]:
        return None
    new, base, pooled = (use.facts[key] for key in ("new", "base", "pooled"))
    speeds = {key: tables.over(new, base, metric) for key, metric in PASSES.items()}
    found = {key: dataset_pooled(tables, new, metric) for key, metric in PASSES.items()}
    facts = {
        **{"by_pass": _by_pass(speeds), "of": use.facts["of"]},
        "pooled": pooled if use.facts["choice"] == "faster" else None,
        "together": {key: speed.facts for key, speed in found.items() if speed},
    }
    rows = [speed for each in speeds.values() for speed in each]
    return Observation("answer_by_pass", None, facts, evidence(rows))


def _by_pass(speeds: dict[str, list[Speed]]) -> dict[str, Any]:
    """The speeds of each pass by verdict, with the number of settings of each."""
    return {
        key: {
            "of": len(speeds[key]),
            "counts": counts(speeds[key]),
            "by_verdict": by_verdict(dict(enumerate(speeds[key]))),
        }
        for key in PASSES
    }


def _leads(section: Section) -> tuple[str, dict[int, Speed]] | None:
    names = pair(section)
    if names is None or is_switch(section):
        return None
    total = without_odd(section.speeds(TOTAL, names[1], variant_of(section)))
    return (words.lead(total), total) if len(total) > 1 else None


def answer_where(tables: Tables) -> Observation | None:
    """Which sweeps move the speed-up most, and one that moves the memory alone."""
    names = two_of(tables)
    if names is None:
        return None
    moved: list[tuple[float, dict[str, Any], list[Speed]]] = []
    constant: dict[str, Any] | None = None
    for section in tables.sections:
        if is_switch(section):
            off, on = (section.speeds(TOTAL, names[1], variant) for variant in (OFF, ON))
            for last in sorted(off.keys() & on.keys())[-1:]:
                one, other = off[last], on[last]
                known = one.is_decided and other.is_decided and not (one.is_odd or other.is_odd)
                if known and _beyond(one, other):
                    facts = {"what": "mask", "at": last, "p": section.symbol}
                    facts |= {"x": [one.x, other.x]}
                    moved.append((max(one.x, other.x) / min(one.x, other.x), facts, [one, other]))
            continue
        if (found := _leads(section)) is None:
            continue
        word, total = found
        decided = {value: speed for value, speed in total.items() if speed.is_decided}
        if word in ("widening", "narrowing", "peaks") and len(decided) > 1:
            values = sorted(decided)
            low, high = (choose(values, key=lambda v: decided[v].x) for choose in (min, max))
            at = [min(low, high), max(low, high)]
            facts = {
                "what": "sweep",
                "p": section.symbol,
                "label": dict(section.experiment.parameter.labels),
                "fixed": "E" if section.experiment.parameter.name == "num_heads" else None,
                "at": at,
                "x": [decided[value].x for value in at],
            }
            moved.append((decided[high].x / decided[low].x, facts, [*decided.values()]))
        memory = memory_growth(section)
        if word == "constant" and memory is not None and constant is None:
            gaps = [1 / share for share in memory.facts["shares"]]
            if gaps[1] > gaps[0] * words.margins(1):
                range_ = speed_span(total.values())
                ends = [memory.facts["first"], memory.facts["last"]]
                constant = {"p": section.symbol, "x": range_, "gaps": gaps, "ends": ends}
                constant["mask"] = variant_of(section) == ON
    if not moved:
        return None
    most = sorted(moved, key=lambda each: -each[0])[:2]
    facts = {"most": [each[1] for each in most], "constant": constant}
    return Observation("answer_where", None, facts, evidence(s for each in most for s in each[2]))


def _beyond(one: Speed, other: Speed) -> bool:
    """True if two intervals lie apart by more than two margins."""
    if None in (one.low, one.high, other.low, other.high):
        return False
    low, high = sorted((one, other), key=lambda speed: speed.x)
    return float(high.low or 0) > float(low.high or 0) * words.margins(2)


def answer_why(tables: Tables) -> Observation | None:
    """Why the recommended one is faster: what it does not move, or on a CPU what it saves."""
    names = two_of(tables)
    if names is None:
        return None
    for section in tables.sections:
        if (found := why_traffic(section)) is not None:
            facts = {k: found.facts[k] for k in ("p", "at", "base", "new", "ratios", "passes")}
            return Observation("answer_why", None, {"by": "traffic", **facts}, found.evidence)
    for section in tables.sections:
        variant = variant_of(section)
        for value in reversed(section.experiment.values):
            speed = section.speeds(FORWARD, names[1], variant).get(value)
            saved = saved_of(section, variant, value)
            if speed is None or speed.verdict != FASTER or not saved or saved["state"] != "within":
                continue  # or more is saved than these operators take: something else is saved too
            products = why_products(section)
            facts = {
                **{"by": "operators", "p": section.symbol, "at": value},
                **{"base": names[0], "new": names[1]},
                **{key: saved[key] for key in ("softmax", "others", "saved")},
                "backward": products.facts if products and products.facts["at"] == value else None,
            }
            return Observation("answer_why", None, facts, evidence([speed]))
    return None


def answer_cost(tables: Tables) -> Observation | None:
    """The cost of the recommended one: passes that are slower, more memory, failures."""
    names = two_of(tables)
    use = answer_use(tables)
    if names is None or use is None or use.facts["choice"] == "mixed":
        return None
    base, new = use.facts["base"], use.facts["new"]
    slower, rows = [], list[Speed]()
    total = tables.over(new, base, TOTAL)
    undecided = sum(speed.verdict == UNDECIDED for speed in total)
    for key, metric in PASSES.items():
        mine = tables.over(new, base, metric)
        worse = [speed for speed in mine if speed.verdict == SLOWER]
        if worse:
            slower.append(
                {"pass": key, "count": len(worse), "of": len(mine), "x": speed_span(worse)}
            )
            rows += worse
    shares = use.facts["memory"] or [0, 0]
    failed = [each for each in failures(tables.sections) if each["name"] == new]
    facts = {
        **{"base": base, "new": new, "slower": slower, "undecided": undecided, "of": len(total)},
        **{"more_memory": shares[1] if shares[1] > 1 else None, "failed": failed},
        "small_heads": _small_heads(tables, new),
    }
    return Observation("answer_cost", None, facts, evidence(rows))


def _small_heads(tables: Tables, name: str) -> dict[str, Any] | None:
    """A head size with half the operations of the next one that takes decidedly longer."""
    for section in tables.sections:
        if section.experiment.parameter.name != "emb_dim" or pair(section) is None:
            continue
        variant = variant_of(section)
        times = section.medians(TOTAL, name, variant)
        values = sorted(times)
        for smaller, larger in itertools.pairwise(values):
            step = section.step(TOTAL, name, variant, larger)
            if step is None or step.is_odd:
                continue
            if 2 * smaller == larger and step.verdict == FASTER:
                runs = [section.run(name, variant, value) for value in (smaller, larger)]
                dims = [run["head_dim"] for run in runs if run]
                return {"d": dims, "longer": times[smaller] / times[larger] - 1}
    return None


# A line a sweep


def line_sweep(section: Section) -> Observation | None:
    """A sweep in one line: what grows how much, and what becomes of the lead."""
    growth, memory = time_growth(section), memory_growth(section)
    names = pair(section)
    if growth is None or memory is None or names is None:
        return None
    speeds = passes_of(section, names[1], variant_of(section))
    lead = time_lead(section)
    values = section.values(names, variant_of(section), TOTAL)
    work = operations(section, variant_of(section), values)
    facts = {
        **{"p": section.symbol, "base": names[0], "new": names[1]},
        **{"factor": values[-1] / values[0], "operations": work[values[-1]] / work[values[0]]},
        "time": [growth.facts["total"][role] for role in ("base", "new")],
        "memory": [memory.facts[f"{role}_memory"]["factor"] for role in ("base", "new")],
        "lead": lead.facts if lead else None,
        "passes": {k: by_verdict(speeds[k]) for k in PASSES} if passes_differ(speeds) else None,
        **{"count": len(speeds["total"]), "target": section.name},
    }
    return Observation("line_sweep", None, facts, growth.evidence)


def line_switch(section: Section) -> Observation | None:
    """The mask in one line: what it does to the total of both at the last length."""
    names = pair(section)
    if names is None or not is_switch(section):
        return None
    effects = [section.switched(MASK, TOTAL, name, ON) for name in names]
    common = sorted(effects[0].keys() & effects[1].keys())
    if not common:
        return None
    last = common[-1]
    facts = {
        **{"p": section.symbol, "last": last, "base": names[0], "new": names[1]},
        "effects": {
            role: each[last].facts for role, each in zip(("base", "new"), effects, strict=True)
        },
        "same_memory": memory_equal(section) is not None,
        "target": section.name,
    }
    return Observation("line_switch", None, facts, evidence(each[last] for each in effects))


def footnote_doubts(tables: Tables) -> Observation | None:
    """The factor by which a time must be wrong to turn a verdict on a run with a warning."""
    names = two_of(tables)
    if names is None:
        return None
    every = [s for metric in EVERY.values() for s in tables.over(names[1], names[0], metric)]
    return doubts(tables, every)


def doubts(tables: Tables, every: Sequence[Speed]) -> Observation | None:
    """The same of these speeds; None where no run carries a warning."""
    touched = [speed for speed in every if doubtful(speed)]
    told = [speed for speed in touched if speed.is_decided or speed.verdict == EQUAL]
    warned, codes = warned_runs(tables)
    if not warned or not touched:
        return None
    rooms = [room(speed) for speed in told]
    facts = {
        **{"of": runs_of(tables), "codes": codes},
        "room": min(rooms) if rooms else None,
        "tight": sum(each < 1.1 for each in rooms),
        **{"verdicts": len(told), "odd": odd_runs(tables)},
    }
    return Observation("footnote_doubts", None, facts, evidence(told))


FRONT = (answer_passes, answer_use, answer_by_pass, answer_where, answer_why, answer_cost)
"""The answer, in its order."""


def page_one(tables: Tables) -> Iterator[Observation]:
    """Page one: the answer, a line for each section, and what the warnings could change."""
    yield from filter(None, (observe(tables) for observe in FRONT))
    for section in tables.sections:
        line = line_switch if is_switch(section) else line_sweep
        line = line_shared if is_shared(section) else line
        yield from filter(None, [line(section)])
    yield from filter(None, [footnote_doubts(tables)])
