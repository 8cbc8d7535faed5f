"""Page one and the conclusion: which to use, what moves the lead, what it costs."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import pandas as pd

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.frames import POOLED, Dataset, Sweep, number, word
from flashlab.story.attention import roles
from flashlab.story.attention.causes import head_sizes
from flashlab.story.attention.mask import ON, mask_ends, widened
from flashlab.story.attention.roles import MEMORY, PASSES, SAVES, TOTAL
from flashlab.story.observation import Observation, clause

MOST_NAMED = 3
"""Most passes that are named where one is slower."""


def told(data: Dataset) -> list[Sweep]:
    """The experiments that say what moves the lead: those with the baseline, of the usual kind."""
    return [s for s in compared(data) if s.symbol != roles.SHARED]


def compared(data: Dataset) -> list[Sweep]:
    """The experiments that have the baseline and others."""
    return [s for s in data.sweeps if _is_compared(s)]


def _is_compared(s: Sweep) -> bool:
    return roles.has_baseline(s) and bool(roles.subjects(s))


def _has_several(data: Dataset) -> bool:
    """True where more than one is told beside the baseline."""
    return len({n for s in told(data) for n in roles.subjects(s)}) > 1


@lru_cache(maxsize=8)
def settings(data: Dataset, metric: str = TOTAL) -> pd.DataFrame:
    """Every subject's speed over the baseline at each distinct setting, a row each.

    Columns: ``name``, ``setting``, the columns of a speed, ``memory`` as a share of the baseline's,
    ``head_dim``, ``p``, ``at``, ``variant``, ``several`` (masks). Odd ones are left out, unless all
    are.
    """
    speeds = data.speeds.reset_index()
    is_single = (speeds.compared == IMPLEMENTATIONS) & (speeds["at"] != POOLED)
    is_mine = is_single & (speeds.metric == metric) & (speeds.reference == data.baseline)
    rows = speeds[is_mine].rename(columns={"subject": "name"})
    about = [
        (s.name, n, s.symbol, len(s.variants) > 1)
        for s in filter(_is_compared, (*data.sweeps, *data.beside))
        for n in roles.subjects(s)
    ]
    known = pd.DataFrame(about, columns=["experiment", "name", "p", "several"])
    runs = _with_settings(data)
    key = ["experiment", "variant", "name", "at"]
    rows = rows.merge(known, on=["experiment", "name"]).merge(runs, on=key)
    memory = data.values[data.values.index.get_level_values("metric") == MEMORY]
    peaks = memory.rename("peak").reset_index().rename(columns={"implementation": "name"})
    base = peaks[peaks.name == data.baseline].drop(columns=["name", "metric"])
    rows = rows.merge(peaks.drop(columns="metric"), on=key, how="left")
    rows = rows.merge(base, on=["experiment", "variant", "at"], how="left", suffixes=("", "_base"))
    order = {s.name: i for i, s in enumerate((*data.sweeps, *data.beside))}
    rows = rows.assign(memory=rows.peak / rows.peak_base, place=rows.experiment.map(order))
    found = rows.sort_values("place", kind="stable").drop_duplicates(["name", "setting"])
    usual = found[~found.odd.astype(bool)]
    return usual if len(usual) else found


@lru_cache(maxsize=8)  # no caller changes it
def _with_settings(data: Dataset) -> pd.DataFrame:
    """The runs by experiment, variant, name and value, with the ``setting`` of each in a word."""
    given = [parameter.name for parameter in data.benchmark.given]
    runs = data.runs.reset_index(names=["experiment", "variant", "name", "at"])
    words = runs[given].astype(str).agg(" ".join, axis=1) if len(runs) else pd.Series(dtype=str)
    dips = runs.odd.astype(bool)
    found = runs[["experiment", "variant", "name", "at", "head_dim"]]
    return found.assign(setting=words, dips=dips)


def answer(data: Dataset) -> Observation | None:
    """Which to use: how often it is faster, by how much, and in how much of the memory."""
    rows = settings(data)
    if rows.empty:
        return None
    names = [str(name) for name in rows.name.unique()]
    counts = {v: int((rows.verdict == v).sum()) for v in ("faster", "slower", "equal", "undecided")}
    memory = rows.memory.dropna()
    facts: dict[str, Any] = {"base": data.baseline, "new": names[0], "of": len(rows), **counts}
    facts |= {"x": roles.span(rows.x), "memory": None, "pooled": None, "saves": None}
    if len(memory):
        word_ = "less" if memory.max() < 1 else "more"
        facts["memory"] = clause("in_memory", word=word_, x=roles.span(memory))
        saves = clause("for_memory", new=names[0], base=data.baseline, x=roles.span(memory))
        facts["saves"] = saves if memory.max() < SAVES else None
    facts["rest"] = [
        clause("rest", verdict=v, count=counts[v]) for v in ("equal", "undecided") if counts[v]
    ]
    evidence = data.rows(rows)
    if len(names) > 1:
        return Observation(
            "answer", None, facts | _many(data, rows), evidence, _many_variant(counts), "answer"
        )
    pooled = data.pooled(TOTAL, names[0], data.baseline)
    verdict = word(pooled, POOLED, "verdict")
    if verdict in roles.DECIDED:
        facts["pooled"] = clause("pooled", new=names[0], x=number(pooled, POOLED, "x"))
        facts["pooled"]["verdict"] = verdict
        evidence += data.rows(pooled)
    return Observation("answer", None, facts, evidence, _one_variant(counts, len(rows)), "answer")


def _one_variant(counts: dict[str, int], of: int) -> str:
    """Which sentence on one implementation beside the baseline."""
    if counts["faster"] == of:
        return "all"
    if counts["faster"] and counts["slower"]:
        return "choose"
    if counts["faster"] * 2 > of:
        return "most"
    return "stay" if counts["slower"] else "even"


def _many_variant(counts: dict[str, int]) -> str:
    return "many" if counts["faster"] * 2 > sum(counts.values()) else "many_even"


def _many(data: Dataset, rows: pd.DataFrame) -> dict[str, Any]:
    """Of several: the exceptions, who has the lowest total where, and who without our own."""
    names = [str(name) for name in rows.name.unique()]
    fused = not any(roles.stores_scores(data, name) for name in names)
    fast, slow = rows[rows.verdict == "faster"], rows[rows.verdict == "slower"]
    exceptions = [
        clause("exception", name=name, d=sorted({*map(int, r.head_dim)}), x=roles.span(r.x))
        for name, r in slow.groupby("name")
    ]
    wins = _wins(data)
    best = max(wins, key=lambda name: wins[name], default=None) if wins else None
    facts: dict[str, Any] = {
        "use": clause("use_fused" if fused else "use_other"),
        "x": roles.span(fast.x if len(fast) else rows.x),
        "slow": clause("exceptions", of=exceptions) if exceptions else None,
        "wins": None,
    }
    if best is None or sum(wins.values()) == 1:
        return facts
    own = None
    if data.declared[best].get("tuned_on"):
        devices = {str(d) for d in data.runs.device_name}
        here = devices <= {*data.declared[best]["tuned_on"]}
        others = _wins(data, without=[n for n in data.declared if data.declared[n].get("tuned_on")])
        second = max(others, key=lambda name: others[name], default=None) if others else None
        rest = second and clause(
            "without", name=second, count=others[second], of=sum(others.values())
        )
        own = clause("own", tuned="here" if here else "else", rest=rest)
    of = sum(wins.values())
    word_ = "all" if wins[best] == of else "some"
    facts["wins"] = clause("wins", name=best, count=wins[best], of=of, word=word_, own=own)
    return facts


def _wins(data: Dataset, without: Collection[str] = ()) -> dict[str, int]:
    """At how many distinct settings each subject has the least total, of two or more."""
    subjects = pd.DataFrame(
        [
            (s.name, n)
            for s in (*data.sweeps, *data.beside)
            for n in roles.subjects(s)
            if n not in without
        ],
        columns=["experiment", "name"],
    )
    totals = data.values[data.values.index.get_level_values("metric") == TOTAL].rename("time")
    times = totals.reset_index().rename(columns={"implementation": "name"})
    runs = _with_settings(data)
    rows = times.merge(subjects, on=["experiment", "name"])
    rows = rows.merge(runs[~runs.dips], on=["experiment", "variant", "name", "at"])
    rows = rows.drop_duplicates(["name", "setting"])
    several = rows[rows.groupby("setting").name.transform("count") > 1]
    best = several.sort_values("time", kind="stable").drop_duplicates("setting")
    return {str(name): int(count) for name, count in best.name.value_counts().items()}


# What moves the lead


def _movements(data: Dataset) -> list[dict[str, Any]]:
    """The lead's largest shown change along each sweep, and by the mask; the largest first.

    ``least`` and ``most`` bound the change by the intervals of its two ends.
    """
    found = []
    for s in told(data):
        if s.is_switch:
            by_mask = widened(s)
            name = roles.leader(s, ON)
            if name in by_mask:
                at = mask_ends(s)[1]
                two = [s.speed(TOTAL, str(name), variant=v).loc[at] for v in s.variants]
                found.append(
                    clause("moves_mask", p=s.symbol, at=[at, at], name=name, **_moved(*two))
                )
            continue
        name = roles.leader(s)
        speeds = roles.even(s.speed(TOTAL, str(name))).dropna(subset=["low", "high"])
        if name is None or len(speeds) < 2:
            continue
        ends = sorted(int(str(each)) for each in (speeds.x.idxmin(), speeds.x.idxmax()))
        first, last = (speeds.loc[each] for each in ends)
        if roles.beyond(first, last) or roles.beyond(last, first):
            found.append(clause("moves", p=s.symbol, at=ends, name=name, **_moved(first, last)))
    return sorted(found, key=lambda each: -abs(math.log(each["ends"][1] / each["ends"][0])))


def _moved(first: Any, last: Any) -> dict[str, Any]:
    low, high = sorted((first, last), key=lambda each: float(each.x))
    return {
        "ends": [float(first.x), float(last.x)],
        "least": float(high.low / low.high),
        "most": float(high.high / low.low),
        "rows": [int(first.row), int(last.row)],
    }


def decides(data: Dataset) -> Observation | None:
    """What moves the lead most, where that is shown; the two largest movements."""
    moved = _movements(data)
    if not moved:
        return None
    first, rest = (
        moved[0],
        [
            each
            for each in moved[1:]
            if each["p"] != moved[0]["p"] or each["says"] != moved[0]["says"]
        ],
    )
    second = rest[0] if rest else None
    is_most = all(first["least"] > each["most"] for each in rest)
    shown = [each for each in (first, second) if each]
    several = _has_several(data)
    for each in shown:
        each["whose"] = clause("whose", name=each["name"]) if several else None
    facts = {
        "of": shown,
        "what": "mask" if first["says"] == "moves_mask" else first["p"],
    }
    rows = data.comparisons.iloc[sorted(row for each in shown for row in each["rows"])]
    evidence = data.rows(pd.DataFrame({"row": rows.index}))
    variant = "most" if is_most and first["p"] in "NBHE" else "some"
    return Observation("decides", None, facts, evidence, variant, "answer")


# The conclusion

SORTS, PLAIN = ("scores", "work", "alike"), ("widen", "narrow", "keep")
"""What a parameter does to the lead: by what it adds to scores and work, or plainly."""


def conclusion(data: Dataset) -> list[Observation]:
    """Why it wins, what widens and narrows the lead, the passes, the cost, what to choose."""
    found = (_mechanism(data), _changes(data), _passes(data), cost(data), _choose(data))
    return [each for each in found if each is not None]


def _leader(data: Dataset) -> str | None:
    """The subject with the most wins; the only one where there is one."""
    wins, rows = _wins(data), settings(data)
    names = [str(name) for name in rows.name.unique()]
    return max(wins, key=lambda n: wins[n]) if wins else names[0] if len(names) == 1 else None


def _mechanism(data: Dataset) -> Observation | None:
    """That the gain is what is not stored; in time or in memory alone."""
    rows = settings(data)
    if rows.empty or not roles.stores_scores(data, data.baseline):
        return None
    names = [str(name) for name in rows.name.unique()]
    faster = (rows.verdict == "faster").sum() * 2 > len(rows)
    pooled = word(data.pooled(TOTAL, names[0], data.baseline), POOLED, "verdict")
    wins = faster or (len(names) == 1 and pooled == "faster")
    saves = rows.memory.max() < 1
    if not wins and not saves:
        return None
    who = clause("who_one", names=names) if len(names) == 1 else clause("any_fused", names=["a"])
    facts = {"who": who, "base": data.baseline}
    return Observation(
        "why", None, facts, data.rows(rows), "time" if wins else "memory", "conclusion"
    )


def _changes(data: Dataset) -> Observation | None:
    """Which parameters widen the lead of the one (or the leader), narrow it, or leave it.

    Where the baseline stores the scores, by what a parameter adds: heads, or a mask, scores or work
    on them; E work for each score; N and B both alike.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    rows: list[pd.DataFrame] = []
    seen: set[str] = set()
    for s in told(data):
        name = roles.leader(s, ON if s.is_switch else "")
        if name is None or (s.is_switch and name not in widened(s)):
            continue
        what = "mask" if s.is_switch else s.symbol
        speeds = roles.even(s.speed(TOTAL, name))
        if s.is_switch:
            at = mask_ends(s)[1]
            both = [s.speed(TOTAL, name, variant=v).loc[[at]] for v in s.variants]
            speeds, ends = pd.concat(both), widened(s)[name]
        else:
            ends = [number(speeds, speeds.index[i], "x") for i in (0, -1)] if len(speeds) else []
        word_ = "grows" if s.is_switch else roles.towards(speeds)
        if not s.is_switch and roles.change(speeds) in ("peaks", "dips"):
            continue
        if word_ is None or what in seen or not {*speeds.verdict} <= {"faster"}:
            continue
        seen.add(what)
        part = clause("change_mask" if s.is_switch else "change", p=s.symbol, ends=ends)
        part |= {"name": name, "experiment": s.name}
        part["at"] = (
            mask_ends(s)[1:] if s.is_switch else [int(speeds.index[0]), int(speeds.index[-1])]
        )
        found.setdefault(_sort_of(data, what, word_), []).append(part)
        rows.append(speeds)
    if not found:
        return None
    parts = [
        clause("changes_plain" if kind in PLAIN else f"changes_{kind}", word=kind, of=found[kind])
        for kind in (*SORTS, *PLAIN)
        if kind in found
    ]
    several = _has_several(data)
    lead = clause("the_lead", of="several" if several else "one", base=data.baseline)
    return Observation(
        "changes", None, {"parts": parts, "lead": lead}, data.rows(*rows), "", "conclusion"
    )


