"""Why: what was counted of the same run, or what a line through the sweep shows.

A cause names the setting that it is from, the largest one that was counted. Where nothing bears
one, nothing stands in its place.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from flashlab.analysis.frames import Sweep, number, run_keys_of, word
from flashlab.analysis.launched import COUNTERS
from flashlab.story.attention import roles
from flashlab.story.attention.roles import PASSES, TOTAL, margins
from flashlab.story.observation import Observation, clause

BOUND = 0.6
"""From which share of the measured copy rate on memory bounds a pass or a kernel."""

MOSTLY, PARTLY = 2 / 3, 1 / 5
"""Shares of a pass's time in kernels that memory bounds: from which on the pass is bound by it, and
from which on they are named."""

NAMED = 0.1
"""Share of a pass's time from which on a kind of kernel is named."""

LINE = 0.03
"""Largest distance of a point from the line through a sweep, as a share of its least time."""

SHOWN = 1.2
"""From which factor on a head size is told to cost something."""

LEAST = 0.01
"""Share of a pass's time from which on a kind of operator is named."""

KERNEL = ["kind", "ms", "bytes", "tensor", "compute", "memory"]
"""The columns of a pass's kernels: sums, and percent of the peaks of Tensor Cores, of the busiest
unit of the SMs and of the memory system."""


def kernels(s: Sweep, name: str, at: int, metric: str, variant: str = "") -> pd.DataFrame:
    """The kernels that a pass launches, a row each (`KERNEL`); empty where none were counted."""
    run = s.run(name, at, variant)
    cell = run and run["kernels"]
    rows = json.loads(cell).get(metric, []) if isinstance(cell, str) else []
    return pd.DataFrame([row[1:] for row in rows], columns=KERNEL)


def counted(s: Sweep, counter: str, variant: str = "") -> pd.DataFrame:
    """A counter by value and implementation, of values where anything was counted."""
    return s.medians(counter, variant).dropna(how="all")


def copy_rate(s: Sweep) -> float:
    """Bytes a millisecond that the device was measured to copy; NaN of another or no device."""
    ceilings = s.data.ceilings
    names = {str(name) for name in s.runs.device_name}
    return ceilings.copy.rate / 1e3 if ceilings and names == {ceilings.device_name} else np.nan


def dram_share(s: Sweep, name: str, key: str, at: int, variant: str = "") -> float:
    """The rate at which a pass's kernels move data, as a share of the copy rate; NaN if unknown."""
    moved, busy = (s.medians(f"{key}_{c}", variant) for c in ("dram_bytes", "busy_time"))
    return number(moved, at, name) / number(busy, at, name) / copy_rate(s)


def _counter_rows(s: Sweep, key: str, names: list[str], at: list[int]) -> list[dict[str, Any]]:
    """The evidence of what was counted of a pass."""
    known = [f"{key}_{c}" for c in COUNTERS if not s.medians(f"{key}_{c}").empty]
    return [row for metric in known for row in s.rows(metric, names, at)]


def filled(s: Sweep) -> Observation | None:
    """Short sequences leave the Tensor Cores idle, or the whole GPU between kernels."""
    activity = counted(s, "forward_matrix_activity")
    names = [n for n in roles.subjects(s) if n in activity and activity[n].notna().sum() > 1]
    at = roles.ends(s, names, "forward_matrix_activity") if names else []
    if s.symbol != "N" or s.is_switch or not at or at != roles.ends(s, names):
        return None
    first, last = at
    told = [n for n in names if number(activity, first, n) < 0.7 * number(activity, last, n)]
    if not told or len(told) < 0.7 * len(roles.subjects(s)):
        return None
    busy = {
        n: number(s.medians("forward_busy_time"), first, n)
        / number(s.medians(PASSES["forward"]), first, n)
        for n in told
    }
    facts = {
        **{"p": s.symbol, "first": first, "last": last, "who": roles.group(s, told, short=True)},
        "activity": [roles.span(number(activity, end, n) / 100 for n in told) for end in at],
    }
    rows = _counter_rows(s, "forward", told, at)
    if len(told) == 1 and busy[told[0]] < 0.8:
        return Observation("filled", s.name, {**facts, "idle": 1 - busy[told[0]]}, rows, "gaps")
    return Observation("filled", s.name, facts, rows, "cores")


