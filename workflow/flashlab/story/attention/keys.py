"""Heads that share keys and values, and q, k and v in one tensor or apart."""

from __future__ import annotations

from typing import Any

import pandas as pd

from flashlab.analysis.frames import Sweep, number
from flashlab.story.attention import roles
from flashlab.story.attention.roles import MEMORY, PASSES, TOTAL
from flashlab.story.observation import Observation, clause


def shared(s: Sweep) -> Observation | None:
    """With the fewest heads of keys and values against the most: memory, and who gains or loses."""
    names = roles.subjects(s)
    at = roles.ends(s, names, MEMORY) if names else []
    if s.symbol != roles.SHARED or not at or s.is_switch:
        return None
    few, many = at
    table, base = s.medians(MEMORY), s.data.baseline
    left = {n: number(table, few, n) / number(table, many, n) for n in [*names, base] if n in table}
    kept = left.get(base, float("nan"))
    facts: dict[str, Any] = {
        **{"few": few, "many": many, "memory": roles.span(left[n] for n in names)},
        "base": clause("shared_base", name=base, x=kept) if kept == kept else None,
        "passes": [each for key in PASSES if (each := _of_pass(s, key, many))],
    }
    least = min(names, key=lambda n: left[n])
    facts["named"] = clause("shared_least", name=least) if len(names) > 1 else None
    totals = {n: s.grown(TOTAL, n).reindex([many]) for n in roles.usual(s, names, at)}
    gain = facts["gain"] = [n for n, row in totals.items() if row.verdict[many] == "slower"]
    metrics = (*PASSES.values(), TOTAL)
    rows = s.data.rows(*(s.grown(m, n).reindex([many]).dropna() for m in metrics for n in names))
    evidence = [*s.rows(MEMORY, [n for n in left], at), *rows]
    return Observation("shared", s.name, facts, evidence, "some" if gain else "memory")


def _of_pass(s: Sweep, key: str, many: int) -> dict[str, Any] | None:
    """The clause on a pass: the speed of the fewest heads over the most, who gains, who loses."""
    odd = roles.odd_of(s)
    rows = {n: s.grown(PASSES[key], n) for n in roles.subjects(s) if n not in odd}
    # The sweep begins with the fewest: what is shown is the speed of the most over the fewest.
    known = {n: 1 / number(each, many, "x") for n, each in rows.items() if many in each.index}
    if not known:
        return None
    of = {
        turned: [
            clause("one_speed", name=n, x=[x] * 2)
            for n, x in known.items()
            if rows[n].at[many, "verdict"] == verdict
        ]
        for turned, verdict in (("faster", "slower"), ("slower", "faster"))
    }
    parts = [clause("pass_moved", verdict=verdict, of=each) for verdict, each in of.items() if each]
    says = "pass_changes" if parts else "pass_same"
    return clause(says, kind=key, x=roles.span(known.values()), parts=parts, **of)


def packed(s: Sweep) -> Observation | None:
    """Twins that differ in the form of q, k and v: the speed of one over the other."""
    twins = {n: str(s.data.declared[n]["packed_of"]) for n in s.names if roles.is_packed(s.data, n)}
    found = {n: roles.even(s.speed(TOTAL, n, of)) for n, of in twins.items() if of in s.names}
    speeds = {n: each for n, each in found.items() if len(each)}
    if not speeds:
        return None
    every = pd.concat([*speeds.values()])
    apart = {n: each.x[each.verdict.isin(roles.DECIDED)] for n, each in speeds.items()}
    told = [clause("one_speed", name=n, x=roles.span(x)) for n, x in apart.items() if len(x)]
    facts: dict[str, Any] = {"x": roles.span(every.x), "of": told}
    facts["word"] = "same" if (every.verdict == "equal").all() else "undecided"
    variant = "except" if told else "alike"
    return Observation("packed", s.name, facts, s.data.rows(*speeds.values()), variant)
