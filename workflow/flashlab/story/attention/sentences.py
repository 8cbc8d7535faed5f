"""Which sentences a report on attention says, and in which order.

Those on heads that share keys and values, and on q, k and v in one tensor or apart, are here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from flashlab.analysis.frames import Dataset, Sweep, number
from flashlab.story.attention import causes, lesson, mask, memory, overall, roles, time
from flashlab.story.attention.roles import MEMORY, PASSES, TOTAL
from flashlab.story.observation import Observation, clause


def shared(s: Sweep) -> Observation | None:
    """With the fewest heads of keys and values against the most: memory, and who gains or loses."""
    names = [n for n in roles.subjects(s) if s.medians(MEMORY)[n].notna().sum() > 1]
    at = roles.ends(s, names, MEMORY) if names else []
    if s.symbol != roles.SHARED or not at or s.is_switch:
        return None
    few, many = at
    table, base = s.medians(MEMORY), s.data.baseline
    others = [base] if base in table and roles.stores_scores(s.data, base) else []
    left = {n: number(table, few, n) / number(table, many, n) for n in [*names, *others]}
    facts: dict[str, Any] = {
        **{"few": few, "many": many, "memory": roles.span(left[n] for n in names)},
        "base": clause("shared_base", name=base, x=left[base]) if left.get(base, 0) > 0 else None,
        "who": roles.group(s, names),
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


Kind = Callable[[Sweep], Observation | None]

SWEEP: tuple[Kind, ...] = (
    *(time.time, time.leaders, causes.filled, causes.score_line, causes.bound),
    *(causes.faults, causes.operators, memory.memory, causes.heads, causes.small_heads, packed),
    *(lesson.missing, lesson.take, lesson.odd),
)
MASK: tuple[Kind, ...] = (
    *(mask.mask_time, mask.mask_why, mask.mask_memory, mask.mask_take, lesson.missing, lesson.odd),
)
SHARED: tuple[Kind, ...] = (shared, lesson.missing, lesson.odd)
PACKED: tuple[Kind, ...] = (time.time, packed, lesson.missing, lesson.odd)
"""The kinds of sentences of a paragraph, in their order, by the kind of experiment."""

LINES = ("take", "mask_take", "mask_open")
"""The kinds that are an experiment's line on page one, too."""

ONLY_LINES = ("take_two", "take_moves", "take_even", "take_peaks", "take_odd")
"""Those whose numbers or verdicts an experiment's paragraph has already."""

BESIDE_DOTS = ("take_two", "take_moves", "take_open")
"""Those that only read the dots beside them, which page one of many implementations has not."""


def observations(data: Dataset) -> list[Observation]:
    """All that a report says of a dataset, in its order."""
    front = (overall.answer(data), overall.decides(data))
    sections = [o for s in data.sweeps for kind in kinds(s) if (o := kind(s)) is not None]
    left = BESIDE_DOTS if data.is_of_many else ()
    lines = [each for each in sections if each.name in LINES and each.macro not in left]
    return [
        *(each for each in front if each is not None),
        *(replace(each, place="line") for each in lines),
        *lesson.all_missing(data),
        *lesson.all_odd(data),
        *(each for each in sections if each.macro not in ONLY_LINES),
        *overall.conclusion(data),
    ]


def kinds(s: Sweep) -> tuple[Kind, ...]:
    """The kinds of sentences of an experiment's paragraph."""
    if not s.names:
        return (lesson.missing,)
    if s.is_switch:
        return MASK
    if s.symbol == roles.SHARED:
        return SHARED
    twins = any(roles.is_packed(s.data, name) for name in s.names)
    return PACKED if twins and not roles.has_baseline(s) else SWEEP
