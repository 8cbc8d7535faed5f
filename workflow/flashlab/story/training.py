"""The story of training a small model: the choice of its attention, and of compiling it.

The host sets the pace where the GPU is busy for a small share of an iteration, and it is the host's
time that differs between processes where the GPU's busy time repeats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from flashlab.analysis.experiment import ALTERNATIVES, CARDS_DIFFER, IMPLEMENTATIONS
from flashlab.analysis.frames import Dataset, read_table
from flashlab.statistics import MARGIN
from flashlab.story.observation import Observation
from flashlab.story.speeds import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Numbers,
    Speed,
    by_verdict,
    warned,
)

TIME, BUSY = "iteration_time", "gpu_busy_time"
VARIANTS = {False: "compile=false", True: "compile=true"}

HOST, FULL = 0.8, 0.9
"""Up to which share of an iteration the GPU is busy where the host sets the pace, and from which on
the GPU itself does."""

EVEN = 1.02
"""The greatest ratio of a busy time's processes that repeat it."""

SEEDS = 3
"""The fewest seeds that say how far curves of the same training lie apart."""

Alternative = tuple[str, bool]
"""An attention, and whether it is compiled."""


class Iteration(NamedTuple):
    """What was measured of an alternative, NaN where it was not; fields are metrics.

    `share` is that of the iteration for which the GPU is busy, in hundredths, `ends` the least and
    the greatest of the processes' iterations, `wide` their ratio where the busy time repeats.
    """

    iteration_time: float
    gpu_busy_time: float
    peak_memory: float
    kernels: float
    energy: float
    compile_time: float
    first_step: float
    share: float
    ends: tuple[float, float]
    wide: float


MEASURED = Iteration._fields[:7]


