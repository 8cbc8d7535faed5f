"""The story of a ladder of kernels: each step is compared with the step before it.

Three clocks: the kernel alone, with its copies, and the whole process, which not every run has.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import Row, ladder_of
from flashlab.benchmarks.ladder.costs import flops
from flashlab.story import words
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
)

KERNEL, HOST, WHOLE, RATE = "kernel_time", "host_time", "process_time", "rate"
START, COMPILATION = "process_start", "process_compilation"

FALLING = ("global_load_bytes", "shared_load_bytes", "bank_conflicts", "instructions")
"""The counters that a step can reduce."""

MOVED = 1.25
"""Least factor by which a counter must fall to be named."""

DEEP, SMALL_GAIN = 4.0, 1.15
"""A fall of a counter that surprises where the kernel gains less than this."""

COPIES = 3.0
"""Least ratio of a step's time with its copies to its kernel's for the copies to count."""

MUCH = 2.0
"""The least factor by which rates of small problems are lower for a sentence to say so."""

MANTISSAS = {"fp16": "fp16", "tf32": "tf32"}
"""The number formats of products that a step's label may name."""


# What every observation needs


def ladder_section(tables: Tables) -> Section | None:
    """The section that climbs the steps; None where no implementation is a step."""
    found = ladder_of(tables.experiments)
    return Section(tables, found) if found else None


def headline(section: Section) -> int:
    """The case that the steps are compared at: the last one of the section."""
    return section.experiment.values[-1]


def case_of(section: Section, at: int) -> dict[str, Any]:
    """A value of the sweep with the sizes of its problem, by their symbols."""
    run = next(r for r in section.experiment.runs if section.experiment.value_of(r) == at)
    sizes = {
        parameter.symbol: run[parameter.name]
        for parameter in section.benchmark.given
        if not parameter.is_variant and parameter != section.experiment.parameter
    }
    return {"p": section.symbol, "at": at, "sizes": sizes}


def times_at(
    section: Section, metric: str, at: int, names: Sequence[str] | None = None
) -> dict[str, float]:
    """A metric at a value of every step, or of some implementations, in their order."""
    names = section.experiment.step_names if names is None else names
    every = {name: section.medians(metric, name, "") for name in names}
    return {name: medians[at] for name, medians in every.items() if at in medians}


def speed_of(section: Section, metric: str, name: str, over: str, at: int) -> Speed | None:
    """The speed of one step over another at a value, by a clock."""
    return section.tables.speed(section.name, "", metric, name, over, at)


def gains(section: Section, metric: str, at: int) -> dict[str, Speed]:
    """The speed of each step over the step before it."""
    found = {
        name: speed_of(section, metric, name, before, at)
        for before, name in section.experiment.steps
    }
    return {name: speed for name, speed in found.items() if speed is not None}


def number_of(section: Section, name: str) -> int:
    """The number of a step: that of the baseline is 1."""
    names = section.experiment.step_names
    return (
        names.index(name) - (names.index(section.baseline) if section.baseline in names else 0) + 1
    )


def step_of(section: Section, name: str, **more: Any) -> dict[str, Any]:
    """A step by its name and number, with what else is said of it."""
    return {"name": name, "number": number_of(section, name), **more}


def label_of(section: Section, name: str) -> dict[str, str]:
    """The label of a step, in each language."""
    entries = section.experiment.plan["implementations"]
    return dict(next(entry["label"] for entry in entries if entry["name"] == name))


