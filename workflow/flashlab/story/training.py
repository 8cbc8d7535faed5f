"""The story of training a small model: the choice of its attention, and of compiling it.

The host sets the pace where the GPU is busy for a small share of an iteration, and it is the host's
time that differs between processes where the GPU's busy time repeats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from flashlab.analysis.comparison_rows import ALTERNATIVES, IMPLEMENTATIONS
from flashlab.analysis.experiment import CARDS_DIFFER
from flashlab.analysis.frames import Dataset
from flashlab.statistics import MARGIN
from flashlab.story.observation import Observation, Place
from flashlab.story.speeds import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Speed,
    Speeds,
    by_verdict,
    evidence,
    inverse,
    speeds_of,
    values_at,
    warned,
)

TIME, BUSY, MEMORY, KERNELS = "iteration_time", "gpu_busy_time", "peak_memory", "kernels"
COLUMNS = (TIME, BUSY, MEMORY, KERNELS, "energy", "compile_time", "first_step")
SWITCH = "compile"
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


@dataclass(frozen=True, eq=False)
class Training:
    """A dataset as its alternatives: `name` is the experiment that has them, at its value `at`."""

    data: Dataset
    name: str
    at: int

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row an alternative, the fastest attention's order kept: `COLUMNS`, and besides.

        ``share`` of an iteration for which the GPU is busy, in hundredths; ``least`` and ``most`` of
        the processes' iterations; ``wide``: how many times the least the most is, where the busy
        time repeats.
        """
        rows = {}
        for compiled, variant in VARIANTS.items():
            columns = {m: values_at(self.data, self.name, m, self.at, variant) for m in COLUMNS}
            for name, row in pd.DataFrame(columns).dropna(subset=TIME).iterrows():
                rows[str(name), compiled] = row
        order = [(n, c) for n in self.data.declared for c in VARIANTS if (n, c) in rows]
        table = pd.DataFrame({each: rows[each] for each in order}).T
        table["share"] = (table[BUSY] / table[TIME]).clip(upper=1.0).round(2)
        known = self.data.intervals.loc[self.name]
        for key in order:
            times, busy = (self._ends(known, metric, key) for metric in (TIME, BUSY))
            table.loc[[key], ["least", "most"]] = times
            table.loc[[key], "wide"] = times[1] / times[0] if busy[1] / busy[0] <= EVEN else np.nan
        return table

    def _ends(self, known: pd.DataFrame, metric: str, key: Alternative) -> tuple[float, float]:
        place = (VARIANTS[key[1]], metric, key[0], self.at)
        if place not in known.index:
            return np.nan, np.nan
        least, most = known.loc[[place], ["least", "most"]].to_numpy()[0]
        return float(least), float(most)

    @cached_property
    def plain(self) -> Alternative:
        """The naive attention, eager."""
        return self.data.baseline, False

    @cached_property
    def fused(self) -> list[str]:
        """The attentions that do not store their scores."""
        named = {name for name, _ in self.table.index}
        stored = {n for n, entry in self.data.declared.items() if entry.get("stores_scores")}
        return [n for n in self.data.declared if n in named - stored - {self.data.baseline}]

    @cached_property
    def _speeds(self) -> Speeds:
        return speeds_of(self.data)

    def speed(self, one: Alternative, over: Alternative) -> Speed | None:
        """The speed of one alternative over another; eager over compiled by its inverse."""
        if over[1] and not one[1]:
            found = self.speed(over, one)
            return inverse(found) if found else None
        same = IMPLEMENTATIONS if one[1] == over[1] else SWITCH if one[0] == over[0] else ALTERNATIVES
        names = VARIANTS[one[1]], TIME, one[0], over[0]
        return self._speeds.get((self.name, same, *names, self.at))

    def over(self, reference: Alternative, among: Iterable[Alternative]) -> dict[str, Speed]:
        """The speeds of alternatives over one, the fastest first, by attention."""
        found = {each[0]: s for each in among if (s := self.speed(each, reference))}
        return dict(sorted(found.items(), key=lambda item: -item[1].x))

    @cached_property
    def by_compiling(self) -> dict[str, Speed]:
        """The speed of each attention, compiled, over the same one eager, the fastest first."""
        compiled = [name for name, on in self.table.index if on]
        found = {n: s for n in compiled if (s := self.speed((n, True), (n, False)))}
        return dict(sorted(found.items(), key=lambda item: -item[1].x))

    @cached_property
    def advised(self) -> list[Alternative]:
        """Fused attentions, compiled or else eager, that are faster than the naive eager one."""
        for compiled in (True, False):
            among = [(n, compiled) for n in self.fused if (n, compiled) in self.table.index]
            told = by_verdict(self.over(self.plain, among))[FASTER]
            if told:
                return [each for each in among if each[0] in told]
        return []

    @cached_property
    def waiting(self) -> list[Alternative]:
        """The alternatives whose pace the host sets."""
        return [*self.table.index[self.table.share <= HOST]]

    @cached_property
    def printed(self) -> dict[tuple[Alternative, Alternative], Speed]:
        """The speeds of the table: over the naive eager attention, and over the same one eager."""
        pairs = [(each, self.plain) for each in self.table.index if each != self.plain]
        pairs += [((n, True), (n, False)) for n in self.by_compiling if n != self.plain[0]]
        return {pair: speed for pair in pairs if (speed := self.speed(*pair)) is not None}

    def observe(
        self,
        kind: str,
        facts: Mapping[str, Any],
        speeds: Iterable[Speed | None] = (),
        place: Place = "section",
        section: str | None = None,
        variant: str = "",
    ) -> Observation:
        """An observation on the rows of these speeds, of a section where it stands in one."""
        of = (section or self.name) if place == "section" else None
        return Observation(kind, of, facts, evidence(self.data, speeds), variant, place)