def _sort_of(data: Dataset, what: str, word_: str) -> str:
    """What a parameter does to the lead, and by what: one of `SORTS` or `PLAIN`."""
    plain = {"grows": "widen", "shrinks": "narrow", "keeps": "keep"}[word_]
    if not roles.stores_scores(data, data.baseline):
        return plain
    by = {("mask", "grows"): "scores", ("H", "grows"): "scores", ("E", "shrinks"): "work"}
    by |= {("N", "keeps"): "alike", ("B", "keeps"): "alike"}
    return by.get((what, word_), plain)


def _passes(data: Dataset) -> Observation | None:
    """That one pass gains more than the other over all settings, where the intervals say so."""
    name = _leader(data)
    if name is None:
        return None
    of = {key: data.pooled(m, name, data.baseline) for key, m in PASSES.items()}
    x = {
        key: {end: number(each, POOLED, end) for end in ("x", "low", "high")}
        for key, each in of.items()
    }
    order = ["forward", "backward"]
    if x["backward"]["low"] > x["forward"]["high"]:
        order.reverse()
    more, less = order
    if not x[more]["low"] > x[less]["high"] or x[more]["x"] <= 1:
        return None
    facts = {
        "name": name,
        "more": more,
        "less": less,
        "x": [x[more]["x"], x[less]["x"]],
    }
    is_again = (
        more == "forward"
        and roles.stores_scores(data, data.baseline)
        and not roles.stores_scores(data, name)
    )
    return Observation(
        "passes",
        None,
        facts,
        data.rows(*of.values()),
        "recomputed" if is_again else "plain",
        "conclusion",
    )


