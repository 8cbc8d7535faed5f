"""The story of training: which attention, compiled or not, and why.

The runs are alternatives at one setting. Only their times have intervals; the busy time of the GPU,
its kernels and energy are measured once a process, memory is exact. The GPU's busy time is a lower
bound of an iteration: who keeps it busy for longer than another one's whole iteration is slower.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from flashlab.analysis.comparison_rows import ALTERNATIVES
from flashlab.analysis.curves import curve_distances
from flashlab.analysis.experiment import Row
from flashlab.story.doubts import runs_of, warned_runs
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

TIME, BUSY, KERNELS = "iteration_time", "gpu_busy_time", "kernels"
MEMORY, ENERGY, COMPILATION, RATE = "peak_memory", "energy", "compile_time", "model_rate"

SWITCH = "compile"
OFF, ON = "compile=false", "compile=true"

HOST_BOUND = 0.8
"""Largest share of a time for which the device is busy where the host is what limits it."""

FULL = 0.9
"""Least share of a time for which the device is busy all the while."""

REPEATS, WANDERS = 1.02, 1.05
"""Up to which factor the medians of processes are alike, and from which on they are not."""

Alternative = tuple[str, str]
"""An implementation in a variant, as comparisons.csv has it."""


# What every observation needs


def alternatives_of(tables: Tables) -> Section | None:
    """The section whose runs are alternatives at one setting; None without any."""
    found = (s for s in tables.sections if s.experiment.has_alternatives)
    return next((s for s in found if OFF in s.variants), None)


def value_of(section: Section, metric: str, alternative: Alternative) -> float | None:
    """A metric of an alternative; None where it has none."""
    name, variant = alternative
    return section.medians(metric, name, variant).get(section.experiment.values[0])


def measured(section: Section, metric: str, variant: str | None = None) -> dict[Alternative, float]:
    """A metric of all alternatives that have it, in the order of the report."""
    variants = section.variants if variant is None else [variant]
    every = [(name, each) for name in section.implementations for each in variants]
    found = {each: value_of(section, metric, each) for each in every}
    return {each: value for each, value in found.items() if value is not None}


def speed_of(section: Section, one: Alternative, other: Alternative) -> Speed | None:
    """The speed of one alternative over another."""
    at, (name, variant), (reference, over) = section.experiment.values[0], one, other
    if variant == over:
        return section.tables.speed(section.name, variant, TIME, name, reference, at)
    compared = SWITCH if name == reference else ALTERNATIVES
    if variant == ON:
        return section.tables.find(section.name, compared, ON, TIME, name, reference, at)
    found = section.tables.find(section.name, compared, ON, TIME, reference, name, at)
    return found.inverse if found else None


def fused(section: Section) -> list[str]:
    """The attentions that store no scores, in the order of the report: not the naive one."""
    entries = section.experiment.plan["implementations"]
    stored = {entry["name"] for entry in entries if entry.get("stores_scores")}
    names = section.implementations
    return [name for name in names if name not in stored and name != section.baseline]


def told(alternative: Alternative, **more: Any) -> dict[str, Any]:
    """An alternative by its name, with what else is said of it."""
    return {"name": alternative[0], "compiled": alternative[1] == ON, **more}


def busy_share(section: Section, alternative: Alternative) -> float | None:
    """For which share of an iteration the GPU is busy; None where that was not measured."""
    busy, time = (value_of(section, metric, alternative) for metric in (BUSY, TIME))
    return min(1.0, busy / time) if busy is not None and time else None


def graph_breaks(section: Section, name: str) -> int:
    """The number of graph breaks of a compiled model."""
    run = section.run(name, ON, section.experiment.values[0])
    processes = section.experiment.processes_of(run) if run else []
    return max((process["graph_breaks"] or 0 for process in processes), default=0)


def cards_of(section: Section, alternative: Alternative) -> set[str]:
    """The GPUs that an alternative was measured on, as far as they are known."""
    run = section.run(*alternative, section.experiment.values[0])
    processes = section.experiment.processes_of(run) if run else []
    return {process["gpu_uuid"] for process in processes if process["gpu_uuid"]}


def by_verdict(speeds: dict[str, Speed]) -> dict[str, dict[str, Any]]:
    """The names of each verdict, the fastest first, with the range of their speeds."""
    found: dict[str, dict[str, Any]] = {}
    for verdict in (FASTER, SLOWER, EQUAL, UNDECIDED):
        mine = {name: speed.x for name, speed in speeds.items() if speed.verdict == verdict}
        names = sorted(mine, key=lambda name: -mine[name])
        found[verdict] = {"names": names, "x": span([*mine.values()])}
    return found


def departing(section: Section) -> list[str]:
    """The attentions whose loss differs from the naive one's by more than a seed makes it."""
    return sorted(
        {
            each.run["implementation"]
            for curve in section.benchmark.curves
            for each in curve_distances(section.tables.experiments, curve)
            if each.differs and each.experiment is section.experiment
        }
    )


