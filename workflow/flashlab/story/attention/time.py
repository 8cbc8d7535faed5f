"""How time moves with a parameter, and the lead: two clauses of one sentence, or a second one.

A function a kind of sentence: from an experiment to an observation, or None where nothing holds.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from flashlab.analysis.frames import POOLED, Sweep, number, word
from flashlab.numbers import factor, near
from flashlab.story.attention import roles
from flashlab.story.attention.roles import TOTAL, margins
from flashlab.story.observation import Observation, clause

FLAT = 1.05
"""Up to which factor a time is said to hardly change."""

TIER = 1.15
"""By how much the next one is slower, and shown to be, where a new tier begins."""

CHANGES = {"grows": "moves", "shrinks": "moves", "dips": "peaks", "unknown": "open"}
"""What says how a lead changes, where it has not its name (`roles.change`)."""

Clause = dict[str, Any]


def fold(s: Sweep, name: str, first: int, last: int, work: float) -> Clause:
    """How many times as long an implementation takes; beside the operations by its interval."""
    times, between, says = s.medians(TOTAL)[name], None, "fold"
    x, least, most = number(times, last) / number(times, first), float("nan"), float("nan")
    if first == times.dropna().index[0]:  # its growth was estimated from this value on
        speeds = s.grown(TOTAL, name)
        least, most = 1 / number(speeds, last, "high"), 1 / number(speeds, last, "low")
        if word(speeds, last, "verdict") == "undecided":
            between = clause("between", x=[least, most])
    if x < 1 / FLAT and most < 1 / margins(1):
        says = "fold_falls"
    elif 1 / margins(2) <= x <= FLAT and not between:
        says = "fold_flat"
    elif least < 1 and between:
        says = "fold_open"
    elif most < work / margins(2):
        says = "fold_below"
    elif least > work * margins(2):
        says = "fold_above"
    return clause(says, x=x, name=name, open=between)


def growth(s: Sweep) -> tuple[Clause, list[str], list[int]] | None:
    """How the total time grows beside the operations: the clause, of whom, and from where to where.

    Of the baseline and the subjects that have numbers at the same two ends; the baseline is left
    out where it lacks them.
    """
    base, names = s.data.baseline, roles.subjects(s)
    first_choice = [base] if roles.has_baseline(s) else []
    for of in (first_choice, [*first_choice, *names], names):
        at = roles.ends(s, of) if of else []
        known = [n for n in names if at and s.medians(TOTAL)[n].reindex(at).notna().all()]
        if others := roles.usual(s, known, at):
            break
    else:
        return None
    (first, last), every = at, [base, *others] if base in of else others
    work = number(s.work(), last) / number(s.work(), first)
    starts = {int(s.medians(TOTAL)[name].dropna().index[0]) for name in every}
    beside = work if starts == {first} else math.nan  # "only" is said by intervals alone
    folds = {name: fold(s, name, first, last, beside) for name in every}
    alone = roles.apart({name: folds[name]["x"] for name in others})
    inside = [name for name in others if name != alone]
    is_below = {folds[name]["says"] for name in inside} == {"fold_below"}
    x = roles.span(folds[name]["x"] for name in inside)
    batch = [int(s.runs.batch_size.xs(end, level="at").iloc[0]) for end in at]
    new = clause("range", word="below" if is_below else "mixed", x=x, open=None)
    facts = {
        **{"p": s.symbol, "first": first, "last": last, "ops": work, "base": folds.get(base)},
        **{"new": folds[others[0]] if len(others) == 1 else new, "who": roles.group(s, inside)},
        "apart": clause("growth_apart", name=alone, x=folds[alone]["x"]) if alone else None,
        **{"x": x, "all": roles.span(each["x"] for each in folds.values())},
        "batch": clause("batch", b=batch) if s.symbol != "B" and len({*batch}) > 1 else None,
    }
    kind = "same" if near(work, 1) else "growth"
    return clause(f"{kind}_{_told(kind, [*folds.values()], len(others))}", **facts), every, at


def _told(kind: str, folds: list[Clause], others: int) -> str:
    """Of whom a clause on growth is, and whether their times are alike."""
    if len(folds) == others:
        return "alone"
    if kind == "same" and 1 / margins(2) <= folds[0]["x"] <= FLAT:
        return "flat" if all(each["says"] == "fold_flat" for each in folds) else "all"
    alike = len({(each["says"], factor(each["x"]), bool(each["open"])) for each in folds}) == 1
    return "both" if others == 1 and alike and kind == "growth" else "many"


def lead_clause(s: Sweep, name: str) -> tuple[Clause, pd.DataFrame] | None:
    """The speed of an implementation over the baseline along the sweep, and its rows."""
    base, every = s.data.baseline, s.speed(TOTAL, name)
    speeds = roles.even(every)
    if speeds.empty:
        return None
    by, ends = roles.by_verdict(speeds), speeds.iloc[[0, -1]]
    facts: Clause = {"p": s.symbol, "base": base, "new": name, "x": roles.span(speeds.x)}
    facts |= {"ends": [*ends.x], "at": [*map(int, ends.index)]}
    odd = [*map(int, every.index.difference(speeds.index))]
    facts["left"] = clause("lead_left", p=s.symbol, at=odd) if odd else None
    facts |= {"most": int(str(speeds.x.idxmax())), "least": int(str(speeds.x.idxmin()))}
    if len(speeds) == 1:
        return clause("lead_single", **facts, verdict=next(iter(by))), speeds
    if {*by} == {"equal"}:
        return clause("lead_equal", **facts), speeds
    if not {*by} & {*roles.DECIDED}:
        pooled, over_all = s.pooled(TOTAL, name), None
        if (verdict := word(pooled, POOLED, "verdict")) in roles.DECIDED:
            x, speeds = number(pooled, POOLED, "x"), pd.concat([speeds, pooled])
            over_all = clause("pooled", new=name, x=x, verdict=verdict)
        return clause("lead_undecided", **facts, pooled=over_all), speeds
    open_at = sorted([*by.get("equal", []), *by.get("undecided", [])])
    facts["open"] = clause("lead_open_at", p=s.symbol, at=open_at) if open_at else None
    if {"faster", "slower"} <= {*by}:
        parts = {v: {"at": by[v], "x": roles.span(speeds.x[by[v]])} for v in roles.DECIDED}
        return clause("lead_turns", **facts, **parts), speeds
    if "slower" in by:
        says = "lead_slower_at" if open_at else "lead_slower"
        return clause(says, **facts, slower=by["slower"]), speeds
    change = roles.change(speeds)
    way = "turns" if roles.turns(speeds) else change
    return clause(f"lead_{CHANGES.get(change, change)}", **facts, change=change, way=way), speeds


def time(s: Sweep) -> Observation | None:
    """Growth, and for one subject its lead in the same sentence."""
    grown, names = growth(s), roles.subjects(s)
    led = lead_clause(s, names[0]) if len(names) == 1 and roles.has_baseline(s) else None
    facts = {"growth": grown and grown[0], "lead": led and led[0]}
    evidence = s.data.rows(led[1]) if led else []
    evidence += s.rows(TOTAL, *grown[1:]) if grown else []
    variant = "_".join(name for name, clause_ in facts.items() if clause_)
    return Observation("time", s.name, facts, evidence, variant) if variant else None


def leaders(s: Sweep) -> Observation | None:
    """Of several subjects: who has the lowest total where, a lead, and who follows at the end."""
    best, name = roles.leaders(s, roles.everyone(s)), roles.leader(s)
    if len(roles.subjects(s)) < 2 or name is None:
        return None
    led, end = lead_clause(s, name) if roles.has_baseline(s) else None, max(best)
    others = {at: roles.not_slower(s, best[at], at) for at in best}
    alike = {tuple(each): [at for at in others if others[at] == each] for each in others.values()}
    near = [{"names": [*names], "at": at} for names, at in alike.items() if names]
    wins = {n: [at for at in best if best[at] == n] for n in s.names}
    of: list[Clause] = [{"name": n, "p": s.symbol, "at": at} for n, at in wins.items() if at]
    last = led[0]["at"][1] if led else end
    tiers = tiers_of(s, last, best.get(last, name)) if led else []
    follow = clause("tiers", p=s.symbol, at=last, of=tiers, base=s.data.baseline)
    facts = {
        "wins": clause("wins_some", of=of) if of[1:] else clause("wins_every", **of[0]),
        "near": clause("near", of=near) if near else None,
        "lead": led and led[0],
        "tiers": follow if tiers else None,
    }
    rows = [s.speed(TOTAL, n).loc[[last]] for tier in tiers for n in tier["names"]]
    rows += [s.speed(TOTAL, n, best[at]).loc[[at]] for at in others for n in others[at]]
    evidence = s.data.rows(*rows, *([led[1]] if led else []))
    evidence += s.rows(TOTAL, [each["name"] for each in of], best)
    return Observation("leaders", s.name, facts, evidence, "lead" if led else "alone")


def tiers_of(s: Sweep, at: int, best: str) -> list[Clause]:
    """Those behind the best at a value by their speed over the baseline, in tiers.

    A tier ends where the next is slower by `TIER` and shown to be slower.
    """
    base = s.data.baseline
    others = [n for n in roles.everyone(s) if n not in (base, best)]
    speeds = {n: number(s.speed(TOTAL, n), at, "x") for n in roles.usual(s, others, [at])}
    found: list[list[str]] = []
    for name in sorted((n for n, x in speeds.items() if x == x), key=lambda n: -speeds[n]):
        before = found[-1][-1] if found else None
        shown = before and word(s.speed(TOTAL, name, before), at, "verdict") == "slower"
        if before is None or (shown and speeds[before] / speeds[name] > TIER):
            found.append([])
        found[-1].append(name)
    stored = {*roles.stored(s)} if roles.stores_scores(s.data, base) else set()
    return [
        clause("tier", names=names, x=roles.span(speeds[n] for n in names),
               stored=clause("store_too", names=names) if {*names} <= stored else None)
        for names in found
    ]  # fmt: skip
