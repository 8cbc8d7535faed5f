"""Further observations of a comparison: passes, flat ones, a surprise, failures, and doubts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from flashlab.analysis.comparisons import pooled_alike
from flashlab.analysis.replication import UNREPLICATED
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.statistics import MARGIN
from flashlab.story.compare.gain import (
    SHOWN,
    evidence_of,
    fitting,
    gain_of_groups,
    mean_facts,
    shapes_of,
    span_of,
)
from flashlab.story.compare.table import FUSED, Compared, as_speeds
from flashlab.story.observation import Observation
from flashlab.story.tables import EQUAL, FASTER, SLOWER, UNDECIDED
from flashlab.story.words import margins

MOSTLY_EQUAL, FEWEST = 0.8, 5
"""An implementation is flat if so large a share of at least so many decided comparisons is equal.
"""

MATTER = ("power_limit", "driver", "torch", "measuring")
"""The circumstances that are named where they are the same."""

OF_DEVICE = ("device_name", "memory_clock")
"""Those that differ with the device, which is what is compared."""

NORMAL = 1.96
"""Standard deviations of a normal distribution within which 95% of it lie."""


def _with_gains(compared: Compared, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str] | None]:
    """The speeds of the classes of sizes in which any is decided, and these classes if not all."""
    decided = rows[rows.word.isin([FASTER, SLOWER])].sizes.unique()
    classes = [name for name in compared.classes(rows) if name in decided]
    if not classes or len(classes) == len(compared.classes(rows)):
        return rows, None
    return rows[rows.sizes.isin(classes)], classes


def by_pass(compared: Compared) -> Observation | None:
    """That one pass gains more than the other, on average."""
    names = [metric.name for metric in compared.times]
    fused = compared.speeds[compared.speeds.group == FUSED]
    if len(names) != 2 or fused.empty or compared.devices is None:
        return None
    rows, classes = _with_gains(compared, fused)
    means = as_speeds(pooled_alike(rows, ["metric"])).set_index("metric")
    if len(means) < 2:
        return None
    less, more = map(str, means.x.sort_values(ascending=compared.is_gain).index)
    decided = [bool(means.word[name] in (FASTER, SLOWER)) for name in (more, less)]
    low, high = (less, more) if compared.is_gain else (more, less)
    apart = means.slowest[high] > means.fastest[low]
    if not apart or (means.x.max() / means.x.min() <= margins(2) and sum(decided) != 1):
        return None
    lengths = rows.seq_len if classes else None
    facts = {
        **{"more": compared.what(more), "less": compared.what(less)},
        "means": [mean_facts(means.loc[[name]].iloc[0]) for name in (more, less)],
        "up_to": int(lengths.max()) if lengths is not None else None,
        "is_gain": compared.is_gain,
    }
    return Observation("by_pass", None, facts, evidence_of(rows))


def flat(compared: Compared) -> Observation | None:
    """Which implementations another device hardly changes, and which exact metrics are the same."""
    found = []
    speeds = compared.speeds if compared.devices else compared.speeds[:0]
    for name, rows in speeds.groupby("implementation", sort=False):
        decided = rows[rows.word != UNDECIDED]
        equal = int((decided.word == EQUAL).sum())
        if equal >= FEWEST and equal >= MOSTLY_EQUAL * len(decided):
            mean = as_speeds(pooled_alike(rows, ["implementation"])).iloc[0]
            about = {"name": name, "equal": equal, "decided": len(decided)}
            found.append({**about, **mean_facts(mean)})
    exact = [
        {"label": dict(metric.labels), "count": len(rows)}
        for metric in compared.benchmark.measured
        if metric.exact
        and len(rows := compared.single[compared.single.metric == metric.name])
        and (rows.ratio == 1).all()
    ]
    if not found and not exact:
        return None
    return Observation("flat", None, {"names": found[:SHOWN], "exact": exact})


def surprise(compared: Compared) -> Observation | None:
    """That a fused implementation gains most outside the sizes at which they do on average."""
    gain = gain_of_groups(compared)
    fused = compared.speeds[(compared.speeds.group == FUSED) & (compared.speeds.word == FASTER)]
    top = compared.farthest(fused)
    if gain is None or gain["most"] is None or top is None:
        return None
    if top.sizes == gain["most"]["sizes"]:
        return None
    alike = compared.speeds[
        (compared.speeds.implementation == top.implementation)
        & (compared.speeds.metric == top.metric)
    ]
    given = compared.sizes
    variants = [p.name for p in compared.benchmark.variants]
    for swept in given:
        others = [p.name for p in given if p is not swept] + variants
        beside = alike[(alike[others] == top[others]).all(axis=1)]
        beside = beside[beside.fastest < top.slowest]
        if beside.empty:
            continue
        nearest = beside.loc[(beside[swept.name] - top[swept.name]).abs().idxmin()]
        shown = swept
        for derived in compared.benchmark.derived_parameters:
            if swept.name == "emb_dim" and top[derived.name] != nearest[derived.name]:
                shown = derived
        of_top = alike[(alike[shown.name] == top[shown.name]) & (alike.word == FASTER)]
        facts = {
            **{"expected": gain["most"]["sizes"], "name": top.implementation},
            **{"what": compared.what(top.metric), "p": shown.symbol},
            **{"label": dict(shown.labels), "at": int(top[shown.name]), "x": span_of(of_top)},
            **{"beside": {"at": int(nearest[shown.name]), "x": nearest.x}},
            "larger": bool(top[shown.name] > nearest[shown.name]),
        }
        return Observation("surprise", None, facts, evidence_of(of_top))
    return None


def answer_ended(compared: Compared) -> Observation | None:
    """The runs that have a result on one side alone, other than those that one device holds."""
    told = {each["name"] for each in fitting(compared)} if compared.devices else set()
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in compared.about["ended"]:
        for side, lacking in (("one", "other"), ("other", "one")):
            if run[side] != "ok" or run[lacking] == "ok":
                continue
            if run[lacking] == "oom" and run["implementation"] in told:
                continue
            groups.setdefault((run["implementation"], side, run[lacking]), []).append(run)
    if not groups:
        return None
    found = [
        {"name": name, "ok": side, "status": status, **shapes_of(compared, runs)}
        for (name, side, status), runs in groups.items()
    ]
    found.sort(key=lambda each: each["ok"] != "one")  # what no longer works first
    facts = {**compared.names, "found": found[:SHOWN], "more": max(0, len(found) - SHOWN)}
    return Observation("answer_ended", None, facts)


def footnote_doubts(compared: Compared) -> Observation | None:
    """Which circumstances that could matter differ, and which do not."""
    rows = [r for r in compared.about["environments"] if r["implementation"] is None]
    kernels = [
        row["implementation"]
        for row in compared.about["environments"]
        if row["implementation"] and row["verdict"] != "agrees"
    ]
    expected = OF_DEVICE if compared.devices else ()
    days = [
        side["name"] for side in compared.about["sides"] if side["begun"][:10] != side["ended"][:10]
    ]
    single = assumed_spread(compared)
    facts = {
        **{"names": [*compared.names.values()], "devices": compared.devices is not None},
        "same": [
            r["field"]
            for r in rows
            if r["verdict"] == "agrees" and r["one"] and r["field"] in MATTER
        ],
        "differ": [
            row["field"]
            for row in rows
            if row["verdict"] != "agrees" and row["field"] not in expected
        ],
        "kernels": [n for n in dict.fromkeys(kernels) if not n.endswith(PACKED_TWIN)][:SHOWN],
        "days": days,
        "single": single,
    }
    if not (facts["differ"] or facts["kernels"] or facts["devices"] or single):
        return None
    return Observation("footnote_doubts", None, facts)


def assumed_spread(compared: Compared) -> dict[str, float] | None:
    """The spread that is assumed where all runs are of one process, and what it can show."""
    processes = compared.single.processes.unique()
    if set(processes) != {"1 1"}:
        return None
    # Two processes, each with its own offset, and the margin on top.
    least = (1 + MARGIN) * (1 + NORMAL * math.sqrt(2) * UNREPLICATED.deviation) - 1
    return {"spread": UNREPLICATED.deviation, "least": least}


def footnote_missing(compared: Compared) -> Observation | None:
    """The runs without a result on either side, and those that one side alone has."""
    failing: dict[str, list[Mapping[str, Any]]] = {}
    for run in compared.about["ended"]:
        if "ok" not in (run["one"], run["other"]):
            failing.setdefault(run["implementation"], []).append(run)
    alone: dict[tuple[str, int], list[str]] = {}
    for side, groups in zip(compared.names.values(), compared.about["only"], strict=True):
        for each in groups:
            alone.setdefault((side, len(each["shapes"])), []).append(each["implementation"])
    only = [{"side": side, "count": n, "names": names} for (side, n), names in alone.items()]
    if not failing and not only:
        return None
    failed = [
        {"name": name, "statuses": sorted({r[s] for r in runs for s in ("one", "other")})}
        | shapes_of(compared, runs)
        for name, runs in failing.items()
    ]
    return Observation("footnote_missing", None, {"failed": failed, "only": only})