class Training(Numbers):
    """A dataset as its alternatives: of the experiment that has them, at its one value."""

    @cached_property
    def table(self) -> dict[Alternative, Iteration]:
        """The alternatives that have a time, in the plan's order, each attention eager first."""
        found = {}
        for name, (compiled, variant) in itertools.product(self.planned(), VARIANTS.items()):
            known = [self.values(m, variant=variant).get(name, math.nan) for m in MEASURED]
            time, busy = known[:2]
            if time == time:
                times, repeated = (self._ends(variant, metric, name) for metric in (TIME, BUSY))
                wide = times[1] / times[0] if repeated[1] / repeated[0] <= EVEN else math.nan
                share = round(min(busy / time, 1.0), 2) if busy == busy else math.nan
                row = {**dict(zip(MEASURED, known, strict=True)), "share": share, "wide": wide}
                found[name, compiled] = Iteration(ends=times, **row)
        return found

    def _ends(self, variant: str, metric: str, name: str) -> tuple[float, float]:
        key = (self.name, variant, metric, name, self.at)
        rows = self.data.intervals[["least", "most"]]
        found = rows[rows.index == key].to_numpy(dtype=float)
        return (float(found[0][0]), float(found[0][1])) if len(found) else (math.nan, math.nan)

    @cached_property
    def plain(self) -> Alternative:
        """The naive attention, eager."""
        return self.data.baseline, False

    @cached_property
    def fused(self) -> list[str]:
        """The attentions that do not store their scores."""
        stored = {n for n, entry in self.data.declared.items() if entry.get("stores_scores")}
        named = {name for name, _ in self.table} - stored - {self.data.baseline}
        return [name for name in self.planned() if name in named]

    def speed(self, one: Alternative, over: Alternative) -> Speed | None:
        """The speed of one alternative over another; eager over compiled by its inverse."""
        if not {one, over} <= self.table.keys():
            return None
        if over[1] and not one[1]:
            found = self.speed(over, one)
            return found.inverse if found else None
        same = "compile" if one[0] == over[0] else ALTERNATIVES
        same = IMPLEMENTATIONS if one[1] == over[1] else same
        return self.speeds.get((self.name, same, VARIANTS[one[1]], TIME, one[0], over[0], self.at))

    def over(self, reference: Alternative, among: Iterable[Alternative]) -> dict[str, Speed]:
        """The speeds of alternatives over one, the fastest first, by attention."""
        found = {each[0]: s for each in among if (s := self.speed(each, reference))}
        return dict(sorted(found.items(), key=lambda item: -item[1].x))

    @cached_property
    def by_compiling(self) -> dict[str, Speed]:
        """The speed of each attention, compiled, over the same one eager, the fastest first."""
        found = {n: s for n, on in self.table if on and (s := self.speed((n, True), (n, False)))}
        return dict(sorted(found.items(), key=lambda item: -item[1].x))

    @cached_property
    def advised(self) -> list[Alternative]:
        """Fused attentions that are faster than the naive eager one: compiled, or eager.

        They are compiled where the fastest of these has the lower median.
        """
        found = list[list[Alternative]]()
        for compiled in VARIANTS:
            among = [(name, compiled) for name in self.fused if (name, compiled) in self.table]
            told = by_verdict(self.over(self.plain, among))[FASTER]
            found.append([each for each in among if each[0] in told])
        return min(filter(None, found), key=lambda of: min(map(self._time, of)), default=[])

    def _time(self, key: Alternative) -> float:
        return self.table[key].iteration_time

    def memory(self, one: Alternative, other: Alternative) -> float:
        """The peak memory of one alternative over another's; NaN where either is missing."""
        return self.table[one].peak_memory / self.table[other].peak_memory

    @cached_property
    def lowest(self) -> Alternative:
        """The advised one with the lowest median."""
        return min(self.advised, key=self._time)

    @cached_property
    def compiling(self) -> Speed | None:
        """The speed of the lowest one over the same one eager, where it is the compiled one."""
        return self.by_compiling.get(self.lowest[0]) if self.lowest[1] else None

    @cached_property
    def rivals(self) -> dict[str, Speed]:
        """The speeds of the other advised ones over it."""
        return self.over(self.lowest, [each for each in self.advised if each != self.lowest])

    @cached_property
    def waiting(self) -> list[Alternative]:
        """The alternatives whose pace the host sets."""
        return [key for key, row in self.table.items() if row.share <= HOST]

    @cached_property
    def printed(self) -> dict[tuple[Alternative, Alternative], Speed]:
        """The speeds of the table: over the naive eager attention, and over the same one eager."""
        pairs = [(each, self.plain) for each in self.table if each != self.plain]
        pairs += [((n, True), (n, False)) for n in self.by_compiling if n != self.plain[0]]
        return {pair: speed for pair in pairs if (speed := self.speed(*pair)) is not None}


def training_of(data: Dataset) -> Training | None:
    """The alternatives of a dataset: the first experiment of one value with the naive one eager."""
    for name in data.swept:
        places = Training(data, name, 0).places()
        if len(places) == 1:
            found = Training(data, name, places[0])
            if found.plain in found.table:
                return found
    return None


# Page one


def answer(d: Training) -> Observation:
    """The fused attentions that are faster than the naive one, and what compiling them costs."""
    if not d.advised:
        among = d.over(d.plain, [each for each in d.table if each[0] in d.fused])
        facts: dict[str, Any] = {"naive": d.data.baseline}
        return d.observe("answer", facts, among.values(), "answer", variant="none")
    names, speeds = [name for name, _ in d.advised], d.over(d.plain, d.advised)
    told, compiled = by_verdict(d.rivals), d.lowest[1]
    level = [name for name in names if name not in told[SLOWER]]
    rows = [d.table[name, compiled] for name in level]
    waits = [row.wide - 1 for row in rows if row.share <= HOST and row.wide > 1 + MARGIN]
    which = "fastest" if len(level) == 1 else "undecided" if told[UNDECIDED] else "equal"
    fused = d.fused[0]
    ends = (d.data.baseline, True), (fused, False)
    alone = d.speed(*ends)
    facts = {
        **{"naive": d.data.baseline, "names": names, "compiled": compiled},
        "pays": d.compiling is not None and d.compiling.verdict == FASTER,
        "x": [speed.x for speed in speeds.values()],
        "memory": max(d.memory(each, d.plain) for each in d.advised),
        "others": [n for n in d.fused if n not in names and (n, compiled) in d.table],
        **{"which": which if d.rivals else "one", "lowest": d.lowest[0], "level": level},
        "host": {"count": sum(r.share <= HOST for r in rows), "by": max(waits)} if waits else None,
        "cost": _cost(d) if compiled else None,
        "alone": alone and {"fused": fused, "verdict": alone.verdict, "memory": d.memory(*ends)},
    }
    found = [*speeds.values(), *d.rivals.values(), d.compiling, alone]
    return d.observe("answer", facts, found, "answer", variant="use")