def training_of(data: Dataset) -> Training | None:
    """The alternatives of a dataset: the first experiment that has the naive one, eager."""
    for name, plan in data.plans.items():
        if plan["sweep"]:
            times = values_of(data, name)
            if len(times) and len(times.index.unique("at")) == 1:
                return Training(data, name, int(times.index.unique("at")[0]))
    return None


def values_of(data: Dataset, name: str) -> pd.Series[float]:
    """The naive attention's eager iterations in an experiment, by value; empty without any."""
    try:
        found = data.values.loc[name, VARIANTS[False], TIME]
    except KeyError:
        return pd.Series(dtype=float)
    return found[found.index.get_level_values("implementation") == data.baseline]


# Page one


def answer(d: Training) -> Observation:
    """The fused attentions that are faster than the naive one, and what compiling them costs."""
    if not d.advised:
        among = d.over(d.plain, [(n, c) for n, c in d.table.index if n in d.fused])
        return d.observe("answer", {"naive": d.data.baseline}, among.values(), "answer", variant="none")
    rows, compiled = d.table.loc[d.advised], d.advised[0][1]
    names, speeds = [name for name, _ in d.advised], d.over(d.plain, d.advised)
    rivals = _rivals(d)
    waits = rows[(rows.share <= HOST) & (rows.wide > 1 + MARGIN)]
    facts = {
        **{"naive": d.data.baseline, "names": names, "compiled": compiled},
        "x": [speed.x for speed in speeds.values()],
        "memory": float(rows[MEMORY].max() / d.table[MEMORY][d.plain]),
        "others": [n for n in d.fused if n not in names and (n, compiled) in d.table.index],
        "lowest": rows[TIME].idxmin()[0],
        "host": {"count": len(waits), "by": float(waits.wide.max()) - 1} if len(waits) else None,
        "cost": _cost(d) if compiled else None,
        "alone": _alone(d),
    }
    verdicts = {speed.verdict for speed in rivals.values()}
    which = {frozenset(): "one", frozenset({SLOWER}): "fastest", frozenset({EQUAL}): "equal"}
    facts["which"] = which.get(frozenset(verdicts), "undecided")
    alone = d.speed((d.data.baseline, True), (d.fused[0], False))
    found = [*speeds.values(), *rivals.values(), alone]
    return d.observe("answer", facts, found, "answer", variant="use")