def stem_of(label: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A label up to its detail, and the detail: ``Tensor cores``, ``fp16``."""
    parts = {
        lang: re.split(r", | \(", text.rstrip(")"), maxsplit=1) for lang, text in label.items()
    }
    stems = {lang: each[0] for lang, each in parts.items()}
    return stems, {lang: each[-1] if len(each) > 1 else "" for lang, each in parts.items()}


def fastest_kernel(section: Section, at: int, among: Sequence[str] | None = None) -> str:
    """The step with the shortest kernel; the first of those that are within the margin of it."""
    times = times_at(section, KERNEL, at, among)
    best = min(times, key=lambda name: times[name])
    for name in times:
        speed = speed_of(section, KERNEL, name, best, at)
        if name == best or (speed is not None and speed.verdict == EQUAL):
            return name
    return best


def counters_at(section: Section, name: str, at: int) -> dict[str, float]:
    """The counters of a step's kernels at a value; empty where nothing was counted."""
    run = section.run(name, "", at)
    return dict(section.experiment.counters_of(run, KERNEL)) if run is not None else {}


# Page one


def things(section: Section, at: int) -> list[dict[str, Any]]:
    """The kinds of steps that decidedly shorten the kernel, by falling speed-up.

    Neighbouring steps whose labels differ in a detail alone are one kind.
    """
    kinds: list[dict[str, Any]] = []
    for name, speed in gains(section, KERNEL, at).items():
        stem, detail = stem_of(label_of(section, name))
        part = {"name": name, "x": speed.x, "detail": detail}
        if speed.verdict != FASTER:
            continue
        if kinds and kinds[-1]["label"] == stem:
            kinds[-1]["parts"].append(part)
            kinds[-1]["x"] *= speed.x
        else:
            kinds.append({"label": stem, "x": speed.x, "parts": [part]})
    return sorted(kinds, key=lambda kind: -kind["x"])


def answer_kernel(section: Section) -> Observation | None:
    """The speed of the fastest kernel over that of the first step."""
    at = headline(section)
    times = times_at(section, KERNEL, at)
    if len(times) < 2:
        return None
    first, best = next(iter(times)), fastest_kernel(section, at)
    speed = speed_of(section, KERNEL, best, first, at)
    if speed is None or speed.verdict != FASTER:
        return None
    facts = {
        "case": case_of(section, at),
        "first": step_of(section, first, time=times[first]),
        "best": step_of(section, best, time=times[best]),
        "x": speed.x,
    }
    return Observation("answer_kernel", None, facts, evidence([speed]))


def answer_things(section: Section) -> Observation | None:
    """The three kinds of steps with the greatest speed-ups of the kernel."""
    whole, at = answer_kernel(section), headline(section)
    if whole is None:
        return None
    most = things(section, at)[:3]
    if len(most) < 2:
        return None
    share = sum(math.log(thing["x"]) for thing in most) / math.log(whole.facts["x"])
    facts = {"things": most, "most": share > 0.5}
    return Observation("answer_things", None, facts, evidence(gains(section, KERNEL, at).values()))


def _overhead(section: Section, name: str, at: int) -> float | None:
    """The time in which a process starts and compiles, in ms; None where that is not known."""
    start, spent = (section.medians(each, name, "").get(at) for each in (START, COMPILATION))
    return None if start is None else start + (spent or 0.0)


def _is_of_overhead(section: Section, slower: Sequence[str], best: str, at: int) -> bool:
    """True if slower processes lose most of their time to their start and compilation."""
    times, of_best = times_at(section, WHOLE, at), _overhead(section, best, at)
    for name in slower:
        mine = _overhead(section, name, at)
        if mine is None or of_best is None or 2 * (mine - of_best) <= times[name] - times[best]:
            return False
    return bool(slower)


def best_process(section: Section, at: int) -> str | None:
    """The step whose whole process has the shortest median; None where none was timed."""
    times = times_at(section, WHOLE, at)
    return min(times, key=lambda name: times[name]) if len(times) > 1 else None


def answer_process(section: Section) -> Observation | None:
    """The best whole process beside the first, and its share of start-up and compilation."""
    at = headline(section)
    best, times = best_process(section, at), times_at(section, WHOLE, at)
    if best is None:
        return None
    first = next(iter(times))
    over = {name: speed_of(section, WHOLE, name, best, at) for name in times if name != best}
    verdicts = {name: speed.verdict for name, speed in over.items() if speed is not None}
    later = [name for name in times if number_of(section, name) > number_of(section, best)]
    kernels = gains(section, KERNEL, at)
    slower = [
        step_of(section, name, time=times[name] / 1e3)
        for name in later
        if verdicts.get(name) == SLOWER and name in kernels and kernels[name].verdict == FASTER
    ]
    shown = [slower[0], *slower[1:][-1:]] if slower else []
    overhead = _overhead(section, best, at)
    saved = speed_of(section, WHOLE, best, first, at)
    facts = {
        "first": step_of(section, first, time=times[first] / 1e3),
        "best": step_of(section, best, time=times[best] / 1e3),
        "verdict": saved.verdict if saved else EQUAL,
        "equal": [name for name, verdict in verdicts.items() if verdict == EQUAL],
        "undecided": [name for name, verdict in verdicts.items() if verdict == UNDECIDED],
        "overhead": None if overhead is None else overhead / times[best],
        "slower": shown,
        "by_overhead": _is_of_overhead(section, [step["name"] for step in shown], best, at),
    }
    return Observation("answer_process", None, facts, evidence([saved, *over.values()]))


def answer_use(section: Section) -> Observation | None:
    """The step to hand in, and the one to use in a program that keeps running."""
    at = headline(section)
    times = times_at(section, HOST, at)
    if len(times) < 2:
        return None
    best, run = min(times, key=lambda name: times[name]), fastest_kernel(section, at)
    behind = speed_of(section, HOST, run, best, at)
    if run not in times or (behind is not None and behind.verdict == SLOWER):
        run = best
    first = next(iter(times))
    speed = speed_of(section, HOST, run, first, at)
    if speed is None or speed.verdict != FASTER:
        return None
    process = answer_process(section)
    gains_process = process is not None and process.facts["verdict"] == FASTER
    facts = {
        "hand_in": best_process(section, at) if gains_process else None,
        "run": step_of(section, run, time=times[run]),
        "first": step_of(section, first),
        "x": speed.x,
        "precision": _precision(section, run, at),
    }
    return Observation("answer_use", None, facts, evidence([speed, behind]))


def _precision(section: Section, name: str, at: int) -> dict[str, Any] | None:
    """The number format of a step's products, with its error and the tolerance."""
    run, label = section.run(name, "", at), label_of(section, name)["en"]
    number_format = next((form for word, form in MANTISSAS.items() if word in label), None)
    gate = run["gate"] if run is not None else None
    if number_format is None or not gate:
        return None
    error = max(gate["errors"].values())
    return {"format": number_format, "error": error, "tolerance": gate["tolerance"]}


def footnote_doubts(section: Section) -> Observation | None:
    """The number of runs with warnings, and of the steps' comparisons that rest on them."""
    warned, codes = warned_runs(section.tables)
    if not warned:
        return None
    at = headline(section)
    clocks, rows = {}, list[Speed]()
    for metric in (KERNEL, HOST):
        found = [*gains(section, metric, at).values()]
        touched = [speed for speed in found if doubtful(speed)]
        told = [speed for speed in touched if speed.is_decided]
        room_ = min(map(room, told)) if told else None
        clocks[metric] = {"doubtful": len(touched), "room": room_}
        rows += touched
    facts = {"of": runs_of(section.tables), "codes": codes, "clocks": clocks}
    return Observation("footnote_doubts", None, facts, evidence(rows))


# The section that climbs


def ladder_time(section: Section) -> Observation | None:
    """The steps by the verdict on their kernels."""
    at = headline(section)
    found = gains(section, KERNEL, at)
    if not found:
        return None
    by = {
        verdict: [name for name, speed in found.items() if speed.verdict == verdict]
        for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED)
    }
    facts = {"case": case_of(section, at), "of": len(found), "by": by}
    whole = _from_the_very_first(section, at)
    facts["whole_way"] = whole[0] if whole else None
    rows = [*found.values(), *([whole[1]] if whole else [])]
    return Observation("ladder_time", section.name, facts, evidence(rows))


