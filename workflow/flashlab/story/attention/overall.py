"""Page one and the conclusion: which to use, what moves the lead, what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any

import pandas as pd

from flashlab.analysis.experiment import IMPLEMENTATIONS
from flashlab.analysis.frames import POOLED, SPEED, Dataset, Sweep, number, word
from flashlab.story.attention import roles
from flashlab.story.attention.causes import head_sizes
from flashlab.story.attention.mask import ON, mask_ends, widened
from flashlab.story.attention.roles import MEMORY, PASSES, SAVES, TOTAL
from flashlab.story.observation import Observation, clause

MOST_NAMED = 3
"""Most passes that are named where one is slower."""


def _is_compared(s: Sweep) -> bool:
    """True of an experiment that has the baseline and others."""
    return roles.has_baseline(s) and bool(roles.subjects(s))


def _told(data: Dataset) -> list[Sweep]:
    """The experiments that say what moves the lead: those with the baseline, of the usual kind."""
    usual = [s for s in data.sweeps if s.symbol != roles.SHARED and not roles.is_alike(s)]
    return [s for s in usual if _is_compared(s)]


def _has_several(data: Dataset) -> bool:
    """True where more than one is told beside the baseline."""
    return len({n for s in _told(data) for n in roles.subjects(s)}) > 1


@lru_cache(maxsize=8)  # no caller changes it
def _runs(data: Dataset, of: Callable[[Sweep], list[str]] = roles.subjects) -> pd.DataFrame:
    """The runs of the subjects, or others, in the report's order, a row each.

    Columns: those of the run table, ``name``, ``setting`` (in a word), ``time`` and ``forward`` in
    ms, ``memory`` as a share of the baseline's, the experiment's ``p``, ``several`` (masks) and
    ``is_compared``.
    """
    about = [
        (s.name, name, s.symbol, s.is_switch, _is_compared(s))
        for s in (*data.sweeps, *data.beside)
        for name in of(s)
    ]
    columns = ["experiment", "name", "p", "several", "is_compared"]
    runs = data.runs.reset_index(names=["experiment", "variant", "name", "at"])
    sizes = runs[[parameter.name for parameter in data.benchmark.given]].astype(str)
    runs = runs.assign(setting=[" ".join(row) for row in sizes.to_numpy()])
    found = pd.DataFrame(about, columns=columns).merge(runs, on=["experiment", "name"])

    def known(metric: str, names: Any) -> Any:
        keys = [found.experiment, found.variant, [metric] * len(found), names, found["at"]]
        return data.values.reindex(pd.MultiIndex.from_arrays(keys)).to_numpy(dtype=float)

    times = {"time": known(TOTAL, found.name), "forward": known(PASSES["forward"], found.name)}
    base = known(MEMORY, [data.baseline] * len(found))
    return found.assign(**times, memory=known(MEMORY, found.name) / base)


@lru_cache(maxsize=8)
def settings(data: Dataset, metric: str = TOTAL) -> pd.DataFrame:
    """Every subject's speed over the baseline at each distinct setting: `_runs`, with the speed.

    Odd ones are left out, unless all are.
    """
    rows = _runs(data)
    rows = rows[rows.is_compared.astype(bool)]
    about = {"compared": IMPLEMENTATIONS, "metric": metric, "reference": data.baseline}
    keys = rows.rename(columns={"name": "subject"}).assign(**about)[SPEED]
    speeds = data.speeds.reindex(pd.MultiIndex.from_frame(keys)).set_axis(rows.index)
    rows = rows.drop(columns="odd").join(speeds).dropna(subset="x")
    found = rows.drop_duplicates(["name", "setting"])
    usual = found[~found.odd.astype(bool)]
    return usual if len(usual) else found


def _wins(data: Dataset, without: Collection[str] = (), by: str = "time") -> dict[str, int]:
    """At how many distinct settings each has the least time, of two or more; most first."""
    rows = _runs(data, roles.everyone)
    rows = rows[rows.experiment.isin([s.name for s in data.sweeps])]  # each has all of its own
    rows = rows[~rows.odd.astype(bool) & ~rows["name"].isin([*without])]
    rows = rows.dropna(subset=by).drop_duplicates(["name", "setting"])
    several = rows[rows.groupby("setting").name.transform("count") > 1]
    best = several.sort_values(by, kind="stable").drop_duplicates("setting")
    return {str(name): int(count) for name, count in best.name.value_counts().items()}


# Which to use


def answer(data: Dataset) -> Observation | None:
    """Which to use: how often it is faster, by how much, and in how much of the memory."""
    rows = settings(data)
    if rows.empty:
        return None
    names, memory = [str(name) for name in rows.name.unique()], rows.memory.dropna()
    counts = {v: int((rows.verdict == v).sum()) for v in ("faster", "slower", "equal", "undecided")}
    facts: dict[str, Any] = {"base": data.baseline, "new": names[0], "of": len(rows), **counts}
    facts |= {"x": roles.span(rows.x), "memory": None, "pooled": None, "saves": None}
    if len(memory):
        word_, x = "less" if memory.max() < 1 else "more", roles.span(memory)
        facts["memory"] = clause("in_memory", word=word_, x=x)
        if memory.max() < SAVES:
            facts["saves"] = clause("for_memory", new=names[0], base=data.baseline, x=x)
    facts["rest"] = [
        clause("rest", verdict=v, count=counts[v]) for v in ("equal", "undecided") if counts[v]
    ]
    evidence, is_most = data.rows(rows), counts["faster"] * 2 > len(rows)
    if len(names) > 1:
        facts |= _many(data, rows)
        is_most &= counts["slower"] * 3 < counts["faster"]  # else the setting decides
        variant = "many" if is_most else "many_even"
        return Observation("answer", None, facts, evidence, variant, "answer")
    pooled = data.pooled(TOTAL, names[0], data.baseline)
    if (verdict := word(pooled, POOLED, "verdict")) in roles.DECIDED:
        over_all = {"x": number(pooled, POOLED, "x"), "verdict": verdict}
        facts["pooled"] = clause("pooled", new=names[0], **over_all)
        evidence += data.rows(pooled)
    facts["passes"] = [_alone(data, names[0], key) for key in PASSES]
    variant = "most" if is_most else "stay" if counts["slower"] else "even"
    if counts["faster"] == len(rows):
        variant = "all"
    elif counts["faster"] and counts["slower"]:
        variant = "choose"
    return Observation("answer", None, facts, evidence, variant, "answer")


def _alone(data: Dataset, name: str, key: str) -> dict[str, Any]:
    """The clause on one pass: at how many settings it is faster, and its speed over all of them."""
    count = int((settings(data, PASSES[key]).verdict == "faster").sum())
    pooled = data.pooled(PASSES[key], name, data.baseline)
    over = None if pooled.empty else clause("over_all", x=number(pooled, POOLED, "x"))
    return clause("alone", kind=key, count=count, over=over)


def _many(data: Dataset, rows: pd.DataFrame) -> dict[str, Any]:
    """Of several: the exceptions, who has the lowest total where, and who without our own."""
    fused = roles.stores_scores(data, data.baseline)
    fast, slow = rows[rows.verdict == "faster"], rows[rows.verdict == "slower"]
    exceptions = [
        clause("exception", name=name, d=sorted({*map(int, r.head_dim)}), x=roles.span(r.x))
        for name, r in slow.groupby("name")
    ]
    facts: dict[str, Any] = {
        "use": clause("use_fused" if fused else "use_other"),
        "x": roles.span(fast.x if len(fast) else rows.x),
        "slow": clause("exceptions", of=exceptions) if exceptions else None,
        "wins": None,
    }
    wins = _wins(data)
    of = sum(wins.values())
    if of < 2:
        return facts
    best, own, rest = next(iter(wins)), None, None
    if tuned_on := data.declared[best].get("tuned_on"):
        tuned = "here" if {*map(str, data.runs.device_name)} <= {*tuned_on} else "else"
        ours = [n for n in data.declared if data.declared[n].get("tuned_on")]
        each = [_wins(data, ours, by) for by in ("time", "forward")]
        if all(each):
            most = [[n for n, count in of.items() if count == max(of.values())] for of in each]
            told = [{"names": n, "count": of[n[0]]} for n, of in zip(most, each, strict=True)]
            rest = clause("without", **told[0], of=sum(each[0].values()), forward=told[1])
        own = clause("own", tuned=tuned)
    won = {"count": wins[best], "of": of, "word": "all" if wins[best] == of else "some"}
    facts["wins"] = clause("wins", name=best, **won, own=own, rest=rest)
    return facts


# What moves the lead


def _leads(data: Dataset) -> Iterator[tuple[Sweep, str, pd.DataFrame]]:
    """The leader of each experiment with its speeds along it, none of them odd.

    Of both masks with those without and with it at the last value, where the mask widens the lead.
    """
    for s in _told(data):
        name = roles.leader(s, ON if s.is_switch else "")
        if name and not s.is_switch:
            yield s, name, roles.even(s.speed(TOTAL, name))
        elif name in widened(s):
            at = [mask_ends(s)[1]]
            yield s, name, pd.concat([s.speed(TOTAL, name, variant=v).loc[at] for v in s.variants])


def _movements(data: Dataset) -> list[dict[str, Any]]:
    """The lead's largest shown change along each sweep, and by the mask; the largest first.

    ``least`` and ``most`` bound the change by the intervals of its two ends.
    """
    found = []
    for s, name, speeds in _leads(data):
        known = speeds.dropna(subset=["low", "high"])
        if len(known) < 2:
            continue
        two = known.iloc[sorted((int(known.x.argmin()), int(known.x.argmax())))]
        low, high = (two.iloc[i] for i in (two.x.argmin(), two.x.argmax()))
        if roles.beyond(high, low) and high.x > 1:  # else nobody leads
            says = "moves_mask" if s.is_switch else "moves"
            bounds = {"least": float(high.low / low.high), "most": float(high.high / low.low)}
            part = clause(says, p=s.symbol, at=[*map(int, two.index)], name=name, ends=[*two.x])
            part["mask"] = roles.mask_of(s)
            found.append({**part, **bounds, "rows": [*map(int, two["row"])]})
    return sorted(found, key=lambda each: -abs(math.log(each["ends"][1] / each["ends"][0])))


def decides(data: Dataset) -> Observation | None:
    """What moves the lead most, where that is shown; the two largest movements."""
    moved = _movements(data)
    if not moved:
        return None
    first, several = moved[0], _has_several(data)
    rest = [m for m in moved if (m["p"], m["says"]) != (first["p"], first["says"])]
    shown = [
        {**m, "whose": clause("whose", name=m["name"]) if several else None}
        for m in (first, *rest[:1])
    ]
    facts = {"of": shown, "what": "mask" if first["says"] == "moves_mask" else first["p"]}
    is_most = all(first["least"] > m["most"] for m in rest) and first["p"] in "NBHE"
    is_most &= not any(map(roles.is_alike, data.sweeps))
    is_most &= [s.symbol for s in _told(data)].count(first["p"]) == 1  # it names the experiment
    evidence = data.rows(pd.DataFrame({"row": [row for m in shown for row in m["rows"]]}))
    return Observation("decides", None, facts, evidence, "most" if is_most else "some", "answer")


# The conclusion


def conclusion(data: Dataset) -> list[Observation]:
    """Why it wins, what widens and narrows the lead, the passes, the cost, what to choose."""
    found = (_mechanism(data), _changes(data), _passes(data), cost(data), _choose(data))
    return [each for each in found if each is not None]


def _concluded(name: str, facts: dict[str, Any], rows: Any, variant: str = "") -> Observation:
    return Observation(name, None, facts, rows, variant, "conclusion")


def _who(data: Dataset) -> dict[str, Any]:
    """The clause that names the one, or says what several are."""
    names = [*map(str, settings(data).name.unique())]
    several = "any_fused" if roles.stores_scores(data, data.baseline) else "use_other"
    return clause("who_one" if len(names) == 1 else several, names=names[:1])


def _mechanism(data: Dataset) -> Observation | None:
    """That the gain is what is not stored; in time or in memory alone."""
    rows = settings(data)
    if rows.empty or not roles.stores_scores(data, data.baseline):
        return None
    wins = (rows.verdict == "faster").sum() * 2 > len(rows)
    if not wins and not rows.memory.max() < 1:
        return None
    facts = {"who": _who(data), "base": data.baseline}
    return _concluded("why", facts, data.rows(rows), "time" if wins else "memory")


def _changes(data: Dataset) -> Observation | None:
    """Which parameters widen the lead of the one (or the leader), narrow it, or leave it."""
    found: dict[str, list[dict[str, Any]]] = {}
    rows: dict[str, pd.DataFrame] = {}
    told = [("mask" if s.is_switch else s.symbol, s, n, each) for s, n, each in _leads(data)]
    for what, s, name, speeds in told:
        same = [each for p, _, _, each in told if p == what]
        moves = {"grows" if s.is_switch else roles.towards(each) for each in same}
        moved = moves.pop()
        if moves or moved is None or what in rows or not {*speeds.verdict} <= {"faster"}:
            continue  # or experiments on the same parameter disagree
        rows[what] = speeds
        ends = speeds.iloc[[0, -1]]
        part = clause("change_mask" if s.is_switch else "change", p=s.symbol, ends=[*ends.x])
        part["mask"] = roles.mask_of(s) if what == "N" else None
        part |= {"name": name, "experiment": s.name, "at": [*map(int, ends.index)]}
        found.setdefault(moved, []).append(part)
    if not found:
        return None
    known = [each for each in ("grows", "shrinks", "keeps") if each in found]
    parts = [clause(f"changes_{each}", of=found[each]) for each in known]
    of = "several" if _has_several(data) else "one"
    facts = {"parts": parts, "lead": clause("the_lead", of=of, base=data.baseline)}
    return _concluded("changes", facts, data.rows(*rows.values()))


def _passes(data: Dataset) -> Observation | None:
    """That one pass gains more than the other over all settings, where the intervals say so."""
    wins, names = _wins(data), [*map(str, settings(data).name.unique())]
    if not wins and len(names) != 1:
        return None
    name = next(iter([*wins, *names]))
    of = {key: data.pooled(m, name, data.baseline) for key, m in PASSES.items()}
    if any(each.empty for each in of.values()):
        return None
    x = {key: each.iloc[0] for key, each in of.items()}
    more, less = PASSES if x["backward"].low <= x["forward"].high else reversed(PASSES)
    if not roles.beyond(x[more], x[less]) or x[more].x <= 1:
        return None
    facts = {"name": name, "more": more, "less": less, "x": [x[more].x, x[less].x]}
    return _concluded("passes", facts, data.rows(*of.values()))


def cost(data: Dataset) -> Observation | None:
    """The passes in which one is shown slower than the baseline; or that there are none."""
    every = pd.concat([settings(data, m).assign(key=key) for key, m in PASSES.items()])
    slow, about = every[every.verdict == "slower"], {"base": data.baseline, "who": _who(data)}
    if slow.empty:
        is_known = len(every) and not _runs(data).odd.astype(bool).any()  # odd ones are left out
        return _concluded("cost", about, data.rows(every), "none") if is_known else None
    masks = (slow.several.astype(bool) & (slow.variant == ON)).map({True: "with", False: "any"})
    worst = slow.assign(mask=masks).sort_values("x")
    of = []
    for _, row in worst.drop_duplicates(["name", "key", "p", "at", "mask"])[:MOST_NAMED].iterrows():
        where = clause("where", p=row.p, at=[int(row["at"])], mask=row["mask"])
        of.append(clause("slow", name=row["name"], kind=row.key, where=where, x=float(row.x)))
    facts = {**about, "of": of, "count": len(slow), "settings": len(every)}
    return _concluded("cost", facts, data.rows(slow), "more" if len(slow) > len(of) else "some")


def _choose(data: Dataset) -> Observation | None:
    """Which head size to choose, where the experiment on heads says so and any is faster."""
    is_used = (settings(data).verdict == "faster").any()
    for s in _told(data):
        found = head_sizes(s) if s.symbol == "H" else None
        if found and found["good"] and is_used:
            return _concluded("choose", {"d": found["good"], "x": found["there"]}, found["rows"])
    return None