def _rivals(d: Training) -> dict[str, Speed]:
    """The speeds of the advised ones over that of them with the lowest median."""
    lowest = d.table.loc[d.advised][TIME].idxmin()
    return d.over(lowest, [each for each in d.advised if each != lowest])


def _cost(d: Training) -> dict[str, list[float]] | None:
    """What compiling the advised ones takes, and after how many iterations it is made up for."""
    spent = d.table.compile_time.fillna(0.0)
    both = [(on, (on[0], False)) for on in d.advised if (on[0], False) in d.table.index]
    gains = [(spent[on] - spent[off], d.table[TIME][off] - d.table[TIME][on]) for on, off in both]
    after = [1e3 * seconds / gain for seconds, gain in gains if gain > 0 and seconds > 0]
    seconds = [spent[on] for on, _ in both]
    return {"seconds": seconds, "after": after} if after and len(after) == len(d.advised) else None


def _alone(d: Training) -> dict[str, Any] | None:
    """The naive attention, compiled, beside the first fused one, eager."""
    ends = (d.data.baseline, True), (d.fused[0], False)
    speed = d.speed(*ends)
    if speed is None:
        return None
    memory = float(d.table[MEMORY][ends[0]] / d.table[MEMORY][ends[1]])
    return {"fused": ends[1][0], "verdict": speed.verdict, "memory": memory}


def conclusion(d: Training) -> Observation | None:
    """First the attention, then compiling; and whether it matters which attention."""
    if not d.advised:
        return None
    rivals, lowest = _rivals(d), d.table.loc[d.advised][TIME].idxmin()[0]
    level = [lowest, *(name for name, speed in rivals.items() if speed.verdict != SLOWER)]
    waits = [each for each in d.advised if each in d.waiting]
    memory = d.table[MEMORY]
    facts = {
        "memory": bool((memory[d.advised] < memory[d.plain] / (1 + MARGIN)).all()),
        "compiled": d.advised[0][1],
        "host": any((name, False) in d.waiting for name, _ in d.advised),
        "level": level if len(level) > 2 and waits else [],
    }
    return d.observe("conclusion", facts, rivals.values(), "conclusion")


def notice(d: Training) -> Observation | None:
    """Failed runs, undecided speeds of the table and how many the host touches, and warnings."""
    open_ = [pair for pair, speed in d.printed.items() if speed.verdict == UNDECIDED]
    rows = d.data.comparisons.iloc[[s.row for s in d.by_compiling.values()]]
    failed = d.data.failed.index.unique("implementation")
    facts = {
        **{"failed": [*failed], "ratios": len(d.printed), "undecided": len(open_)},
        "touched": sum(any(each in d.waiting for each in pair) for pair in open_),
        "cards": bool(rows.doubts.fillna("").str.contains(CARDS_DIFFER).any()),
        **warned(d.data),
    }
    told = any(facts[key] for key in ("failed", "undecided", "cards", "warned"))
    return d.observe("notice", facts, [d.printed[pair] for pair in open_], "notice") if told else None


# Each attention, and the loss


def attention(d: Training) -> Observation | None:
    """The attentions beside the naive one, all eager."""
    eager = d.over(d.plain, [a for a in d.table.index if not a[1] and a != d.plain])
    told, memory = by_verdict(eager), d.table[MEMORY]
    more = [memory[name, False] > memory[d.plain] for name in told[SLOWER]]
    facts = {"naive": d.data.baseline, **told, "more": bool(more) and all(more)}
    return d.observe("attention", facts, eager.values()) if eager else None


