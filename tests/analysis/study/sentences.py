"""Whether every sentence of planted reports on attention is true.

A sentence is judged by the clauses that its facts choose: each says something of the times that
were planted. Numbers that it prints are those of the tables, whose intervals another study judges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from analysis.study.world import METRICS, VALUES, WORK, Key, Truth, plant

from flashlab.analysis.frames import Dataset
from flashlab.story.attention.roles import margins
from flashlab.story.attention.sentences import observations
from flashlab.story.observation import Observation

MOST_FALSE = 0.001
"""Share of all sentences; of those on page one, none."""

Judge = Callable[[Observation, Mapping[str, Any], Truth, Dataset], Iterator[bool]]
"""Yields True for each claim of an observation's facts that holds."""

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "faster": lambda x: x > 1,
    "slower": lambda x: x < 1,
    "equal": lambda x: 1 / margins(2) <= x <= margins(2),
    "undecided": lambda x: True,
}
"""What a verdict on a speed claims of the true one; its margin is judged by another study."""


def _about(o: Observation, truth: Truth) -> tuple[str, bool]:
    assert o.section
    return o.section, truth.mask_of(o.section)


def clauses(facts: Any) -> Iterator[Mapping[str, Any]]:
    """All clauses among some facts."""
    if isinstance(facts, Mapping):
        if "says" in facts:
            yield facts
        for each in facts.values():
            yield from clauses(each)
    elif isinstance(facts, (list, tuple)):
        for each in facts:
            yield from clauses(each)