def longest(section: Section, alternative: Alternative) -> float | None:
    """The upper end of the interval of a time, by the spread that verdicts rest on."""
    run = section.run(*alternative, section.experiment.values[0])
    if run is None:
        return None
    known = section.tables.estimates.of(section.experiment, run, TIME)
    return known["high"] if known else None


# Page one


def answer_use(section: Section) -> Observation | None:
    """The decided speeds and the memory of an iteration with a fused attention."""
    plain, names = (section.baseline, OFF), fused(section)
    time, memory = value_of(section, TIME, plain), value_of(section, MEMORY, plain)
    if time is None or memory is None:
        return None
    found = {a: speed_of(section, a, plain) for a in measured(section, TIME) if a[0] in names}
    decided = {a: s for a, s in found.items() if s is not None and s.verdict == FASTER}
    off, decided_all = departing(section), decided
    decided = {a: s for a, s in decided.items() if a[0] not in off}
    if not decided:
        return None
    variant = max(decided, key=lambda each: decided[each].x)[1]
    better = {name: speed for (name, each), speed in decided.items() if each == variant}
    times, sizes = (
        [value_of(section, metric, (name, variant)) or 0.0 for name in better]
        for metric in (TIME, MEMORY)
    )
    facts = {
        **{"naive": section.baseline, "time": time, "memory": memory},
        **{"compiled": variant == ON, "times": span(times), "sizes": span(sizes)},
        "x": speed_span(better.values()),
        "names": list(better),
        "others": [name for name in names if name not in better],
        "departing": [name for name in off if (name, variant) in decided_all],
        "share": max(sizes) / memory,
    }
    return Observation("answer_use", None, facts, evidence(found.values()))


def answer_which(section: Section) -> Observation | None:
    """Which alternatives have the lowest medians, and which can no longer be the fastest."""
    times = measured(section, TIME)
    if len(times) < 2:
        return None
    best = min(times, key=lambda each: times[each])
    speeds = {each: speed_of(section, each, best) for each in times if each != best}
    busy, bound = measured(section, BUSY), longest(section, best)
    too_busy = {each for each in speeds if bound is not None and busy.get(each, 0.0) > bound}
    out = [
        each
        for each, speed in speeds.items()
        if (speed is not None and speed.verdict == SLOWER) or each in too_busy
    ]
    within = [each for each, s in speeds.items() if s is not None and s.verdict == EQUAL]
    level = [each for each in within if each not in out]
    open_ = [each for each in speeds if each not in [*out, *level]]
    lowest = sorted([best, *level, *open_], key=lambda each: times[each])[:3]
    facts = {
        "verdict": "open" if open_ else ("level" if level else "one"),
        "lowest": [told(each, time=times[each]) for each in lowest],
        **{"out": len(out), "of": len(times), "by_busy": len(too_busy), "bound": bound},
    }
    return Observation("answer_which", None, facts, evidence(speeds.values()))


def repaid(section: Section) -> dict[str, dict[str, Any]]:
    """After how many iterations the time of a compilation is made up for, by the times measured."""
    found: dict[str, dict[str, Any]] = {}
    for name in section.implementations:
        off, on = (value_of(section, TIME, (name, variant)) for variant in (OFF, ON))
        spent = value_of(section, COMPILATION, (name, ON))
        speed = speed_of(section, (name, ON), (name, OFF))
        if off is None or on is None or spent is None or speed is None or on >= off:
            continue
        more = spent - (value_of(section, COMPILATION, (name, OFF)) or 0.0)
        after = more * 1e3 / (off - on)
        found[name] = {"seconds": spent, "after": after, "decided": speed.verdict == FASTER}
    return found


