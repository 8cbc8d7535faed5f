"""Whether every sentence of planted reports on attention is true.

A sentence is judged by the clauses that its facts choose: each says something of the times that
were planted. Numbers that it prints and rows that it counts are those of the tables, which `rows`
judges; that a run dips is theirs, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from analysis.study.world import METRICS, VALUES, WORK, Truth, plant

from flashlab.analysis.frames import Dataset, Sweep
from flashlab.story.attention.roles import head_dims, margins
from flashlab.story.attention.sentences import observations
from flashlab.story.observation import Observation

MOST_FALSE = 0.001
"""Share of all sentences; of those on page one, none."""

Facts = Mapping[str, Any]

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "faster": lambda x: x > 1,
    "slower": lambda x: x < 1,
    "equal": lambda x: 1 / margins(2) <= x <= margins(2),
    "undecided": lambda x: True,
}
"""What a verdict on a speed claims of the true one; its margin is judged by another study."""


def clauses(facts: Any) -> Iterator[Facts]:
    """All clauses among some facts."""
    if isinstance(facts, Mapping):
        if "says" in facts:
            yield facts
        facts = [*facts.values()]
    for each in facts if isinstance(facts, (list, tuple)) else ():
        yield from clauses(each)


def _is_flat(x: Sequence[float], of: int = 3) -> bool:
    return max(x) / min(x) <= margins(of)


@dataclass
class Judge:
    """Judges an observation; each method yields True for each claim of some facts that holds."""

    o: Observation
    truth: Truth
    data: Dataset

    @cached_property
    def s(self) -> str:
        """The experiment that the observation is about."""
        assert self.o.section
        return self.o.section

    @cached_property
    def mask(self) -> bool:
        return self.truth.mask_of(self.s)

    @property
    def sweep(self) -> Sweep:
        return next(x for x in self.data.sweeps if x.name == self.s)

    def time(self, name: str, at: int, mask: bool | None = None) -> float:
        return self.truth.time((self.s, name, self.mask if mask is None else mask, at))

    def speed(self, name: str, over: str, at: int, mask: bool | None = None) -> float:
        return self.time(over, at, mask) / self.time(name, at, mask)

    def is_odd(self, name: str, at: int) -> bool:
        return (self.s, name, self.mask, at) in self.truth.odd

    def lead(self, f: Facts) -> Iterator[bool]:
        """The clauses on a lead: its verdicts, and how it changes."""
        x = {v: self.speed(f["new"], f["base"], v) for v in VALUES[self.s]}
        rest = {v for v in x for name in (f["new"], f["base"]) if self.is_odd(name, v)}
        x = {v: t for v, t in x.items() if t == t and v not in rest}
        says = f["says"].removeprefix("lead_")
        if not {*f["at"][:2]} <= x.keys():
            return  # odd ones that are too many to leave out
        ends = x[f["at"][0]], x[f["at"][1]]
        open_at = (f.get("open") or {"at": []})["at"]
        if says == "single":
            yield RIGHT[f["verdict"]](ends[0])
        elif says == "equal":
            yield all(map(RIGHT["equal"], x.values()))
        elif says == "turns":
            for verdict in ("faster", "slower"):
                yield all(RIGHT[verdict](x[v]) for v in f[verdict]["at"] if v in x)
        elif says in ("slower", "slower_at"):
            yield all(RIGHT["slower"](x[v]) for v in f["slower"] if v in x)
        elif says != "undecided":
            yield all(RIGHT["faster"](t) for v, t in x.items() if v not in open_at)
        if says == "constant":
            yield _is_flat([*x.values()])
        if says == "moves":
            yield (ends[1] > ends[0]) is (f["change"] == "grows")
            steps = [b > a for a, b in itertools.pairwise(x.values())]
            yield f["way"] != "turns" or (any(steps) and not all(steps))
        if says == "peaks":
            yield x.get(f["most"], 2.0) > x.get(f["least"], 1.0)

    def fold(self, f: Facts) -> Iterator[bool]:
        """How many times as long a time becomes, beside the operations."""
        last, first = (self.o.facts["growth"][end] for end in ("last", "first"))
        work = (last / first) ** WORK[self.truth.symbols[self.s]]
        x = self.time(f["name"], last) / self.time(f["name"], first)
        of = {"fold_below": x < work, "fold_above": x > work, "fold_falls": x < 1}
        yield {**of, "fold_flat": 1 / margins(2) < x < margins(2)}.get(f["says"], True)

    def pooled(self, f: Facts) -> Iterator[bool]:
        of = {
            (r["experiment"], r["variant"], r["value"]): self.truth.row(r)
            for r in self.o.evidence
            if r.get("compared") == "implementations" and "value" in r
        }
        if of and not self.truth.odd:
            yield RIGHT[f["verdict"]](1 / geometric_mean(of.values()))

    def wins(self, f: Facts) -> Iterator[bool]:
        """Who has the lowest total: no other is plainly faster, but odd or near ones."""
        of, every = (self.o.facts["near"] or {"of": []})["of"], f["says"] == "wins_every"
        near = {name for each in of for name in each["names"]}
        others = [name for name in self.sweep.names if name not in near]
        for each in [f] if every else f["of"]:
            for v in VALUES[self.s] if every else each["at"]:
                mine = self.time(each["name"], v)
                times = [self.time(n, v) for n in others if not self.is_odd(n, v)]
                if mine == mine and not self.is_odd(each["name"], v):
                    yield mine <= min((t for t in times if t == t), default=math.inf) * margins(2)

    def tiers(self, f: Facts) -> Iterator[bool]:
        for before, after in itertools.pairwise(f["of"]):
            yield self.time(before["names"][-1], f["at"]) < self.time(after["names"][0], f["at"])

    def gain(self, f: Facts) -> Iterator[bool]:
        """Who becomes faster, or slower, with the mask."""
        is_gain = f["says"] == "mask_gain"
        for name in f["who"]["names"] if is_gain else f["names"]:
            off, on = (self.time(name, f["at"], mask) for mask in (False, True))
            yield RIGHT["faster" if is_gain else "slower"](off / on)

    def mask_take(self, f: Facts) -> Iterator[bool]:
        for name in f["who"]["names"]:
            off, on = (self.speed(name, f["base"], f["at"], mask) for mask in (False, True))
            yield on > off

    def take(self, f: Facts) -> Iterator[bool]:
        x = [self.speed(f["new"], f["base"], v) for v in f["at"]]
        kind = self.o.variant.removesuffix("_length")
        if kind in ("grows", "shrinks"):
            yield (x[1] > x[0]) is (kind == "grows")
            for name in (f["against"] or {"names": []})["names"]:
                other = [self.speed(name, f["base"], v) for v in f["at"]]
                if all(y == y for y in other):
                    yield (other[1] < other[0]) is (kind == "grows")
        if kind == "catch_up":
            yield x[1] < x[0]
        if kind in ("fits", "still"):
            yield _is_flat(x)

    def _ends(self, s: str, f: Facts, by_mask: bool) -> list[float]:
        """The speeds over the baseline at both ends of a movement."""
        values = f["at"][:1] if by_mask else f["at"]
        masks = (False, True) if by_mask else (self.truth.mask_of(s),)
        return [self.truth.speed(s, f["name"], "Pytorch", v, m) for v in values for m in masks]

    def moves(self, f: Facts) -> Iterator[bool]:
        """The two largest movements: that each is one, and for `most` that no other is larger."""
        by_mask = f["says"] == "moves_mask"
        for s, p in self.truth.symbols.items():
            if p == f["p"] and (s == "causal") is by_mask:
                x = self._ends(s, f, by_mask)
                yield (x[1] > x[0]) is (f["ends"][1] > f["ends"][0])

    def change(self, f: Facts) -> Iterator[bool]:
        """A parameter that widens, narrows or leaves the lead, by the leader's true ends."""
        kind = next(c["says"] for c in self.o.facts["parts"] if f in c["of"])
        x = self._ends(f["experiment"], f, f["says"] == "change_mask")
        if kind == "changes_keeps":
            yield _is_flat(x)
        else:
            yield (x[1] > x[0]) is (kind == "changes_grows")

    def heads(self, f: Facts) -> Iterator[bool]:
        for name in f["who"]["names"]:
            times = {d: self.time(name, v) for v, d in head_dims(self.sweep).items()}
            best = min(t for t in times.values() if t == t)
            yield min(times[d] for d in f["best"]) <= best * margins(1)
            yield max(times[d] for d in f["worst"]) > best

    def small_heads(self, f: Facts) -> Iterator[bool]:
        for name in f["names"]:
            both = [self.time(name, v) for v in VALUES["emb_dim"][:2]]
            yield both[0] > both[1] if f["word"] == "longer" else _is_flat(both, 1)

    def gone(self, f: Facts) -> Iterator[bool]:
        """That runs failed, at values of a sweep or of the size of a head."""
        told, dims = set(), {s.name: head_dims(s) for s in self.data.sweeps}
        for (s, name, _, at), status in self.truth.failed.items():
            told.add((self.truth.symbols[s], name, at, status))
            told.add(("d", name, dims[s].get(at), status))
        for place in f["places"]:
            yield {(place["p"], f["name"], at, f["status"]) for at in place["at"]} <= told

    def passes(self, f: Facts) -> Iterator[bool]:
        keys = [] if self.truth.odd else [k for k in self.truth.times if k[1] == f["name"]]
        x = {}
        for metric in METRICS:
            every = [self.truth.speed(s, n, "Pytorch", v, m, metric) for s, n, m, v in keys]
            x[metric.split("_")[0]] = [y for y in every if y == y]
        if keys:
            yield geometric_mean(x[f["more"]]) > geometric_mean(x[f["less"]]) / margins(1)