def _from_the_very_first(section: Section, at: int) -> tuple[dict[str, Any], Speed] | None:
    """A first step that is too slow for the headline's case, against the best where it ended."""
    first = section.experiment.step_names[0]
    times = section.medians(KERNEL, first, "")
    if at in times or not times:
        return None
    last = max(times)
    best = fastest_kernel(section, last)
    speed = speed_of(section, KERNEL, best, first, last)
    if speed is None or speed.verdict != FASTER:
        return None
    shortest = section.medians(KERNEL, best, "")[last]
    facts = {"at": last, "first": first, "seconds": times[last] / 1e3, "best": best}
    return {**facts, "time": shortest, "x": speed.x}, speed


def ladder_rate(section: Section) -> Observation | None:
    """The share of the ceiling of the fastest step, and of the fastest with float32 products."""
    at, ceilings = headline(section), section.tables.ceilings
    names = {run["device_name"] for run in section.experiment.runs if run["status"] == "ok"}
    if ceilings is None or names != {ceilings.device_name}:
        return None
    measured = {dtype: each.rate / 1e12 for dtype, each in ceilings.matrix.items()}
    rates = times_at(section, RATE, at)
    if not rates or not {"float32", "float16"} <= measured.keys():
        return None
    best = fastest_kernel(section, at)
    dtype = "float32" if rates[best] <= measured["float32"] else "float16"
    plain = [
        n for n in rates if _precision(section, n, at) is None and _is_before(section, n, best)
    ]
    facts: dict[str, Any] = {
        "best": _rated(rates, best, dtype, measured),
        "active": counters_at(section, best, at).get("matrix_activity"),
        "plain": None,
    }
    rows: list[Speed | None] = []
    if dtype == "float16" and plain:
        fastest = fastest_kernel(section, at, plain)
        speed = speed_of(section, KERNEL, best, fastest, at)
        if speed is not None and speed.verdict == FASTER and rates[fastest] <= measured["float32"]:
            facts["plain"] = _rated(rates, fastest, "float32", measured)
            facts["plain"] |= {"left": measured["float32"] / rates[fastest], "x": speed.x}
            rows.append(speed)
    return Observation("ladder_rate", section.name, facts, evidence(rows))