def answer_cost(section: Section) -> Observation | None:
    """The cost of compiling, the attentions that it slows, and those not to use."""
    use, slower, rows = answer_use(section), list[dict[str, Any]](), list[Speed]()
    advised = use.facts["names"] if use is not None and use.facts["compiled"] else []
    back = {name: each for name, each in repaid(section).items() if name in advised}
    for name in section.implementations:
        speed = speed_of(section, (name, ON), (name, OFF))
        if speed is not None and speed.verdict == SLOWER:
            slower.append({"name": name, "x": speed.x, "breaks": graph_breaks(section, name)})
            rows.append(speed)
    avoid = []
    plain = (section.baseline, OFF)
    for name in section.implementations:
        speed = speed_of(section, (name, OFF), plain) if name != section.baseline else None
        time, size = (value_of(section, metric, (name, OFF)) for metric in (TIME, MEMORY))
        naive = value_of(section, MEMORY, plain)
        if speed is None or speed.verdict != SLOWER or size is None or naive is None:
            continue
        if size > naive:
            avoid.append({"name": name, "time": time, "memory": size})
            rows.append(speed)
    if not back and not slower and not avoid:
        return None
    facts = {
        "names": list(back),
        "seconds": span([each["seconds"] for each in back.values()]),
        "after": span([each["after"] for each in back.values()]),
        "measured": any(not each["decided"] for each in back.values()),
        **{"slower": slower, "avoid": avoid},
    }
    return Observation("answer_cost", None, facts, evidence(rows))


def effect_attention(section: Section) -> Observation | None:
    """Which attentions are shown to be faster than the naive one, all eager."""
    plain = (section.baseline, OFF)
    found = {
        n: speed_of(section, (n, OFF), plain) for n in section.implementations if n != plain[0]
    }
    speeds = {name: speed for name, speed in found.items() if speed is not None}
    if not speeds:
        return None
    facts = {"naive": section.baseline, "by": by_verdict(speeds)}
    return Observation("effect_attention", None, facts, evidence(speeds.values()))


def effect_compile(section: Section) -> Observation | None:
    """Whom compiling helps, and whether it keeps the GPU busy for less time."""
    found = {n: speed_of(section, (n, ON), (n, OFF)) for n in section.implementations}
    speeds = {name: speed for name, speed in found.items() if speed is not None}
    if not speeds:
        return None
    busy = {n: [value_of(section, BUSY, (n, variant)) for variant in (OFF, ON)] for n in speeds}
    both = [(off, on) for off, on in busy.values() if off is not None and on is not None]
    facts = {
        "by": by_verdict(speeds),
        "busy_falls": len(both) == len(speeds) and all(on < off for off, on in both),
    }
    return Observation("effect_compile", None, facts, evidence(speeds.values()))


def naive_compiled(section: Section) -> Observation | None:
    """The speed of the naive attention, compiled, over a fused one that is not."""
    if not (names := fused(section)):
        return None
    one, other = (section.baseline, ON), (names[0], OFF)
    speed = speed_of(section, one, other)
    times, sizes = (
        [value_of(section, metric, each) for each in (one, other)] for metric in (TIME, MEMORY)
    )
    if speed is None or None in sizes or not sizes[1] or sizes[0] is None:
        return None
    facts = {
        **{"naive": one[0], "fused": other[0], "times": times},
        **{"verdict": speed.verdict, "memory": sizes[0] / sizes[1]},
    }
    return Observation("naive_compiled", None, facts, evidence([speed]))


def footnote_doubts(section: Section) -> Observation | None:
    """The number of runs of one process, of undecided ratios, and of warnings."""
    runs = [run for run in section.experiment.runs if run["status"] == "ok"]
    single = [run for run in runs if len(section.experiment.processes_of(run)) == 1]
    times, plain = measured(section, TIME), (section.baseline, OFF)
    pairs = [(each, plain) for each in times if each != plain]
    pairs += [((name, ON), (name, OFF)) for name, variant in times if variant == ON]
    ratios = [(pair, speed) for pair in pairs if (speed := speed_of(section, *pair)) is not None]
    known = [speed for _, speed in ratios]
    cards = [[cards_of(section, each) for each in pair] for pair, _ in ratios]
    apart = sum(bool(one and other and one != other) for one, other in cards)
    warned, codes = warned_runs(section.tables)
    if not single and not warned and not apart:
        return None
    facts = {
        **{"single": len(single), "runs": len(runs), "ratios": len(known)},
        "undecided": sum(speed.verdict == UNDECIDED for speed in known),
        "apart": apart,
        **{"warned": warned, "of": runs_of(section.tables), "codes": codes},
    }
    return Observation("footnote_doubts", None, facts, evidence(known))