def _cost(d: Training) -> dict[str, Any] | None:
    """What compiling takes, and after how many iterations it is made up for.

    Of the advised ones that it is shown to make faster, if any.
    """
    faster = [n for n in by_verdict(d.by_compiling)[FASTER] if d.table[n, True].compile_time > 0]
    names = [name for name, _ in d.advised if name in faster]
    rows = [(d.table[name, True], d.table[name, False]) for name in names]
    seconds, after = [on.compile_time for on, _ in rows], list[float]()
    for on, off in rows:
        before = off.compile_time if off.compile_time > 0 else 0.0
        gain = off.iteration_time - on.iteration_time
        after.append(1e3 * (on.compile_time - before) / gain)
    return {"seconds": seconds, "after": after, "names": names} if names else None


def conclusion(d: Training) -> Observation | None:
    """First the attention, then compiling; and whether it matters which attention."""
    if not d.advised:
        return None
    level = [n for n, speed in d.rivals.items() if speed.verdict == EQUAL]
    facts = {
        "memory": all(d.memory(each, d.plain) < 1 / (1 + MARGIN) for each in d.advised),
        "compiled": d.compiling is not None and d.compiling.verdict == FASTER,
        "host": all((name, False) in d.waiting for name, _ in d.advised),
        "level": [d.lowest[0], *level] if level and {*d.advised} & {*d.waiting} else [],
    }
    return d.observe("conclusion", facts, [*d.rivals.values(), d.compiling], "conclusion")


def notice(d: Training) -> Observation | None:
    """Failed runs, undecided speeds of the table and how many the host touches, and warnings."""
    open_ = [pair for pair, speed in d.printed.items() if speed.verdict == UNDECIDED]
    rows = d.data.comparisons.iloc[[speed.row for speed in d.printed.values()]]
    failed = d.data.failed.index.unique("implementation")
    facts = {
        **{"failed": [*failed], "ratios": len(d.printed), "undecided": len(open_)},
        "touched": sum(any(each in d.waiting for each in pair) for pair in open_),
        "cards": bool(rows.doubts.fillna("").str.contains(CARDS_DIFFER).any()),
        **warned(d.data),
    }
    if not any(facts[key] for key in ("failed", "undecided", "cards", "warned")):
        return None
    return d.observe("notice", facts, [d.printed[pair] for pair in open_], "notice")


# Each attention, and the loss


def attention(d: Training) -> Observation | None:
    """The attentions beside the naive one, all eager."""
    eager = d.over(d.plain, [each for each in d.table if not each[1] and each != d.plain])
    told = by_verdict(eager)
    more = [d.memory((name, False), d.plain) > 1 for name in told[SLOWER]]
    facts = {"naive": d.data.baseline, **told, "more": bool(more) and all(more)}
    return d.observe("attention", facts, eager.values()) if eager else None


def compiling(d: Training) -> Observation | None:
    """Whom compiling makes faster, and whether fewer kernels and less busy time go with it."""
    if not d.by_compiling:
        return None
    told, runs = by_verdict(d.by_compiling), d.data.runs.loc[d.name].loc[VARIANTS[True]]
    breaks = runs.graph_breaks.fillna(0).astype(int).droplevel("at").to_dict()
    both = [(d.table[n, False], d.table[n, True]) for n in told[FASTER]]
    facts = {
        **told,
        "of": len(d.by_compiling),
        "x": [d.by_compiling[name].x for name in told[FASTER]],
        "why": all(
            on.kernels < off.kernels and on.gpu_busy_time < off.gpu_busy_time for off, on in both
        ),
        "breaks": [[name, breaks[name]] for name in told[SLOWER] if breaks.get(name)],
    }
    return d.observe("compiling", facts, d.by_compiling.values())