def cost(data: Dataset) -> Observation | None:
    """The passes in which one is shown slower than the baseline; or that there are none."""
    found = [settings(data, m).assign(key=key) for key, m in PASSES.items()]
    every = pd.concat(found)
    if every.empty:
        return None
    slow = every[every.verdict == "slower"]
    if slow.empty:
        return Observation(
            "cost", None, {"base": data.baseline}, data.rows(every), "none", "conclusion"
        )
    of = [
        clause(
            "slow",
            name=row["name"],
            kind=row.key,
            where=clause(
                "where",
                p=row.p,
                at=[int(row["at"])],
                mask="with" if row.several and row.variant == ON else "any",
            ),
            x=float(row.x),
        )
        for _, row in slow.sort_values("x").head(MOST_NAMED).iterrows()
    ]
    facts = {"of": of, "count": len(slow), "base": data.baseline, "settings": len(every)}
    variant = "more" if len(slow) > len(of) else "some"
    return Observation("cost", None, facts, data.rows(slow), variant, "conclusion")


def _choose(data: Dataset) -> Observation | None:
    """Which head size to choose, where the experiment on heads says so."""
    for s in told(data):
        found = head_sizes(s) if s.symbol == "H" else None
        if found and found["good"]:
            return Observation(
                "choose", None, {"d": found["good"]}, found["rows"], "", "conclusion"
            )
    return None