# The section


def section_time(section: Section) -> Observation | None:
    """The shortest and the longest iteration, eager and compiled."""
    facts = dict[str, Any]()
    for key, variant in (("eager", OFF), ("compiled", ON)):
        times = measured(section, TIME, variant)
        ends = [choose(times, key=lambda a: times[a]) for choose in (min, max)] if times else []
        facts[key] = [told(each, time=times[each]) for each in ends]
    return Observation("section_time", section.name, facts) if facts["eager"] else None


def section_rate(section: Section) -> Observation | None:
    """The lowest and the highest rate of the model, and what share of matrix products' it is."""
    ceilings, rates = section.tables.ceilings, measured(section, RATE)
    dtypes = {run["dtype"] for run in section.experiment.runs}
    names = {run["device_name"] for run in section.experiment.runs if run["status"] == "ok"}
    if ceilings is None or len(dtypes) != 1 or names != {ceilings.device_name} or not rates:
        return None
    product, plain = ceilings.matrix.get(next(iter(dtypes))), (section.baseline, OFF)
    if product is None or plain not in rates:
        return None
    best, sustained = max(rates, key=lambda each: rates[each]), product.sustained_rate
    facts = {
        "naive": told(plain, rate=rates[plain]),
        "best": told(best, rate=rates[best]),
        "ceiling": product.rate / 1e12,
        "share": rates[best] * 1e12 / product.rate,
        "sustained": sustained / 1e12 if sustained else None,
        "of_sustained": rates[best] * 1e12 / sustained if sustained else None,
    }
    return Observation("section_rate", section.name, facts)


def section_memory(section: Section) -> Observation | None:
    """The peak memory of both groups, and what compiling saves of it."""
    memory, names = measured(section, MEMORY), fused(section)
    plain = (section.baseline, OFF)
    of_fused = [size for (name, _), size in memory.items() if name in names]
    if plain not in memory or not of_fused:
        return None
    saved = {
        name: 1 - memory[name, ON] / memory[name, OFF]
        for name in section.implementations
        if (name, ON) in memory and (name, OFF) in memory
    }
    ends = [choose(saved, key=lambda n: saved[n]) for choose in (min, max)] if saved else []
    more = [n for n in section.implementations if memory.get((n, OFF), 0.0) > memory[plain]]
    facts = {
        **{"naive": section.baseline, "of_naive": memory[plain]},
        "fused": span(of_fused),
        "more": [{"name": name, "memory": memory[name, OFF]} for name in more],
        "saved": [{"name": name, "share": saved[name]} for name in ends],
        "energy": _energy(section, names[0]),
    }
    return Observation("section_memory", section.name, facts)


def _energy(section: Section, fused: str) -> dict[str, Any] | None:
    """The energy of an iteration: naive, with a fused attention, and compiled too."""
    steps = [(section.baseline, OFF), (fused, OFF), (fused, ON)]
    joules = [value_of(section, ENERGY, each) for each in steps]
    return None if None in joules else {"fused": fused, "joules": joules}


def section_why(section: Section) -> Observation | None:
    """The GPU's busy time with the naive attention, a fused one, and that one compiled."""
    names = fused(section)
    steps = [(section.baseline, OFF), *((names[0], v) for v in (OFF, ON))] if names else []
    found = list[dict[str, float]]()
    for each in steps:
        share, busy = busy_share(section, each), value_of(section, BUSY, each)
        kernels = value_of(section, KERNELS, each)
        if busy is not None and share is not None and kernels is not None:
            found.append({"busy": busy, "share": share, "kernels": kernels})
        elif each[1] == OFF:
            return None
    if len(found) < 2:
        return None
    naive, eager, *compiled = found
    counts = [round(each["kernels"]) for each in (eager, *compiled)]
    change = "same" if counts[-1] == counts[0] else ("fewer" if counts[-1] < counts[0] else "more")
    facts = {
        **{"naive": naive, "fused": names[0], "eager": eager},
        "compiled": {**compiled[0], "change": change} if compiled else None,
        "host_bound": eager["share"] <= HOST_BOUND,
    }
    return Observation("section_why", section.name, facts)


def processes_span(section: Section, run: Row, metric: str) -> list[float] | None:
    """The least and the greatest of a run's processes; None of fewer than two."""
    known = section.tables.estimates.of(section.experiment, run, metric)
    if known is None or len(section.experiment.processes_of(run)) < 2:
        return None
    return [known["least"], known["most"]]


