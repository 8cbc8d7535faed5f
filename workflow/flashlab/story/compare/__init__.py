"""The story of two datasets or revisions: who gains, where, and by which ceiling; what to choose.

A speed is the second side's over the first's. That a gain is near the ratio of two ceilings is
stated, never as its cause. Of revisions on one device the implementations that moved are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from flashlab.analysis.ceilings import COPY
from flashlab.analysis.choices import both_ways
from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.devices import find_device
from flashlab.story.compare.table import FUSED, Compared, as_speeds, counts, ranked_by
from flashlab.story.observation import Observation, Place, clause
from flashlab.story.tables import FASTER, SLOWER

NEAR = 0.02
"""How near a speed is to the ratio of two ceilings, to be said to come near it."""

APART = 0.1
"""By which share bandwidths and products differ more than each other, to be said to."""

NAMED = 3
"""Most kernels that are named; all are counted."""

DECIDED = (FASTER, SLOWER)
TABLE = "comparison.csv"


def _observe(
    name: str,
    facts: dict[str, Any],
    rows: pd.DataFrame | None = None,
    variant: str = "",
    place: Place = "answer",
) -> Observation:
    """An observation on rows of the comparison's table."""
    found = pd.DataFrame() if rows is None else rows[[c for c in _SHOWN if c in rows]]
    known = found.astype(object).where(found.notna(), None).to_dict("records")
    kept = [{"table": TABLE, **{str(k): v for k, v in r.items() if v is not None}} for r in known]
    return Observation(name, None, facts, kept, variant, place)


_SHOWN = (
    *("experiment", "implementation", "subject", "reference", "group", "sizes", "shape"),
    *("metric", "settings", "ratio", "low", "high", "verdict"),
)


def _pooled(c: Compared) -> pd.DataFrame:
    """The speeds that pool several settings; of a group, or of one implementation."""
    rows = c.table[(c.table.compared == DATASET) & c.table["shape"].isna()]
    return as_speeds(rows)


def _moved(c: Compared) -> pd.DataFrame:
    """The implementations whose pooled total is decided, farthest from 1 first."""
    rows = _pooled(c)
    each = rows[rows.implementation.notna() & rows.sizes.isna() & (rows.metric == c.total.name)]
    return each[each.word.isin(DECIDED)].sort_values("x", ascending=not c.is_gain)


def _group(row: pd.Series) -> dict[str, Any]:
    return {"x": float(row.x), "decided": row.word in DECIDED}


def _of_naive(c: Compared, sizes: str | None = None) -> pd.Series | None:
    """The naive implementation's pooled total, over a class of sizes or all; None of none."""
    rows = _pooled(c)
    mine = rows[(rows.implementation == c.benchmark.naive) & (rows.metric == c.total.name)]
    found = mine[mine.sizes.isna() if sizes is None else mine.sizes == sizes]
    return found.iloc[0] if len(found) else None


def gain(c: Compared) -> Observation:
    """Who gains: the naive implementation, the fused ones, both alike, or nobody that is shown."""
    found, names = counts(c.speeds), {**c.names}
    facts = {**names, **found, "of": len(c.speeds)}
    naive, fused = _of_naive(c), c.pooled(c.total.name, FUSED)
    if not (found[FASTER] or found[SLOWER]):
        return _observe(
            "gain", facts, variant="none" if found["undecided"] or c.speeds.empty else "equal"
        )
    facts["tally"] = clause("tally", **facts)
    if c.devices is None or naive is None or fused is None:
        moved = _moved(c)
        told = [
            {"name": name, "x": float(x)}
            for name, x in zip(moved.implementation, moved.x, strict=True)
        ]
        facts |= {"moved": told[:NAMED], "more": len(told[NAMED:])}
        return _observe("gain", facts, moved, variant="moved" if told else "some")
    both = [(_of_naive(c, s), c.pooled(c.total.name, FUSED, s)) for s in c.classes(c.totals)]
    pairs = [(a, b) for a, b in both if a is not None and b is not None]
    gains = c.is_gain
    above = all(a.slowest > b.fastest if gains else a.fastest < b.slowest for a, b in pairs)
    below = all(b.slowest > a.fastest if gains else b.fastest < a.slowest for a, b in pairs)
    facts |= {"naive": {"name": c.benchmark.naive, **_group(naive)}, "fused": _group(fused)}
    word = FASTER if gains else SLOWER
    variant = "both" if naive.word in DECIDED or fused.word in DECIDED else "unshown"
    if above and naive.word == word:
        variant = "naive" if gains else "naive_loses"
    elif below and fused.word == word:
        variant = "fused" if gains else "fused_loses"
    return _observe("gain", facts, pd.DataFrame([naive, fused]), variant)


