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
from flashlab.benchmarks.counters import CELL_COUNTERS
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

PROFILED = 1.5
"""From how many times the timed pass on a profiled one tells nothing of it."""

LEAST = 0.01
"""Share of a pass's time from which on a kind of operator is named."""

KERNEL = ["kind", "ms", "bytes", "tensor", "compute", "memory"]
"""The columns of a pass's kernels: sums, and percent of the peaks of Tensor Cores, of the busiest
unit of the SMs and of the memory system."""


def kernels(s: Sweep, name: str, at: int, metric: str, variant: str = "") -> pd.DataFrame:
    """The kernels that a pass launches, a row each (`KERNEL`); empty where none were counted."""
    cell = (s.run(name, at, variant) or {}).get("kernels")
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
    known = [f"{key}_{c}" for c in CELL_COUNTERS if not s.medians(f"{key}_{c}").empty]
    return [row for metric in known for row in s.rows(metric, names, at)]


def filled(s: Sweep) -> Observation | None:
    """Short sequences leave the Tensor Cores idle."""
    activity = counted(s, "forward_matrix_activity")
    fused = [n for n in roles.subjects(s) if not roles.stores_scores(s.data, n)]
    names = [n for n in fused if n in activity and activity[n].notna().sum() > 1]
    at = roles.ends(s, names, "forward_matrix_activity") if names else []
    if s.symbol != "N" or s.is_switch or not at or at != roles.ends(s, names):
        return None
    told = [n for n in names if number(activity, at[0], n) < 0.7 * number(activity, at[1], n)]
    if not told or len(told) < 0.7 * len(fused):
        return None
    facts: dict[str, Any] = {
        **{"p": s.symbol, "first": at[0], "last": at[1], "who": roles.group(s, told, short=True)},
        "activity": [roles.span(number(activity, end, n) / 100 for n in told) for end in at],
    }
    return Observation("filled", s.name, facts, _counter_rows(s, "forward", told, at))


def bound(s: Sweep) -> Observation | None:
    """Which passes of the baseline memory bounds, kernel by kernel where these were counted."""
    base, moved = s.data.baseline, counted(s, "forward_dram_bytes")
    known = moved[base].dropna() if base in moved else moved.iloc[:0]
    at = roles.ends(s, [base])[-1:] if roles.has_baseline(s) else []
    if s.symbol != "N" or s.is_switch or not at or [*map(int, known.index[-1:])] != at:
        return None
    found = {key: each for key in PASSES if (each := _of_pass(s, base, key, at[0]))}
    if not found:
        return None
    told = sorted(found.values(), key=lambda each: each["says"], reverse=True)
    names = [n for n in roles.subjects(s) if n in moved and pd.notna(moved[n].get(at[0]))]
    activity = s.medians("forward_matrix_activity")
    unused = {n: x for n in roles.stored(s) if (x := number(activity, at[0], n)) < 2}
    facts = {
        **{"p": s.symbol, "at": at[0], "base": base, "passes": told},
        "fewer": _fewer(s, names, at[0], told[0]["kind"]),
        "off": [clause("cores_off", name=name, x=x / 100) for name, x in unused.items()],
    }
    rows = [r for key in PASSES for r in _counter_rows(s, key, [base, *names], at)]
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
    kinds = shares[near].groupby(rows.kind[near], sort=False).sum()
    named = [clause("kernel", kind=k, share=float(x)) for k, x in kinds.items() if x >= NAMED]
    others, rest = shares[~near].groupby(rows.kind[~near]).sum(), None
    busiest = str(others.idxmax())
    if held < PARTLY or not named or busiest in kinds:
        return None
    mine = rows[~near & (rows.kind == busiest)]
    compute = float((mine.compute * mine.ms).sum() / mine.ms.sum()) / 100
    if others[busiest] >= NAMED and compute >= BOUND:
        rest = clause("kernel_busy", kind=busiest, share=float(others[busiest]), x=compute)
    return clause("bound_part", kind=key, **about, named=named, rest=rest)


