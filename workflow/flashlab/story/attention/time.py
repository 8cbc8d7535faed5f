"""How time moves with a parameter, and the lead: two clauses of one sentence, or a second one.

A function a kind of sentence: from an experiment to an observation, or None where nothing holds.
"""

from __future__ import annotations

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

CHANGES = {
    **dict.fromkeys(("grows", "shrinks", "hardly"), "moves"),
    **{
        "peaks": "peaks",
        "dips": "peaks",
        "constant": "constant",
        "open": "open",
        "unknown": "open",
    },
}
"""What says how a lead changes (`roles.change`)."""

Clause = dict[str, Any]


def fold(s: Sweep, name: str, first: int, last: int, work: float) -> Clause:
    """How many times as long an implementation takes; beside the operations by its interval."""
    times = s.medians(TOTAL)[name]
    x = number(times, last) / number(times, first)
    least, most = _grown(s, name, first, last)
    says = "fold"
    if x < 1 / FLAT and most < 1 / margins(1):
        says = "fold_falls"
    elif 1 / margins(2) <= x <= FLAT:
        says = "fold_flat"
    elif most < work / margins(2):
        says = "fold_below"
    elif least > work * margins(2):
        says = "fold_above"
    return clause(says, x=x, name=name)


def _grown(s: Sweep, name: str, first: int, last: int) -> tuple[float, float]:
    """The interval of a time's growth; NaN where it was not estimated from this value on."""
    if first != s.medians(TOTAL)[name].dropna().index[0]:
        return float("nan"), float("nan")
    speeds = s.grown(TOTAL, name)
    return 1 / number(speeds, last, "high"), 1 / number(speeds, last, "low")


def growth(s: Sweep) -> tuple[Clause, list[str], list[int]] | None:
    """How the total time grows beside the operations: the clause, of whom, and from where to where.

    Of the baseline and the subjects that have numbers at the same two ends; the baseline is left
    out where it lacks them.
    """
    base, names, odd = s.data.baseline, roles.subjects(s), roles.odd_of(s)
    first_choice = [base] if roles.has_baseline(s) else []
    for of in (first_choice, [*first_choice, *names], names):
        at = roles.ends(s, of) if of else []
        known = [n for n in names if at and s.medians(TOTAL)[n].reindex(at).notna().all()]
        others = [n for n in known if not {*at} & {*odd.get(n, ())}]
        if others:
            break
    else:
        return None
    every = [base, *others] if base in of else others
    first, last = at
    work = number(s.work(), last) / number(s.work(), first)
    folds = {name: fold(s, name, first, last, work) for name in every}
    facts = {"p": s.symbol, "first": first, "last": last, "ops": work}
    told = folds.get(base)
    return (
        clause(
            _growth_says(folds, told, others, work), **facts, **_of_group(s, folds, told, others)
        ),
        every,
        at,
    )


def _growth_says(
    folds: dict[str, Clause], told: Clause | None, others: list[str], work: float
) -> str:
    """Which clause: by whether the operations grow, and of how many the times are."""
    kind = "same" if near(work, 1) else "growth"
    if told is None:
        return f"{kind}_alone"
    both = [told, *(folds[name] for name in others)]
    if kind == "same" and told["says"] == "fold_flat":
        return "same_flat" if all(each["says"] == "fold_flat" for each in both) else "same_all"
    if len(others) > 1:
        return f"{kind}_many"
    alike = len({(each["says"], factor(each["x"])) for each in both}) == 1
    return f"{kind}_both" if alike and kind == "growth" else f"{kind}_two"


def _of_group(
    s: Sweep, folds: dict[str, Clause], told: Clause | None, others: list[str]
) -> dict[str, Any]:
    """The facts of the baseline, of one or a range of others, and of the one that stands apart."""
    alone = roles.apart({name: folds[name]["x"] for name in others})
    inside = [name for name in others if name != alone]
    says = {folds[name]["says"] for name in inside}
    spans = roles.span(folds[name]["x"] for name in inside)
    range_word = "below" if says == {"fold_below"} else "mixed"
    every = [folds[name]["x"] for name in others] + ([told["x"]] if told else [])
    return {
        "base": told,
        "new": folds[inside[0]] if len(others) == 1 else clause("range", word=range_word, x=spans),
        "who": roles.group(s, inside),
        "apart": clause("growth_apart", name=alone, x=folds[alone]["x"]) if alone else None,
        "all": roles.span(every),
    }