def bound(s: Sweep) -> Observation | None:
    """Which passes of the baseline memory bounds, kernel by kernel where these were counted."""
    base = s.data.baseline
    moved = counted(s, "forward_dram_bytes")
    known = moved[base].dropna() if base in moved else moved.iloc[:0]
    at = roles.ends(s, [base]) if roles.has_baseline(s) else []
    if s.symbol != "N" or s.is_switch or known.empty or not at or int(known.index[-1]) != at[1]:
        return None
    found = {key: _of_pass(s, base, key, at[1]) for key in PASSES}
    told = sorted((each for each in found.values() if each), key=lambda c: c["says"], reverse=True)
    rates = [each["rate"] for each in found.values() if each and each["says"] == "bound_whole"]
    if len(rates) == len(PASSES):
        told = [{**told[-1], "says": "bound_both", "rates": rates}]
    whole = [key for key, each in found.items() if each and each["says"] == "bound_whole"]
    if not told:
        return None
    names = [n for n in roles.subjects(s) if n in moved and pd.notna(moved[n].get(at[1]))]
    factors = _fewer(s, names, at[1], (whole or [key for key, each in found.items() if each])[0])
    off = [
        clause("cores_off", name=name, x=x / 100)
        for name in roles.stored(s)
        if (x := number(s.medians("forward_matrix_activity"), at[1], name)) < 2
    ]
    facts = {"p": s.symbol, "at": at[1], "base": base, "passes": told, "fewer": factors, "off": off}
    rows = [r for key in PASSES for r in _counter_rows(s, key, [base, *names], [at[1]])]
    return Observation("bound", s.name, facts, rows, "passes")


def _of_pass(s: Sweep, name: str, key: str, at: int) -> dict[str, Any] | None:
    """The clause on what bounds a pass; None where memory does not."""
    rate, rows = dram_share(s, name, key, at), kernels(s, name, at, PASSES[key])
    activity = number(s.medians(f"{key}_matrix_activity"), at, name) / 100
    about = {"name": name, "rate": rate, "activity": activity}
    if rows.empty or copy_rate(s) != copy_rate(s):
        return clause("bound_whole", kind=key, **about) if rate >= BOUND else None
    shares = rows.ms / rows.ms.sum()
    near = (rows.bytes / rows.ms / copy_rate(s) >= BOUND) & (rows.memory >= rows.compute)
    held = float(shares[near].sum())
    if held >= MOSTLY and rate >= BOUND:
        return clause("bound_whole", kind=key, **about)
    kinds = {
        str(kind): float(shares[near & (rows.kind == kind)].sum()) for kind in rows.kind.unique()
    }
    named = [clause("kernel", kind=k, share=x) for k, x in kinds.items() if x >= NAMED]
    if held < PARTLY or not named:
        return None
    by_kind = shares[~near].groupby(rows.kind[~near]).sum()
    busiest = str(by_kind.idxmax())
    mine = rows[~near & (rows.kind == busiest)]
    compute = float((mine.compute * mine.ms).sum() / mine.ms.sum()) / 100
    rest = None
    if by_kind[busiest] >= NAMED and compute >= BOUND:
        rest = clause("kernel_busy", kind=busiest, share=float(by_kind[busiest]), x=compute)
    return clause("bound_part", kind=key, **about, named=named, rest=rest)


def _fewer(s: Sweep, names: list[str], at: int, key: str) -> dict[str, Any] | None:
    """How many times fewer bytes than the baseline the subjects move in a pass."""
    moved = s.medians(f"{key}_dram_bytes")
    times = [number(moved, at, s.data.baseline) / number(moved, at, name) for name in names]
    if not times or min(times) < 2:
        return None
    says = "fewer_one" if len(names) == 1 else "fewer_many"
    return clause(says, who=roles.group(s, names, short=True), kind=key, x=min(times))