def ladder_language(section: Section) -> Observation | None:
    """The step at which the kernels' package, and so their language, changes."""
    at = headline(section)
    runs = {name: section.run(name, "", at) for name in times_at(section, KERNEL, at)}
    packages = {n: run["provider"].split()[0] for n, run in runs.items() if run and run["provider"]}
    for before, name in section.experiment.steps:
        ends = [packages.get(each) for each in (before, name)]
        speed = speed_of(section, KERNEL, name, before, at)
        if speed is not None and None not in ends and ends[0] != ends[1]:
            facts = {"name": name, "packages": ends, "x": speed.x}
            return Observation("ladder_language", section.name, facts, evidence([speed]))
    return None


def _is_before(section: Section, name: str, other: str) -> bool:
    return number_of(section, name) < number_of(section, other)


def _rated(
    rates: Mapping[str, float], name: str, dtype: str, measured: Mapping[str, float]
) -> dict[str, Any]:
    share = rates[name] / measured[dtype]
    return {
        **{"name": name, "rate": rates[name]},
        **{"dtype": dtype, "ceiling": measured[dtype], "share": share},
    }


Fall = dict[str, Any]
"""A counter that falls with a step: its name, the factor, and its values before and after."""


def moved(section: Section, name: str, at: int) -> Fall | None:
    """The counter that falls by the largest factor with a step; None where none falls.

    The step is compared with the last one before it that was counted.
    """
    previous = {each: other for other, each in section.experiment.steps}
    now, before = counters_at(section, name, at), previous.get(name)
    while before is not None and not counters_at(section, before, at):
        before = previous.get(before)
    if before is None or not now:
        return None
    earlier = counters_at(section, before, at)
    falls = {
        counter: earlier[counter] / now[counter]
        for counter in FALLING
        if now.get(counter) and earlier.get(counter)
    }
    if not falls or (factor := max(falls.values())) < MOVED:
        return None
    counter = max(falls, key=lambda each: falls[each])
    ends = {"before": earlier[counter], "after": now[counter]}
    return {"name": name, "over": before, "counter": counter, "factor": factor, **ends}