def _lead(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """The clauses on a lead: its verdicts, and how it changes."""
    s, mask = _about(o, truth)
    values = VALUES[s]
    x = {v: truth.speed(s, f["new"], f["base"], v, mask) for v in values}
    rest = {(s, n, mask, v) for n in (f["new"], f["base"]) for v in values} & truth.odd
    x = {v: t for v, t in x.items() if t == t and not any(v == key[3] for key in rest)}
    says = f["says"].removeprefix("lead_")
    if not x or f["at"][0] not in x or f["at"][1] not in x:
        return  # odd ones that are too many to leave out
    ends = x[f["at"][0]], x[f["at"][1]]
    least, most = min(x.values()), max(x.values())
    open_at = (f.get("open") or {"at": []})["at"]
    told = {v: t for v, t in x.items() if v not in open_at}
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
        yield all(map(RIGHT["faster"], told.values()))
    if says == "constant" or f.get("change") == "hardly":
        yield most / least <= margins(3)
    if says == "moves" and f["change"] != "hardly":
        yield (ends[1] > ends[0]) is (f["change"] == "grows")
    if says == "peaks":
        yield x.get(f["most"], 2.0) > x.get(f["least"], 1.0)


def _fold(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """How many times as long a time becomes, beside the operations."""
    s, mask = _about(o, truth)
    grown = o.facts["growth"]
    work = (grown["last"] / grown["first"]) ** WORK[truth.symbols[s]]
    ends = [truth.time((s, f["name"], mask, grown[end])) for end in ("last", "first")]
    x = ends[0] / ends[1]
    yield {
        "fold_below": x < work,
        "fold_above": x > work,
        "fold_flat": 1 / margins(2) < x < margins(2),
        "fold_falls": x < 1,
    }.get(f["says"], True)


def _pooled(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    verdict = f["verdict"]
    rows = [r for r in o.evidence if r.get("compared") == "implementations" and "value" in r]
    of = {(r["experiment"], r["variant"], r["value"]): truth.row(r) for r in rows}
    if of and not truth.odd:
        yield RIGHT[verdict](1 / geometric_mean(of.values()))


def _wins(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """Who has the lowest total: no other is plainly faster, but odd or near ones."""
    s, mask = _about(o, truth)
    near = (o.facts["near"] or {"names": []})["names"]
    every = f["says"] == "wins_every"
    for each in [f] if every else f["of"]:
        for v in VALUES[s] if every else each["at"]:
            mine = truth.time((s, each["name"], mask, v))
            sweep = next(x for x in data.sweeps if x.name == s)
            others = [n for n in sweep.names if n not in ("Pytorch", "SdpaMath", *near)]
            times = [
                truth.time((s, n, mask, v)) for n in others if (s, n, mask, v) not in truth.odd
            ]
            if mine == mine and (s, each["name"], mask, v) not in truth.odd:
                yield mine <= min((t for t in times if t == t), default=math.inf) * margins(2)


def _tiers(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    s, mask = _about(o, truth)
    for before, after in itertools.pairwise(f["of"]):
        last, first = ((s, n, mask, f["at"]) for n in (before["names"][-1], after["names"][0]))
        yield truth.time(last) < truth.time(first)


def _gain(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """Who becomes faster, or slower, with the mask."""
    s, verdict = o.section, "faster" if f["says"] == "mask_gain" else "slower"
    for name in f["who"]["names"] if verdict == "faster" else f["names"]:
        off, on = (truth.time((str(s), name, mask, f["at"])) for mask in (False, True))
        yield RIGHT[verdict](off / on)


def _mask_take(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    for name in f["who"]["names"]:
        off, on = (truth.speed(str(o.section), name, f["base"], f["at"], m) for m in (False, True))
        yield on > off


def _rows(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """The verdicts that a sentence counts or names."""
    words = {"below": "faster", "above": "slower", "equal": "equal"}
    for row in o.evidence:
        if row.get("value") is not None and row.get("verdict") in words and row.get("experiment"):
            yield RIGHT[words[row["verdict"]]](1 / truth.row(row))


def _take(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    s, mask = _about(o, truth)
    x = [truth.speed(s, f["new"], f["base"], v, mask) for v in f["at"]]
    kind = o.variant.removesuffix("_length")
    if kind in ("grows", "shrinks"):
        yield (x[1] > x[0]) is (kind == "grows")
        for name in (f["against"] or {"names": []})["names"]:
            other = [truth.speed(s, name, f["base"], v, mask) for v in f["at"]]
            if all(y == y for y in other):
                yield (other[1] < other[0]) is (kind == "grows")
    if kind == "catch_up":
        yield x[1] < x[0]
    if kind in ("fits", "batch", "still"):
        yield max(x) / min(x) <= margins(3)


def _moves(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """The two largest movements: that each is one, and for `most` that no other is larger."""
    by_mask = f["says"] == "moves_mask"
    for s, p in truth.symbols.items():
        if p == f["p"] and (s == "causal") is by_mask:
            at = f["at"][:1] if by_mask else f["at"]
            masks = (False, True) if by_mask else (truth.mask_of(s),)
            x = [truth.speed(s, f["name"], "Pytorch", v, m) for v in at for m in masks]
            yield (x[1] > x[0]) is (f["ends"][1] > f["ends"][0])


def _change(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """A parameter that widens, narrows or leaves the lead, by the leader's true ends."""
    kind = next(c["word"] for c in o.facts["parts"] if f in c["of"])
    s = f["experiment"]
    mask = truth.mask_of(s)
    x = [truth.speed(s, f["name"], "Pytorch", v, mask) for v in f["at"]]
    if f["says"] == "change_mask":
        x = [truth.speed(s, f["name"], "Pytorch", f["at"][0], m) for m in (False, True)]
    if kind in ("scores", "widen"):
        yield x[1] > x[0]
    elif kind in ("work", "narrow"):
        yield x[1] < x[0]
    else:
        yield max(x) / min(x) <= margins(3)


def _heads(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    s, mask = _about(o, truth)
    sweep = next(x for x in data.sweeps if x.name == s)
    dims = {int(run["head_dim"]): int(key[2]) for key, run in sweep._rows.items()}
    for name in f["who"]["names"]:
        times = {d: truth.time((s, name, mask, v)) for d, v in dims.items()}
        best = min(t for t in times.values() if t == t)
        yield min(times[d] for d in f["best"]) <= best * margins(1)
        yield max(times[d] for d in f["worst"]) > best


def _small_heads(
    o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset
) -> Iterator[bool]:
    s, mask = _about(o, truth)
    for name in f["names"]:
        a, b = (truth.time((s, name, mask, v)) for v in VALUES["emb_dim"][:2])
        yield a > b if f["word"] == "longer" else max(a, b) / min(a, b) <= margins(1)


def _odd(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    """That a rate dips: a pass is longer than those beside it leave room for."""
    for place, at in ((p, at) for p in f["places"] for at in p["at"]):
        told = f["name"], place["p"], at
        keys = [k for k in truth.odd if (k[1], truth.symbols[k[0]], k[3]) == told]
        yield any(_dips(truth, key, metric) for key in keys for metric in METRICS)


def _dips(truth: Truth, key: Key, metric: str) -> bool:
    s, name, mask, at = key
    values, power = VALUES[s], WORK[truth.symbols[s]]
    rates = [v**power / truth.time((s, name, mask, v), metric) for v in values]
    i = values.index(at)
    return 0 < i < len(values) - 1 and rates[i] < min(rates[i - 1], rates[i + 1]) / 1.2


def _gone(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    told = {(truth.symbols[k[0]], k[1], k[3], status) for k, status in truth.failed.items()}
    for place in f["places"]:
        yield {(place["p"], f["name"], at, f["status"]) for at in place["at"]} <= told


def _passes(o: Observation, f: Mapping[str, Any], truth: Truth, data: Dataset) -> Iterator[bool]:
    if not truth.odd:
        x = {}
        for metric in METRICS:
            of = {
                (s, mask, v): truth.speed(s, f["name"], "Pytorch", v, mask, metric)
                for s, n, mask, v in truth.times
                if n == f["name"]
            }
            known = [y for y in of.values() if y == y]
            x[metric.split("_")[0]] = geometric_mean(known)
        yield x[f["more"]] > x[f["less"]] / margins(1)


CLAUSES: Mapping[str, Judge] = {
    **{"fold": _fold, "lead": _lead, "pooled": _pooled, "tiers": _tiers, "moves": _moves},
    **{"wins_every": _wins, "wins_some": _wins, "mask_gain": _gain, "mask_slow": _gain},
    **{"change": _change, "change_mask": _change, "odd_at": _odd, "gone": _gone},
}
KINDS: Mapping[str, Judge] = {
    **{"answer": _rows, "cost": _rows, "take": _take, "mask_take": _mask_take, "heads": _heads},
    **{"small_heads": _small_heads, "passes": _passes},
}
"""Who judges a clause, by the beginning of what says it; and a whole sentence, by its kind."""


def judge(o: Observation, truth: Truth, data: Dataset) -> bool:
    """True if nothing that an observation says is false."""
    found = [*KINDS[o.name](o, o.facts, truth, data)] if o.name in KINDS else []
    for each in clauses(o.facts):
        says = each["says"]
        name = next((n for n in CLAUSES if says == n or says.startswith(f"{n}_")), None)
        if name and says != "lead_open_at" and not says.startswith("changes"):
            found += CLAUSES[name](o, each, truth, data)
    return all(found)


def study(reports: int, seed: int, folder: Path) -> Iterator[tuple[Observation, bool, int]]:
    """Every sentence of so many planted reports, whether it is true, and of which report it is."""
    for index in range(reports):
        data, truth = plant(np.random.default_rng([seed, index]), folder / str(index))
        for observation in observations(data):
            yield observation, judge(observation, truth, data), index