def section_repeats(section: Section) -> Observation | None:
    """That processes of a run that keeps the GPU busy agree, and those of one that waits do not."""
    steady: list[dict[str, Any]] = []
    wandering: list[dict[str, Any]] = []
    for alternative in measured(section, TIME):
        run = section.run(*alternative, section.experiment.values[0])
        share = busy_share(section, alternative)
        if run is None or share is None:
            continue
        times, busy = processes_span(section, run, TIME), processes_span(section, run, BUSY)
        if not (times and busy):
            continue
        factor = times[1] / times[0]
        facts = told(alternative, times=times, share=share, busy=busy, factor=factor)
        if share >= FULL and factor <= REPEATS:
            steady.append(facts)
        elif share <= HOST_BOUND and factor >= WANDERS and busy[1] / busy[0] <= REPEATS:
            wandering.append(facts)
    if not steady or not wandering:
        return None
    chosen = max(steady, key=lambda f: f["share"]), max(wandering, key=lambda f: f["factor"])
    facts = {"steady": chosen[0], "wandering": chosen[1]}
    return Observation("section_repeats", section.name, facts)


def section_surprise(section: Section) -> Observation | None:
    """That the least busy GPU makes no shortest iteration; where it idles for most of the time."""
    busy, times = measured(section, BUSY), measured(section, TIME)
    shares = {each: share for each in busy if (share := busy_share(section, each)) is not None}
    if len(shares) < 2:
        return None
    least, best = (min(each, key=lambda a: each[a]) for each in (busy, times))
    speed = speed_of(section, least, best) if least != best else None
    found = None
    if speed is not None and shares[least] <= HOST_BOUND:
        found = told(least, busy=busy[least], time=times[least], idle=1 - shares[least])
        found["verdict"] = speed.verdict
    idlest = min(shares, key=lambda each: shares[each])
    extreme = None
    if shares[idlest] < 0.5 and idlest != least:
        extreme = told(idlest, busy=busy[idlest], time=times[idlest])
    if found is None and extreme is None:
        return None
    facts = {"least": found, "extreme": extreme}
    return Observation("section_surprise", section.name, facts, evidence([speed]))


def section_curves(section: Section) -> Observation | None:
    """The attentions whose loss differs from the naive one's by more than a seed makes it.

    It is told of the experiment on seeds, where that has a section.
    """
    of_seeds = [each for each in section.tables.sections if each is not section]
    seeds = (each.name for each in of_seeds if each.experiment.parameter.name == "seed")
    for curve in section.benchmark.curves:
        judged = [
            each
            for each in curve_distances(section.tables.experiments, curve)
            if each.is_judged and each.experiment is section.experiment
        ]
        if not judged:
            continue
        differing = [each for each in judged if each.differs]
        farthest = max(differing or judged, key=lambda each: each.distance)
        facts = {
            **{"naive": section.baseline, "seeds": farthest.count, "steps": farthest.steps},
            "differs": sorted({each.run["implementation"] for each in differing}),
            **{"distance": farthest.distance, "spread": farthest.spread},
        }
        return Observation("section_curves", next(seeds, section.name), facts)
    return None


def section_take(section: Section) -> Observation | None:
    """The lesson: attention, then compilation, and when a faster attention no longer shows."""
    use, why = answer_use(section), section_why(section)
    if use is None or why is None or not use.facts["compiled"]:
        return None
    eager = [(name, OFF) for name in fused(section)]
    apart = [speed_of(section, *both) for both in itertools.combinations(eager, 2)]
    alike = not any(speed is not None and speed.is_decided for speed in apart)
    facts = {"host_bound": why.facts["host_bound"] and alike}
    return Observation("section_take", section.name, facts, evidence(apart))


FRONT: tuple[Callable[[Section], Observation | None], ...] = (
    *(answer_use, answer_which, answer_cost),
    *(effect_attention, effect_compile, naive_compiled, footnote_doubts),
)
"""Page one, in its order."""

SECTION: tuple[Callable[[Section], Observation | None], ...] = (
    *(section_time, section_rate, section_memory, section_why, section_repeats),
    *(section_surprise, section_curves, section_take),
)
"""The observations of the section on the alternatives, in its order."""


def story(tables: Tables) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order."""
    section = alternatives_of(tables)
    if section is not None:
        yield from filter(None, (observe(section) for observe in (*FRONT, *SECTION)))