def _chain(section: Section, names: Sequence[str], at: int) -> list[dict[str, Any]]:
    """The last of these steps, each of which executes fewer instructions than the one before."""
    found: list[dict[str, Any]] = []
    for name in reversed(names):
        count = counters_at(section, name, at).get("instructions")
        if count is None or (found and count < MOVED * found[0]["count"]):
            break
        found.insert(0, {"name": name, "count": count})
    return found


def ladder_why(section: Section) -> Observation | None:
    """The counters that fall most with the steps that shorten the kernel."""
    at = headline(section)
    helping = [n for n, s in gains(section, KERNEL, at).items() if s.verdict == FASTER]
    falls = [fall for name in helping if (fall := moved(section, name, at)) is not None]
    if not falls:
        return None
    chain = _chain(section, helping, at)
    linked = {link["name"] for link in chain[1:]} if len(chain) > 2 else set()
    speeds = gains(section, KERNEL, at)
    single = [f for f in falls if f["name"] not in linked and speeds[f["name"]].x >= SMALL_GAIN]
    facts = {"single": single[:3], "chain": chain if linked else [], "case": case_of(section, at)}
    return Observation("ladder_why", section.name, facts, _counted(section, facts))


def _counted(section: Section, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of metrics.csv with the counters of the steps that facts name."""
    named = [f["name"] for key in ("single", "chain") for f in facts[key]]
    at = {section.experiment.parameter.name: facts["case"]["at"]}
    return [
        {"table": "metrics.csv", "experiment": section.name, "implementation": name, **at}
        for name in dict.fromkeys(named)
    ]


def ladder_surprise(section: Section) -> Observation | None:
    """A counter that falls far for little; an occupancy that does not tell the fastest."""
    at, found = headline(section), None
    for name, speed in gains(section, KERNEL, at).items():
        fall = moved(section, name, at)
        is_small = speed.x < SMALL_GAIN and speed.verdict in (FASTER, EQUAL)
        if fall and fall["factor"] >= DEEP and is_small:
            found = {**fall, "x": speed.x, "verdict": speed.verdict, "row": speed}
            break
    occupancy = _occupancy(section, at)
    if found is None and occupancy is None:
        return None
    rows = [found.pop("row")] if found else []
    facts = {"fall": found, "occupancy": occupancy}
    return Observation("ladder_surprise", section.name, facts, evidence(rows))


def _occupancy(section: Section, at: int) -> dict[str, Any] | None:
    """That decidedly slower steps have at least twice the occupancy of the fastest one."""
    if not times_at(section, KERNEL, at):
        return None
    best = fastest_kernel(section, at)
    of_best = counters_at(section, best, at).get("occupancy")
    slower = []
    for name in times_at(section, KERNEL, at):
        speed = speed_of(section, KERNEL, name, best, at) if name != best else None
        share = counters_at(section, name, at).get("occupancy")
        if speed and share and of_best and speed.verdict == SLOWER and share >= 2 * of_best:
            slower.append(share / 100)
    if not of_best or not slower:
        return None
    return {"best": best, "share": of_best / 100, "slower": len(slower), "shares": span(slower)}


def ladder_take(section: Section) -> Observation | None:
    """The order of the three things that gain most."""
    at = headline(section)
    order = list(section.experiment.step_names)
    most = sorted(things(section, at)[:3], key=lambda each: order.index(each["parts"][0]["name"]))
    if len(most) < 2:
        return None
    counted = any(counters_at(section, name, at) for name in order)
    facts = {"things": [thing["label"] for thing in most], "counted": counted}
    return Observation("ladder_take", section.name, facts)


# Larger problems


def varies(section: Section) -> Observation | None:
    """Which sizes the problems have, and what becomes of the operations."""
    values = section.experiment.values
    if len(values) < 2:
        return None
    work = _operations(section)
    given = [p for p in section.benchmark.given if not p.is_variant]
    fixed = {
        p.symbol: next(iter(each))
        for p in given
        if p != section.experiment.parameter
        and len(each := {run[p.name] for run in section.experiment.runs}) == 1
    }
    facts = {
        **{"p": section.symbol, "values": values, "factor": values[-1] / values[0]},
        **{"fixed": fixed, "operations": work[values[-1]] / work[values[0]]},
    }
    return Observation("varies", section.name, facts)


def _operations(section: Section) -> dict[int, float]:
    return {section.experiment.value_of(run): flops(run) for run in section.experiment.runs}


def ladder_growth(section: Section) -> Observation | None:
    """The factors by which the kernel times grow along the sweep, beside the operations."""
    names = section.implementations
    values = section.values(names, "", KERNEL)
    if len(values) < 3:
        return None
    work, times = _operations(section), {n: section.medians(KERNEL, n, "") for n in names}
    first, before, last = values[0], values[-2], values[-1]
    whole = {name: each[last] / each[first] for name, each in times.items()}
    step = {name: each[last] / each[before] for name, each in times.items()}
    operations = work[last] / work[first]
    grown = [section.growth(KERNEL, name, "", last) for name in names]
    facts = {
        **{"p": section.symbol, "first": first, "before": before, "last": last},
        **{"operations": operations, "last_operations": work[last] / work[before]},
        **{"whole": _extremes(whole), "step": _extremes(step)},
        "below": all(each and each.low and MUCH / each.low < operations for each in grown),
    }
    return Observation("ladder_growth", section.name, facts, evidence(grown))


def _extremes(factors: Mapping[str, float]) -> list[dict[str, Any]]:
    """The least and the greatest factor, each with its implementation."""
    ends = (choose(factors, key=lambda name: factors[name]) for choose in (min, max))
    return [{"name": name, "factor": factors[name]} for name in ends]


def ladder_rates(section: Section) -> Observation | None:
    """The first step whose rate is constant from some value on, and the fastest step's rates."""
    names = section.implementations
    values = section.values(names, "", RATE)
    if len(values) < 3:
        return None
    rates = {name: section.medians(RATE, name, "") for name in names}
    best, rows = fastest_kernel(section, values[-1], names), list[Speed | None]()
    steady = list[dict[str, Any]]()
    for name in names:
        since = values[-1]
        for before, after in reversed([*itertools.pairwise(values)]):
            low, high = _rate_step(section, name, before, after)
            if not 1 / words.margins(1) < low <= high < words.margins(1):
                break
            since = before
        if since != values[-1]:
            steady.append({"name": name, "since": since, "rate": rates[name][values[-1]]})
            rows += [section.step(KERNEL, name, "", v) for v in values if v > since]
    facts = {
        **{"p": section.symbol, "steady": sorted(steady, key=lambda e: e["since"])[:1]},
        **{"best": best, "rates": [rates[best][v] for v in values]},
        "rises": _rate_step(section, best, *values[-2:])[0] > words.margins(1),
    }
    return Observation("ladder_rates", section.name, facts, evidence(rows))


def _rate_step(section: Section, name: str, before: int, after: int) -> tuple[float, float]:
    """The interval of the factor by which a rate rises in a step; 0 to infinity without one."""
    step, work = section.step(KERNEL, name, "", after), _operations(section)
    if step is None or step.low is None or step.high is None:
        return 0.0, math.inf
    more = work[after] / work[before]
    return more * step.low, more * step.high


def ladder_split(section: Section) -> Observation | None:
    """The sizes at which the last step helps, and those at which it does not."""
    if not section.experiment.steps:
        return None
    before, name = section.experiment.steps[-1]
    speeds = section.speeds(KERNEL, name, "", before)
    by = {
        verdict: {
            "at": [value for value, speed in speeds.items() if speed.verdict == verdict],
            "x": speed_span(s for s in speeds.values() if s.verdict == verdict),
        }
        for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED)
    }
    if not by[FASTER]["at"] or not by[EQUAL]["at"]:
        return None
    facts = {"p": section.symbol, "name": name, "before": before, "by": by}
    return Observation("ladder_split", section.name, facts, evidence(speeds.values()))