def where(c: Compared) -> Observation | None:
    """By class of sizes and by pass: where the fused ones gain, and where nothing is shown."""
    classes = c.classes(c.totals)
    found = {s: row for s in classes if (row := c.pooled(c.total.name, FUSED, s)) is not None}
    if len(found) < 2 or c.devices is None:
        return None
    most = max(found, key=lambda sizes: float(found[sizes].x))
    fused = c.speeds[c.speeds.group == FUSED]
    decided = fused[fused.word.isin(DECIDED)].sizes.unique()
    none = [s for s in found if s not in decided]
    passes = [p for m in c.times if (p := c.pooled(m.name, FUSED)) is not None]
    more = None
    for one, other in ((0, 1), (1, 0)) if len(passes) == 2 else ():
        if passes[one].slowest > passes[other].fastest and passes[one].word == FASTER:
            more = {"one": c.what(passes[one].metric), "other": c.what(passes[other].metric)}
    facts = {
        **{"most": most, "x": float(found[most].x), "more": more, "none": none},
        "level": [] if none else [s for s in found if found[s].word not in DECIDED],
    }
    gains = found[most].word == FASTER
    if not gains and more is None and not none:
        return None
    return _observe("where", facts, pd.DataFrame(found).T, "most" if gains else "nowhere")


def why(c: Compared) -> Observation | None:
    """The ratios of the measured ceilings, and whose gain is near which."""
    rates = {rate["what"]: rate["other"] / rate["one"] for rate in c.about["ceilings"]}
    products = next((dtype for dtype in c.single.dtype.unique() if dtype in rates), None)
    if c.devices is None or COPY not in rates or products is None:
        return None
    ratios = {"bandwidth": rates[COPY], "products": rates[products]}

    def near(x: float) -> str | None:
        return next((kind for kind, rate in ratios.items() if abs(x / rate - 1) <= NEAR), None)

    rows = _pooled(c)
    times = [metric.name for metric in c.times]
    each = rows[rows.implementation.notna() & rows.sizes.notna() & rows.metric.isin(times)]
    decided = each[each.word.isin(DECIDED)].sort_values("x", ascending=False)
    top = long = None
    if len(decided) and (kind := near(float(decided.x.iloc[0]))):
        first = decided.iloc[0]
        top = {"name": first.implementation, "pass": c.what(first.metric), "x": float(first.x)}
        top |= {"sizes": first.sizes, "near": kind}
        fused = c.pooled(c.total.name, FUSED, c.classes(c.totals)[-1])
        if fused is not None and (other := near(float(fused.x))) and other != kind:
            long = {"sizes": fused.sizes, "near": other}
    apart = ratios["bandwidth"] / ratios["products"]
    facts = {**c.names, **ratios, "top": top, "long": long}
    word = "memory" if apart > 1 + APART else "products" if apart < 1 / (1 + APART) else "alike"
    return _observe("why", facts, decided.head(1), word)


def _fastest(c: Compared, side: str, metric: str) -> pd.Series:
    """At each setting the implementation that a side shows to be faster than every other there."""
    rows = c.table[(c.table.compared == IMPLEMENTATIONS) & (c.table.experiment == side)]
    pairs = as_speeds(both_ways(rows[rows.metric == metric]))
    if pairs.empty:
        return pd.Series(dtype=object)
    alone = (pairs.word == FASTER).groupby([pairs["shape"], pairs.dtype, pairs.subject]).all()
    return alone[alone].reset_index().set_index(["shape", "dtype"]).subject