CLAUSES: Mapping[str, Callable[[Judge, Facts], Iterator[bool]]] = {
    **{"fold": Judge.fold, "lead": Judge.lead, "pooled": Judge.pooled, "tiers": Judge.tiers},
    **{"wins_every": Judge.wins, "wins_some": Judge.wins, "moves": Judge.moves},
    **{"mask_gain": Judge.gain, "mask_slow": Judge.gain, "change": Judge.change},
    **{"gone": Judge.gone},
}
KINDS: Mapping[str, Callable[[Judge, Facts], Iterator[bool]]] = {
    **{"take": Judge.take, "mask_take": Judge.mask_take, "heads": Judge.heads},
    **{"small_heads": Judge.small_heads, "passes": Judge.passes},
}
"""Who judges a clause, by the beginning of what says it; and a whole sentence, by its kind."""


def judge(o: Observation, truth: Truth, data: Dataset) -> bool:
    """True if nothing that an observation says is false."""
    of = Judge(o, truth, data)
    found = [*KINDS[o.name](of, o.facts)] if o.name in KINDS else []
    for each in clauses(o.facts):
        says = each["says"]
        name = next((n for n in CLAUSES if says == n or says.startswith(f"{n}_")), None)
        if name and says not in ("lead_open_at", "lead_left") and not says.startswith("changes"):
            found += CLAUSES[name](of, each)
    return all(found)


def study(reports: int, seed: int, folder: Path) -> Iterator[tuple[Observation, bool, int]]:
    """Every sentence of so many planted reports, whether it is true, and of which report it is."""
    for index in range(reports):
        data, truth = plant(np.random.default_rng([seed, index]), folder / str(index))
        for observation in observations(data):
            yield observation, judge(observation, truth, data), index