# Other cases


def _data(section: Section, at: int) -> int:
    """The number of elements of each input of a case."""
    run: Row = next(r for r in section.experiment.runs if section.experiment.value_of(r) == at)
    return int(run["batch_size"] * run["seq_len"] * run["head_dim"])


def ladder_streams(section: Section) -> Observation | None:
    """A step that changes the copies alone: the largest case it speeds up, the least it slows."""
    for before, name in section.experiment.steps:
        kernels = {speed.verdict for speed in section.speeds(KERNEL, name, "", before).values()}
        hosts = section.speeds(HOST, name, "", before)
        pays = [at for at, speed in hosts.items() if speed.verdict == FASTER]
        costs = [at for at, speed in hosts.items() if speed.verdict == SLOWER]
        if not pays or kernels & {FASTER, SLOWER}:
            continue
        most = max(pays, key=lambda at: _data(section, at))
        least = min(costs, key=lambda at: _data(section, at)) if costs else None
        facts = {
            **{"name": name, "label": label_of(section, name), "same": kernels == {EQUAL}},
            "pays": _copied(section, name, before, most),
            "costs": None if least is None else _copied(section, name, before, least),
        }
        return Observation("ladder_streams", section.name, facts, evidence(hosts.values()))
    return None


def _copied(section: Section, name: str, before: str, at: int) -> dict[str, Any]:
    times = [section.medians(HOST, each, "")[at] for each in (before, name)]
    return {"case": case_of(section, at), "times": times}