def line_of(s: Sweep, key: str) -> tuple[float, float] | None:
    """The baseline's time of a pass as a straight line: ms a unit, and ms at none.

    None where a point is off it (`LINE`), fewer than three are there, or one of them is odd.
    """
    base = s.data.baseline
    times = s.medians(PASSES[key])[base].dropna() if roles.has_baseline(s) else pd.Series()
    if len(times) < 3 or {*roles.odd_of(s).get(base, ())} & {*times.index}:
        return None
    values = times.index.to_numpy(dtype=float)
    slope, fixed = (float(x) for x in np.polyfit(values, times.to_numpy(dtype=float), 1))
    off = float(np.abs(fixed + slope * values - times.to_numpy()).max() / times.min())
    return (slope, fixed) if off <= LINE and slope > 0 and fixed > 0 else None


def score_line(s: Sweep) -> Observation | None:
    """The part of the baseline's time that its scores make up, by a line in H, and in E."""
    base = s.data.baseline
    at = roles.ends(s, [base]) if roles.has_baseline(s) else []
    lines = {key: line_of(s, key) for key in PASSES} if s.symbol in ("H", "E") and at else {}
    if not lines or not roles.stores_scores(s.data, base) or s.is_switch:
        return None
    last, times = at[1], {key: number(s.medians(m), at[1], base) for key, m in PASSES.items()}
    found = {
        key: (line[0] * last if s.symbol == "H" else line[1]) / times[key]
        for key, line in lines.items()
        if line
    }
    facts = {"p": s.symbol, "last": last, "base": base, **found}
    rows = [r for m in PASSES.values() for r in s.rows(m, [base], s.medians(m).index)]
    if len(found) == 2 and s.symbol == "H" and min(found.values()) >= 0.3:
        return Observation("score_line", s.name, facts, rows, "heads")
    if s.symbol == "E" and found.get("forward", 0) >= 0.3 and _agrees(s, lines["forward"]):
        return Observation("score_line", s.name, facts, rows, "emb")
    return None


def _agrees(s: Sweep, line: tuple[float, float] | None) -> bool:
    """True if what does not depend on E is what the experiment on H says that the scores cost."""
    mine = s.runs.iloc[0]
    same = ("batch_size", "seq_len", "causal")
    for other in s.data.sweeps:
        if other.symbol != "H" or other.runs.empty or line is None:
            continue
        theirs = line_of(other, "forward")
        if theirs and all(other.runs.iloc[0][c] == mine[c] for c in same):
            return abs(theirs[0] * float(mine.num_heads) / line[1] - 1) < 0.1
    return False


def faults(s: Sweep) -> Observation | None:
    """On a CPU: the pass that the system's page faults cost most of, where any were recorded."""
    runs = s.runs.dropna(subset=["page_faults"])
    cells = dict(zip(run_keys_of(runs), runs.page_faults, strict=True))
    found = [
        (each["system_share"], each["per_call"], metric, key)
        for key, cell in cells.items()
        for metric, each in json.loads(str(cell)).items()
        if each["per_call"] >= 1
    ]
    if not found:
        return None
    cost, count, metric, (_, name, at) = max(found)
    key = next(key for key, m in PASSES.items() if m == metric)
    facts = {"p": s.symbol, "at": int(at), "name": name, "kind": key}
    rows = [{"table": "runs.csv", "experiment": s.name, "implementation": name, "at": int(at)}]
    return Observation("faults", s.name, {**facts, "faults": count, "share": cost}, rows)


