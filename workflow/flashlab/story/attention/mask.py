"""What the causal mask does: to the times of each, why, and to the lead.

Speeds are those with the mask over those without, at the first and the last value of the sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flashlab.analysis.frames import Sweep, number, word
from flashlab.story.attention import roles
from flashlab.story.attention.causes import counted, kernels
from flashlab.story.attention.roles import MEMORY, PASSES, TOTAL, margins
from flashlab.story.observation import Observation, clause

OFF, ON = "causal=false", "causal=true"

EXPLAINS = (0.7, 1.4)
"""Between which shares of what a pass takes longer the element-wise work is about as much."""


def mask_ends(s: Sweep) -> list[int]:
    """The first and the last value with times under both masks, none of them odd."""
    found = [roles.ends(s, [name], TOTAL, v) for name in s.names for v in (OFF, ON)]
    known = [each for each in found if each]
    return [min(a for a, _ in known), max(b for _, b in known)] if known else []


def mask_time(s: Sweep) -> Observation | None:
    """What the mask does to the total times, at both ends; who gains, and who becomes slower."""
    at, new = mask_ends(s), roles.subjects(s)
    if not at:
        return None
    first, last = at
    rows = {n: s.switched(TOTAL, n) for n in roles.usual(s, s.names, at)}
    verdicts = {n: [word(each, end, "verdict") for end in at] for n, each in rows.items()}
    known = [n for n in new if n in rows]
    both = [*known, *(n for n in rows if n not in new and not roles.is_packed(s.data, n))]
    gain, slow = ([n for n in both if verdicts[n][1] == v] for v in roles.DECIDED)
    evidence = s.data.rows(*(each[each.index.isin(at)] for each in rows.values()))
    facts: dict[str, Any] = {"p": s.symbol, "first": first, "last": last}
    if not gain and not slow:
        every = {word(s.switched(TOTAL, n), last, "verdict") for n in s.names}  # odd ones too
        told = Observation("mask_time", s.name, facts, evidence, "none")
        return None if "faster" in every else told

    def x(names: list[str], end: int) -> list[float]:
        return roles.span(number(rows[n], end, "x") for n in names)

    clauses = []
    if gain:
        early = [n for n in gain if verdicts[n][0] == "faster"]
        says = "early_all" if early == gain else "early_some" if early else "early_none"
        begins = clause(says, names=early, at=first, x=x(early, first) if early else None)
        who = roles.group(s, gain) if gain == known else clause("who_names", names=gain)
        found = {"p": s.symbol, "at": last, "who": who, "x": x(gain, last), "early": begins}
        clauses.append(clause("mask_gain", **found))
    if slow:
        backward = [s.switched(PASSES["backward"], n) for n in slow]
        same = all(word(each, end, "verdict") == "equal" for each in backward for end in at)
        where = clause("in_forward") if same else None
        clauses.append(clause("mask_slow", names=slow, at=last, x=x(slow, last), where=where))
    return Observation("mask_time", s.name, {**facts, "parts": clauses}, evidence, "parts")


def mask_why(s: Sweep) -> Observation | None:
    """The baseline multiplies all of N × N still and adds kernels; the others skip masked tiles."""
    base, at = s.data.baseline, mask_ends(s)
    if base not in s.names or not at:
        return None
    last = at[1]
    off, on = (kernels(s, base, last, PASSES["forward"], v) for v in (OFF, ON))
    if off.empty or on.empty:
        return _operators_why(s, base, last)
    work = [(each.ms * each.tensor)[each.kind == "product"].sum() for each in (off, on)]
    more = on.groupby("kind").ms.sum().sub(off.groupby("kind").ms.sum(), fill_value=0)
    masking = float(more.drop(["product", "softmax"], errors="ignore").sum())
    if len(on) <= len(off) or not work[0] or more.sum() <= 0 or masking <= 0:
        return None
    facts = {
        **{"p": s.symbol, "at": last, "base": base, "product": float(work[1] / work[0])},
        **{"added": len(on) - len(off), "more": float(more.sum()), "masking": masking},
        "skipped": _skipped(s, at),
    }
    counters = ("forward_matrix_activity", "forward_busy_time", "forward_kernels")
    rows = [r for c in counters for v in (OFF, ON) for r in s.rows(c, s.names, at, v)]
    return Observation("mask_why", s.name, facts, rows, "kernels")


def _skipped(s: Sweep, at: list[int]) -> dict[str, Any] | None:
    """What is left of the Tensor Core time of the subjects, where it falls by a tenth or more."""
    names = [n for n in roles.subjects(s) if n in counted(s, "forward_busy_time", ON)]
    off, on = (
        s.medians("forward_matrix_activity", v)[names] * s.medians("forward_busy_time", v)[names]
        for v in (OFF, ON)
    )
    left = on / off
    told = [n for n in names if number(left, at[1], n) < 0.9]
    if not told:
        return None
    late = roles.span(number(left, at[1], n) for n in told)
    facts: dict[str, Any] = {"who": roles.group(s, told, short=True), "at": at[1], "x": late}
    early = [x for n in told if not np.isnan(x := number(left, at[0], n))]
    begins = None
    if early and min(early) > 0.9:
        begins = clause("skip_not", at=at[0])
    elif early and max(early) > late[1]:
        begins = clause("skip_few", at=at[0], x=roles.span(early))
    return clause("skipped", **facts, p=s.symbol, early=begins)


def _operators_why(s: Sweep, base: str, last: int) -> Observation | None:
    """On a CPU: the operators that the mask adds to the baseline's forward, and their share."""

    def at(metric: str, variant: str) -> float:
        return number(s.medians(metric, variant), last, base)

    added = at("forward_operators", ON) - at("forward_operators", OFF)
    share, on = at("forward_elementwise_share", ON) / 100, at(PASSES["forward"], ON)
    if not added > 0 or np.isnan(share):
        return None
    longer = on - at(PASSES["forward"], OFF)
    explains = longer > 0 and EXPLAINS[0] < share * on / longer < EXPLAINS[1]
    facts = {"p": s.symbol, "at": last, "base": base, "added": int(added), "share": share}
    facts |= {"explains": clause("as_much") if explains else None}
    metrics = ("forward_operators", "forward_elementwise_share")
    rows = [r for m in metrics for v in (OFF, ON) for r in s.rows(m, [base], [last], v)]
    return Observation("mask_why", s.name, facts, rows, "operators")