def choice(c: Compared) -> Observation | None:
    """Whether the fastest implementation changes; what only one side has the memory for."""
    one, other = c.names.values()
    told = []
    for metric in ranked_by(c.benchmark):
        both = pd.DataFrame({s: _fastest(c, s, metric.name) for s in (one, other)}).dropna()
        kept, now = both[both[one] == both[other]], both[both[one] != both[other]]
        names = [sorted(set(part[other])) for part in (kept, now)]
        what = c.what(metric.name)
        told.append(
            {
                "what": what,
                "decided": len(both),
                "changed": len(now),
                "kept": names[0],
                "now": names[1],
            }
        )
    total, *rest = told
    alike = [r for r in rest if r["decided"] and not r["changed"] and r["kept"] == total["kept"]]
    facts = {**c.names, **total, "also": alike[0] if alike else None, "memory": _memory(c)}
    variant = "open" if not total["decided"] else "changes" if total["changed"] else "same"
    if variant == "open" and (c.devices is None or c.speeds.implementation.nunique() < NAMED):
        return None
    return _observe("choice", facts, variant=variant, place="conclusion")


def _memory(c: Compared) -> dict[str, Any] | None:
    """The memory of two devices, and the implementations that fit on one of them alone."""
    found = [find_device(name) for name in c.devices or ()]
    sizes = [device.memory_gb for device in found if device]
    if len(sizes) < 2 or sizes[0] == sizes[1]:
        return None
    larger, smaller = ("other", "one") if sizes[1] > sizes[0] else ("one", "other")
    fits: dict[str, set[int]] = {}
    for run in c.about["ended"]:
        if (run[smaller], run[larger]) == ("oom", "ok") and "seq_len" in run:
            fits.setdefault(run["implementation"], set()).add(run["seq_len"])
    told = [{"name": name, "at": sorted(lengths)} for name, lengths in fits.items()]
    ends = {"larger": c.names[larger], "smaller": c.names[smaller], "sizes": sorted(sizes)}
    return clause("memory", **ends, fits=told)


def machines(c: Compared) -> Observation:
    """What is the same on both sides and what differs; whose kernel's code changed."""
    rows = c.about["environments"]
    fields = [row for row in rows if row["implementation"] is None]
    kernels = {
        row["implementation"]: row["verdict"] == "differs"
        for row in rows
        if row["field"] == "kernel" and not row["implementation"].endswith(PACKED_TWIN)
    }
    changed = [name for name, differs in kernels.items() if differs]
    facts = {
        "same": [row["field"] for row in fields if row["verdict"] == "agrees"],
        "differ": [row["field"] for row in fields if row["verdict"] == "differs"],
        **{"changed": len(changed), "of": len(kernels), "named": changed[:NAMED]},
        "devices": c.devices is not None,
    }
    return _observe("machines", facts, place="section")


def notice(c: Compared) -> Observation | None:
    """Runs without a result on a side, and runs that one side alone has."""
    ended: dict[tuple[str, str, str], list[str]] = {}
    for run in c.about["ended"]:
        if {run["one"], run["other"]} != {"ok", "oom"}:
            ended.setdefault((run["implementation"], run["one"], run["other"]), []).append(
                run["shape"]
            )
    failed = [
        {"name": k[0], "one": k[1], "other": k[2], "shape": shapes[0], "more": len(shapes) - 1}
        for k, shapes in ended.items()
    ]
    only = [
        {"side": side, "runs": sum(len(each["shapes"]) for each in groups)}
        for side, groups in zip(c.names.values(), c.about["only"], strict=True)
        if groups
    ]
    facts = {**c.names, "failed": failed, "only": only, "single": _single(c)}
    told = failed or only or facts["single"]
    return _observe("notice", facts, place="notice") if told else None


def _single(c: Compared) -> bool:
    """True if no run is of several processes, so that their spread is assumed."""
    return bool((c.speeds.processes == "1 1").all()) if len(c.speeds) else False


def story(c: Compared) -> Iterator[Observation]:
    """The observations of a comparison, in its order."""
    told = (kind(c) for kind in (gain, where, why, choice, machines, notice))
    return (each for each in told if each is not None)