def lead_clause(s: Sweep, name: str, variant: str = "") -> tuple[Clause, pd.DataFrame] | None:
    """The speed of an implementation over the baseline along the sweep, and its rows."""
    base = s.data.baseline
    speeds = roles.even(s.speed(TOTAL, name, base, variant))
    if speeds.empty:
        return None
    facts: Clause = {"p": s.symbol, "base": base, "new": name, "x": roles.span(speeds.x)}
    at = [int(each) for each in speeds.index]
    by = roles.by_verdict(speeds)
    pooled = s.pooled(TOTAL, name, base, variant)
    facts |= {"ends": [number(speeds, end, "x") for end in (at[0], at[-1])], "at": [at[0], at[-1]]}
    facts |= {"most": int(str(speeds.x.idxmax())), "least": int(str(speeds.x.idxmin()))}
    if len(at) == 1:
        return clause("lead_single", **facts, verdict=next(iter(by))), speeds
    if {*by} == {"equal"}:
        return clause("lead_equal", **facts), speeds
    if not {*by} & {*roles.DECIDED}:
        verdict = word(pooled, POOLED, "verdict")
        x = number(pooled, POOLED, "x")
        over_all = (
            clause("pooled", new=name, x=x, verdict=verdict) if verdict in roles.DECIDED else None
        )
        rows = pd.concat([speeds, pooled]) if over_all else speeds
        return clause("lead_undecided", **facts, pooled=over_all), rows
    open_at = sorted([*by.get("equal", []), *by.get("undecided", [])])
    facts["open"] = clause("lead_open_at", p=s.symbol, at=open_at) if open_at else None
    if {"faster", "slower"} <= {*by}:
        parts = {v: {"at": by[v], "x": roles.span(speeds.x[by[v]])} for v in roles.DECIDED}
        return clause("lead_turns", **facts, **parts), speeds
    verdict = next(v for v in roles.DECIDED if v in by)
    if verdict == "slower":
        facts["slower"] = by["slower"]
        return clause("lead_slower" if not open_at else "lead_slower_at", **facts), speeds
    facts["change"] = roles.change(speeds)
    return clause(f"lead_{CHANGES[facts['change']]}", **facts), speeds


def time(s: Sweep) -> Observation | None:
    """Growth, and for one subject its lead in the same sentence."""
    grown, names = growth(s), roles.subjects(s)
    led = lead_clause(s, names[0]) if len(names) == 1 and roles.has_baseline(s) else None
    facts = {"growth": grown and grown[0], "lead": led and led[0]}
    evidence = [
        *(s.data.rows(led[1]) if led else []),
        *(s.rows(TOTAL, *grown[1:]) if grown else []),
    ]
    variant = "_".join(name for name, clause_ in facts.items() if clause_)
    return Observation("time", s.name, facts, evidence, variant) if variant else None


def leaders(s: Sweep) -> Observation | None:
    """Of several subjects: who has the lowest total where, its lead, and who follows at the end."""
    best = roles.leaders(s)
    name = roles.leader(s)
    if len(roles.subjects(s)) < 2 or name is None:
        return None
    led = lead_clause(s, name) if roles.has_baseline(s) else None
    end = max(best)
    near_at = [at for at in best if roles.not_slower(s, best[at], at)]
    near_end = roles.not_slower(s, best[end], end)
    wins = {
        n: [at for at in best if best[at] == n] for n in roles.subjects(s) if n in best.values()
    }
    every = clause("wins_every", name=name, p=s.symbol)
    some = clause("wins_some", of=[{"name": n, "p": s.symbol, "at": at} for n, at in wins.items()])
    last = led[0]["at"][1] if led else end
    tiers = tiers_of(s, last, best.get(last, name)) if led else []
    speeds = [s.speed(TOTAL, n).loc[[last]] for tier in tiers for n in tier["names"]]
    facts = {
        "wins": every if len(wins) == 1 else some,
        "near": clause("near_end", names=near_end, at=end) if near_end else None,
        "lead": led and led[0],
        "tiers": clause("tiers", p=s.symbol, at=last, of=tiers, base=s.data.baseline)
        if tiers
        else None,
    }
    rows = [*([led[1]] if led else []), *speeds]
    rows += [s.speed(TOTAL, n, best[at]).loc[[at]] for at in near_at if at == end for n in near_end]
    evidence = [*s.data.rows(*rows), *s.rows(TOTAL, wins, best)]
    return Observation("leaders", s.name, facts, evidence, "lead" if led else "alone")


def tiers_of(s: Sweep, at: int, best: str) -> list[Clause]:
    """Those behind the best at a value by their speed over the baseline, in tiers.

    A tier ends where the next is slower by `TIER` and shown to be slower.
    """
    base = s.data.baseline
    speeds = {n: number(s.speed(TOTAL, n), at, "x") for n in s.names if n not in (base, best)}
    odd = roles.odd_of(s)
    known = [
        n
        for n, x in speeds.items()
        if x == x and at not in odd.get(n, ()) and not roles.is_packed(s.data, n)
    ]
    order = sorted(known, key=lambda name: -speeds[name])
    found: list[list[str]] = []
    for name in order:
        before = found[-1][-1] if found else None
        shown = before and word(s.speed(TOTAL, name, before), at, "verdict") == "slower"
        if before is None or (shown and speeds[before] / speeds[name] > TIER):
            found.append([])
        found[-1].append(name)
    stored = roles.stored(s) if roles.stores_scores(s.data, base) else []
    return [
        clause(
            "tier",
            names=names,
            x=roles.span(speeds[n] for n in names),
            stored=clause("store_too", names=names) if {*names} <= {*stored} else None,
        )
        for names in found
    ]