def compiling(d: Training) -> Observation | None:
    """Whom compiling makes faster, and whether fewer kernels and less busy time go with it."""
    told, t = by_verdict(d.by_compiling), d.table
    if not d.by_compiling:
        return None
    both = [(t.loc[(n, False)], t.loc[(n, True)]) for n in told[FASTER]]
    breaks = d.data.runs.loc[d.name, VARIANTS[True]].graph_breaks
    facts = {
        **told,
        "of": len(d.by_compiling),
        "x": [d.by_compiling[name].x for name in told[FASTER]],
        "why": all(on[KERNELS] < off[KERNELS] and on[BUSY] < off[BUSY] for off, on in both),
        "breaks": [[n, int(b)] for n in told[SLOWER] if (b := breaks.get((n, d.at), 0)) > 0],
    }
    return d.observe("compiling", facts, d.by_compiling.values())


def host(d: Training, compiled: bool) -> Observation | None:
    """Where the host sets the pace, and where the GPU does."""
    part = d.table[[on == compiled for _, on in d.table.index]]
    slow, full = part[part.share <= HOST], part[part.share >= FULL]
    busy = (slow[BUSY] / d.table[BUSY][d.plain]).to_list()
    least = d.table[BUSY].idxmin() if d.table[BUSY].notna().any() else None
    facts = {
        "names": [name for name, _ in slow.index],
        "shares": [*slow.share],
        "gpu": [name for name, _ in full.index],
        "full": [*full.share],
        "fused": sorted(name for name, _ in slow.index) == sorted(d.fused),
        "busy": busy if busy and max(busy) < 1 / (1 + MARGIN) else [],
        "even": any(speed.verdict == FASTER for speed in d.by_compiling.values()),
        "least": [least[0], 1 - float(slow.share[least])] if least in slow.index else None,
    }
    variant = ("compiled" if compiled else "eager") if len(slow) else "gpu"
    told = len(slow) or (len(full) == len(part) > 0 if compiled else len(full))
    return d.observe("host", {**facts, "on": compiled}, variant=variant) if told else None


def curves(d: Training) -> Observation | None:
    """How far the losses lie from the naive one's, beside those of its seeds."""
    seeds = next((n for n, p in d.data.swept.items() if p == "seed" and n != d.name), None)
    if seeds is None:
        return None
    own, others = _losses(d.data, d.name), _losses(d.data, seeds)
    spread_of = {key[2]: curve for key, curve in others.items() if key[:2] == d.plain}
    base = own.get((*d.plain, d.at))
    if base is None or len(spread_of) < SEEDS or len(own) < 2:
        return None
    steps = min(map(len, [*own.values(), *spread_of.values()]))

    def apart(one: Sequence[float], other: Sequence[float]) -> float:
        return float(np.sqrt(np.mean(np.square(np.subtract(one[:steps], other[:steps])))))

    spread = max(apart(*pair) for pair in itertools.combinations(spread_of.values(), 2))
    away = {key: apart(curve, base) for key, curve in own.items() if key[:2] != d.plain}
    differs = sorted({key[0] for key, distance in away.items() if distance > spread})
    facts = {"naive": d.data.baseline, "seeds": len(spread_of), "steps": steps, "differs": differs}
    facts |= {"apart": max(away.values()), "spread": spread}
    variant = "differs" if differs else "alike"
    return d.observe("curves", facts, section=seeds, variant=variant)


def _losses(data: Dataset, name: str) -> dict[tuple[str, bool, int], list[float]]:
    """The loss by step of an experiment's runs, of the first process of each."""
    table = pd.read_csv(data.folder / "tables" / name / "curves.csv")
    table = table[table.metric == "loss"].sort_values("index")
    found: dict[tuple[str, bool, int], list[float]] = {}
    for key, part in table.groupby(["implementation", SWITCH, "seed"]):
        first = part[part.process == part.process.min()]
        found[str(key[0]), bool(key[1]), int(key[2])] = [*first["value"]]
    return found


def story(data: Dataset) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order."""
    d = training_of(data)
    if d is None:
        return
    told = [answer(d), notice(d), attention(d), host(d, False), compiling(d), host(d, True)]
    yield from (each for each in [*told, curves(d), conclusion(d)] if each is not None)