def _fewer(s: Sweep, names: list[str], at: int, key: str) -> dict[str, Any] | None:
    """How many times fewer bytes than the baseline the subjects move in a pass."""
    moved = s.medians(f"{key}_dram_bytes")
    base = s.data.baseline
    times = [number(moved, at, base) / number(moved, at, name) for name in names]
    if not times or min(times) < 2:
        return None
    says = "fewer_one" if len(names) == 1 else "fewer_many"
    return clause(says, who=roles.group(s, names, short=True), kind=key, x=min(times), base=base)


def line_of(s: Sweep, key: str) -> tuple[float, float] | None:
    """The baseline's time of a pass as a straight line: ms a unit, and ms at none.

    None where a point is off it (`LINE`), fewer than three are there, one of them is odd, or H and
    E both change, which then is not of the scores alone.
    """
    base, both = s.data.baseline, s.runs[["num_heads", "emb_dim"]].nunique().min() > 1
    times = s.medians(PASSES[key])[base].dropna() if roles.has_baseline(s) else pd.Series()
    if both or len(times) < 3 or not roles.usual(s, [base], map(int, times.index)):
        return None
    values = times.index.to_numpy(dtype=float)
    slope, fixed = (float(x) for x in np.polyfit(values, times.to_numpy(dtype=float), 1))
    off = float(np.abs(fixed + slope * values - times.to_numpy()).max() / times.min())
    return (slope, fixed) if off <= LINE and slope > 0 and fixed > 0 else None


def score_line(s: Sweep) -> Observation | None:
    """The part of the baseline's time that its scores make up, by a line in H, and in E."""
    base = s.data.baseline
    at = roles.ends(s, [base]) if roles.has_baseline(s) else []
    if s.symbol not in ("H", "E") or not at or s.is_switch or not roles.stores_scores(s.data, base):
        return None
    last, lines, found = at[1], {key: line_of(s, key) for key in PASSES}, {}
    for key, line in lines.items():
        time = number(s.medians(PASSES[key]), last, base)
        if line:
            found[key] = (line[0] * last if s.symbol == "H" else line[1]) / time
    facts = {"p": s.symbol, "last": last, "base": base, **found}
    rows = [r for m in PASSES.values() for r in s.rows(m, [base], s.medians(m).index)]
    if len(found) == 2 and s.symbol == "H" and min(found.values()) >= 0.3:
        return Observation("score_line", s.name, facts, rows, "heads")
    if s.symbol == "E" and found.get("forward", 0) >= 0.3 and _agrees(s, lines["forward"]):
        return Observation("score_line", s.name, facts, rows, "emb")
    return None


def _agrees(s: Sweep, line: tuple[float, float] | None) -> bool:
    """True if what does not depend on E is what the experiment on H says that the scores cost."""
    mine, same = s.runs.iloc[0], ["batch_size", "seq_len", "causal"]
    for other in s.data.sweeps:
        theirs = line_of(other, "forward") if other.symbol == "H" and len(other.runs) else None
        if line and theirs and (other.runs.iloc[0][same] == mine[same]).all():
            return abs(theirs[0] * float(mine.num_heads) / line[1] - 1) < 0.1
    return False


def faults(s: Sweep) -> Observation | None:
    """On a CPU: the pass that the system's page faults cost most of, where any were recorded."""
    runs = s.runs.dropna(subset=["page_faults"])
    found = [
        (each["system_share"], each["per_call"], metric, key)
        for key, cell in zip(run_keys_of(runs), runs.page_faults, strict=True)
        for metric, each in json.loads(str(cell)).items()
        if each["per_call"] >= 1
    ]
    if not found:
        return None
    cost, count, metric, (_, name, at) = max(found)
    kind = next(key for key, m in PASSES.items() if m == metric)
    facts = {"p": s.symbol, "at": at, "name": name, "kind": kind, "faults": count, "share": cost}
    rows = [{"table": "runs.csv", "experiment": s.name, "implementation": name, "at": at}]
    return Observation("faults", s.name, facts, rows)