def widened(s: Sweep) -> dict[str, list[float]]:
    """The lead over the baseline without and with the mask at the last value, where it is wider.

    Of the subjects whose intervals are apart by more than the margin, by name.
    """
    at, found = mask_ends(s), {}
    if not at or s.data.baseline not in roles.usual(s, s.names, at[1:]):
        return {}
    for name in roles.usual(s, roles.subjects(s), at[1:]):
        off, on = (s.speed(TOTAL, name, variant=v) for v in (OFF, ON))
        if number(on, at[1], "low") > number(off, at[1], "high") * margins(1):
            found[name] = [number(each, at[1], "x") for each in (off, on)]
    return found


def mask_take(s: Sweep) -> Observation | None:
    """That the mask widens the lead, by the ends of the last value."""
    found = {name: x for name, x in widened(s).items() if x[0] > 1}
    if not found:
        return _mask_open(s)
    at, who = mask_ends(s)[1], clause("who_names", names=[*found])
    if len(found) == 1 or [*found] == roles.subjects(s):
        who = roles.group(s, found, short=True)
    facts = {
        **{"p": s.symbol, "at": at, "base": s.data.baseline, "who": who},
        **{key: roles.span(x[i] for x in found.values()) for i, key in enumerate(("off", "on"))},
    }
    rows = s.data.rows(*(s.speed(TOTAL, n, variant=v).loc[[at]] for n in found for v in (OFF, ON)))
    return Observation("mask_take", s.name, facts, rows)


def _mask_open(s: Sweep) -> Observation | None:
    """Of one subject: its lead without and with the mask, where they are not shown to differ."""
    at, names = mask_ends(s), roles.subjects(s)
    if not at or len(names) != 1 or not roles.has_baseline(s) or at[1] in roles.odd_at(s):
        return None
    rows = [s.speed(TOTAL, names[0], variant=v).reindex(at[1:]) for v in (OFF, ON)]
    off, on = (each.iloc[0] for each in rows)
    facts = {"p": s.symbol, "at": at[1], "new": names[0], "ends": [off.x, on.x]}
    is_open = off.low <= on.high and on.low <= off.high
    return Observation("mask_open", s.name, facts, s.data.rows(*rows)) if is_open else None


def mask_memory(s: Sweep) -> Observation | None:
    """That the mask leaves all peaks as they are."""
    off, on = (s.medians(MEMORY, v) for v in (OFF, ON))
    alike = off.shape == on.shape and np.allclose(off, on, rtol=1e-3, equal_nan=True)
    if off.empty or not alike:
        return None
    at = off.index[[-1]]
    rows = [r for v in (OFF, ON) for r in s.rows(MEMORY, s.names, at, v)]
    return Observation("mask_memory", s.name, {}, rows)