def operators(s: Sweep) -> Observation | None:
    """On a CPU: what the baseline's forward spends its time on, at the largest counted value."""
    base, variant = s.data.baseline, s.variants[-1]
    kinds = {
        kind: counted(s, f"forward_{kind}_share", variant)
        for kind in ("product", "softmax", "elementwise")
    }
    products = kinds["product"]
    if base not in products or products[base].dropna().empty or s.is_switch:
        return None
    known = [int(at) for at in products[base].dropna().index]
    first, last = known[0], known[-1]
    shares = [{k: number(t, at, base) / 100 for k, t in kinds.items()} for at in (first, last)]
    masked = bool((s.run(base, last, variant) or {}).get("causal"))
    says = {"product": "work_products", "softmax": "work_softmax"}
    says["elementwise"] = "work_mask" if masked else "work_plain"
    parts = [clause(says[kind], x=x) for kind, x in shares[1].items() if x >= LEAST]
    if not parts:  # a fused baseline, whose one operator is of no such kind
        return None
    facts = {"p": s.symbol, "first": first, "last": last, "base": base}
    facts["parts"] = sorted(parts, key=lambda part: -part["x"])
    moved = shares[0]["product"] - shares[1]["product"]
    facts["before"] = 1 - shares[0]["product"]
    facts["now"] = 1 - shares[1]["product"]
    facts["word"] = "more" if moved > 0 else "less"
    variant_ = "same" if abs(moved) < 0.05 else "moved"
    rows = [r for k in kinds for r in s.rows(f"forward_{k}_share", [base], (first, last), variant)]
    return Observation("operators", s.name, facts, rows, variant_)


# The size of heads


def heads(s: Sweep) -> Observation | None:
    """Which head size each subject is fastest at, and what its worst costs, shown by intervals."""
    found = head_sizes(s)
    return (
        Observation("heads", s.name, found, found.pop("rows"), found.pop("variant"))
        if found
        else None
    )


def head_sizes(s: Sweep) -> dict[str, Any] | None:
    """The facts of `heads`; ``good`` are sizes at which all are within `SHOWN` of their best."""
    dims = roles.head_dims(s)
    if s.symbol != "H" or len({*dims.values()}) < 2 or roles.odd_at(s) or s.is_switch:
        return None
    table = s.medians(TOTAL)
    names = [n for n in roles.subjects(s) if table[n].notna().all()]
    if not names:
        return None
    cost = table[names] / table[names].min()
    worst = {n: int(str(cost[n].idxmax())) for n in names}
    best = {n: int(str(cost[n].idxmin())) for n in names}
    told = [n for n in names if _apart(s, n, best[n], worst[n]) and cost[n].max() >= margins(1)]
    if not told or cost[told].max().max() < SHOWN:
        return None
    most = str(cost[told].max().idxmax())
    facts = {
        **{"best": sorted({dims[best[n]] for n in told}), "who": roles.group(s, told, short=True)},
        **{"worst": sorted({dims[worst[n]] for n in told}), "x": roles.span(cost[told].max())},
        **{"most": most, "more": float(cost[most].max()) - 1},
        "good": sorted(dims[int(str(at))] for at, row in cost.iterrows() if row.max() < SHOWN),
    }
    rows = s.rows(TOTAL, told, map(int, table.index))
    return {**facts, "rows": rows, "variant": "one" if len(told) == 1 else "many"}


def _apart(s: Sweep, name: str, best: int, worst: int) -> bool:
    """True if the intervals of two totals of an implementation exclude each other."""
    key = (s.name, s.variants[0], TOTAL, name)
    low = number(s.data.intervals.low, *[(*key, worst)])
    high = number(s.data.intervals.high, *[(*key, best)])
    return low > high


def small_heads(s: Sweep) -> Observation | None:
    """Who is no faster at the smallest heads than at the next ones, with less work."""
    table = s.medians(TOTAL)
    if s.symbol != "E" or len(table) < 2 or s.is_switch:
        return None
    a, b = (int(str(each)) for each in table.index[:2])
    verdicts = {n: word(s.grown(TOTAL, n), b, "verdict") for n in roles.subjects(s)}
    odd = roles.odd_of(s)
    usual = {n: v for n, v in verdicts.items() if not {a, b} & {*odd.get(n, ())}}
    names = [n for n, v in usual.items() if v == "faster"] or [
        n for n, v in usual.items() if v == "equal"
    ]
    if not names:
        return None
    dims = roles.head_dims(s)
    facts: dict[str, Any] = {"names": names, "d": [dims[a], dims[b]]}
    facts["ops"] = number(s.work(), b) / number(s.work(), a)
    facts["word"] = "longer" if verdicts[names[0]] == "faster" else "equal"
    rows = s.data.rows(*(s.grown(TOTAL, n).loc[[b]] for n in names))
    return Observation("small_heads", s.name, facts, rows)