def operators(s: Sweep) -> Observation | None:
    """On a CPU: what the baseline's forward spends its time on, at the largest counted value."""
    base, variant = s.data.baseline, s.variants[-1]
    kinds = ("product", "softmax", "elementwise")
    tables = {kind: counted(s, f"forward_{kind}_share", variant) for kind in kinds}
    products = tables["product"]
    if s.is_switch or base not in products or products[base].dropna().empty:
        return None
    known = products[base].dropna().index
    at = first, last = int(known[0]), int(known[-1])
    profiled, timed = (
        number(s.medians(metric, variant), last, base)
        for metric in ("forward_operator_time", PASSES["forward"])
    )
    if profiled > PROFILED * timed:
        return None
    before, now = ({k: number(t, end, base) / 100 for k, t in tables.items()} for end in at)
    rest = "work_mask" if (s.run(base, last, variant) or {}).get("causal") else "work_plain"
    says = dict(zip(kinds, ("work_products", "work_softmax", rest), strict=True))
    parts = [clause(says[kind], x=x) for kind, x in now.items() if x >= LEAST]
    if not parts:  # a fused baseline, whose one operator is of no such kind
        return None
    moved, about = before["product"] - now["product"], {"p": s.symbol, "first": first}
    about |= {"before": 1 - before["product"], "now": 1 - now["product"]}
    about["word"] = "more" if moved > 0 else "less"
    facts = {
        **{"p": s.symbol, "last": last, "base": base},
        "parts": sorted(parts, key=lambda part: -part["x"]),
        "moved": clause("moved", **about) if abs(moved) >= 0.05 else None,
    }
    rows = [r for k in kinds for r in s.rows(f"forward_{k}_share", [base], at, variant)]
    return Observation("operators", s.name, facts, rows)


# The size of heads


def heads(s: Sweep) -> Observation | None:
    """Which head size each subject is fastest at, and what its worst costs, shown by intervals."""
    found = head_sizes(s)
    if not found:
        return None
    return Observation("heads", s.name, found, found.pop("rows"), found.pop("variant"))


def head_sizes(s: Sweep) -> dict[str, Any] | None:
    """The facts of `heads`; at ``good`` sizes all take at most ``there`` longer than at best."""
    dims = roles.head_dims(s)
    if s.symbol != "H" or len({*dims.values()}) < 3 or roles.odd_at(s) or s.is_switch:
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
    most, near = str(cost[told].max().idxmax()), cost[cost.max(axis=1) < SHOWN]
    facts = {
        **{"best": sorted({dims[best[n]] for n in told}), "who": roles.group(s, told, short=True)},
        **{"worst": sorted({dims[worst[n]] for n in told}), "x": roles.span(cost[told].max())},
        **{"most": most, "more": float(cost[most].max()) - 1},
        **{"good": sorted(dims[int(at)] for at in near.index), "there": near.max().max() - 1},
        "among": roles.group(s, names, short=True),
    }
    rows = s.rows(TOTAL, told, map(int, table.index))
    return {**facts, "rows": rows, "variant": "one" if len(told) == 1 else "many"}


def _apart(s: Sweep, name: str, best: int, worst: int) -> bool:
    """True if the intervals of two totals of an implementation exclude each other."""
    key = (s.name, s.variants[0], TOTAL, name)
    low = number(s.data.intervals.low, *[(*key, worst)])
    return low > number(s.data.intervals.high, *[(*key, best)])


def small_heads(s: Sweep) -> Observation | None:
    """Who is no faster at the smallest heads than at the next ones, with less work."""
    pair = [*map(int, s.medians(TOTAL).index[:2])]
    if s.symbol != "E" or len(pair) < 2 or s.is_switch:
        return None
    verdicts = {
        n: word(s.grown(TOTAL, n), pair[1], "verdict")
        for n in roles.usual(s, roles.subjects(s), pair)
    }
    longer, equal = ([n for n, v in verdicts.items() if v == w] for w in ("faster", "equal"))
    names, dims, work = longer or equal, roles.head_dims(s), [number(s.work(), at) for at in pair]
    if not names:
        return None
    facts: dict[str, Any] = {"names": names, "d": [dims[at] for at in pair]}
    facts |= {"ops": work[1] / work[0], "word": "longer" if longer else "equal"}
    rows = s.data.rows(*(s.grown(TOTAL, n).loc[pair[1:]] for n in names))
    return Observation("small_heads", s.name, facts, rows)