def ladder_copies(section: Section) -> Observation | None:
    """A case whose copies take most of the time: a faster kernel does not show there."""
    cases = sorted(section.experiment.values, key=lambda at: -_data(section, at))
    for at in cases:
        kernels, hosts = (times_at(section, metric, at) for metric in (KERNEL, HOST))
        if not kernels:
            continue
        best = fastest_kernel(section, at)
        if best not in hosts or hosts[best] < COPIES * kernels[best]:
            continue
        for name in reversed([n for n in kernels if n != best and _is_before(section, n, best)]):
            kernel = speed_of(section, KERNEL, best, name, at)
            host = speed_of(section, HOST, best, name, at)
            if kernel is None or host is None or kernel.verdict != FASTER:
                continue
            if host.verdict in (EQUAL, UNDECIDED):
                facts = {
                    "case": case_of(section, at),
                    "best": {"name": best, "kernel": kernels[best], "host": hosts[best]},
                    "other": {"name": name, "host": hosts[name]},
                    **{"x": kernel.x, "verdict": host.verdict},
                }
                return Observation("ladder_copies", section.name, facts, evidence([kernel, host]))
    return None


# Simulated


def simulated(tables: Tables) -> Observation:
    """The number of correct runs in a simulator, which has no times."""
    runs = {each.key_of(run): run for each in tables.experiments for run in each.runs}
    wrong = [run["implementation"] for run in runs.values() if run["status"] == "incorrect"]
    right = sum(run["status"] == "ok" for run in runs.values())
    facts = {"right": right, "of": len(runs), "wrong": list(dict.fromkeys(wrong))}
    return Observation("simulated", None, facts)


# The story


FRONT = (answer_kernel, answer_things, answer_process, answer_use, footnote_doubts)

CLIMBING: tuple[Callable[[Section], Observation | None], ...] = (
    *(ladder_time, ladder_rate, ladder_language, ladder_why, ladder_surprise, ladder_take),
)
GROWING: tuple[Callable[[Section], Observation | None], ...] = (
    *(varies, ladder_growth, ladder_rates, ladder_split),
)
CASES: tuple[Callable[[Section], Observation | None], ...] = (ladder_streams, ladder_copies)


def _observers(section: Section) -> Sequence[Callable[[Section], Observation | None]]:
    """The observations of a section: on growing problems, on the steps, or on other cases."""
    if section.experiment.is_ordered:
        return GROWING
    climbing = ladder_of(section.tables.experiments)
    return CLIMBING if climbing is section.experiment else CASES


def story(tables: Tables) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order; of a simulator no times."""
    if any(experiment.is_simulated for experiment in tables.experiments):
        yield simulated(tables)
        return
    if (steps := ladder_section(tables)) is not None:
        yield from filter(None, (observe(steps) for observe in FRONT))
    for section in tables.sections:
        yield from filter(None, (observe(section) for observe in _observers(section)))