def host(d: Training, compiled: bool) -> Observation | None:
    """Where the host sets the pace, and where the GPU does."""
    part = {name: row for (name, on), row in d.table.items() if on == compiled}
    slow = {name: row for name, row in part.items() if row.share <= HOST}
    full = {name: row for name, row in part.items() if row.share >= FULL}
    naive = d.table[d.plain].gpu_busy_time
    busy = [row.gpu_busy_time / naive for row in slow.values()]
    known = [key for key, row in d.table.items() if row.gpu_busy_time == row.gpu_busy_time]
    least = min(known, key=lambda key: d.table[key].gpu_busy_time, default=d.plain)
    facts = {
        **{"on": compiled, "names": [*slow], "shares": [row.share for row in slow.values()]},
        **{"gpu": [*full], "full": [row.share for row in full.values()]},
        "fused": sorted(slow) == sorted(d.fused),
        "busy": busy if busy and max(busy) < 1 / (1 + MARGIN) else [],
        "even": any(n in slow for n in by_verdict(d.by_compiling)[FASTER]),
        "least": None,
    }
    if least[1] == compiled and least[0] in slow:
        facts["least"] = [least[0], 1 - slow[least[0]].share]
    if not slow and (not full or (compiled and len(full) < len(part))):
        return None
    variant = "gpu" if not slow else "compiled" if compiled else "eager"
    rows = d.measured((TIME, BUSY), part, VARIANTS[compiled])
    return d.observe("host", facts, variant=variant, measured=rows)


def curves(d: Training) -> Observation | None:
    """How far the losses lie from the naive one's, beside those of its seeds."""
    seeds = next((n for n, p in d.data.swept.items() if p == "seed" and n != d.name), None)
    if seeds is None:
        return None
    own, others = _losses(d.data, d.name), _losses(d.data, seeds)
    alike = {key[2]: curves[0] for key, curves in others.items() if key[:2] == d.plain}
    base = own.get((*d.plain, d.at))
    if base is None or len(alike) < SEEDS or len(own) < 2:
        return None
    steps = min(map(len, [*itertools.chain(*own.values()), *alike.values()]))

    def apart(one: Sequence[float], other: Sequence[float]) -> float:
        return float(np.sqrt(np.mean(np.square(np.subtract(one[:steps], other[:steps])))))

    spread = max(apart(*pair) for pair in itertools.combinations(alike.values(), 2))
    away = {
        key: max(apart(curve, base[0]) for curve in curves)
        for key, curves in own.items()
        if key[:2] != d.plain
    }
    differs = sorted({key[0] for key, distance in away.items() if distance > spread})
    facts = {"naive": d.data.baseline, "seeds": len(alike), "steps": steps, "differs": differs}
    facts |= {"apart": max(away.values()), "spread": spread}
    variant = "differs" if differs else "alike"
    return d.observe("curves", facts, section=seeds, variant=variant)


def _losses(data: Dataset, name: str) -> dict[tuple[str, bool, int], list[list[float]]]:
    """The loss by step of an experiment's runs, of each process, the first one first."""
    table = read_table(data.folder / "tables" / name / "curves.csv")
    table = table[table.metric == "loss"].sort_values(["process", "index"])
    found: dict[tuple[str, bool, int], dict[int, list[float]]] = {}
    columns = (table[column] for column in ("implementation", "compile", "seed", "process"))
    for *key, process, value in zip(*columns, table["value"], strict=True):
        curves_of = found.setdefault((key[0], bool(key[1]), int(key[2])), {})
        curves_of.setdefault(process, []).append(value)
    return {key: [*of.values()] for key, of in found.items()}


def story(data: Dataset) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order."""
    d = training_of(data)
    if d is None:
        return
    told = [answer(d), notice(d), attention(d), host(d, False), compiling(d), host(d, True)]
    yield from (each for each in [*told, curves(d), conclusion(d)] if each is not None)
