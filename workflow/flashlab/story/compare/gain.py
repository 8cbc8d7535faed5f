"""Observations of a comparison's gain: for whom, why, and the change of the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from flashlab.analysis.choices import both_ways
from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.comparisons import pooled_alike
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Metric
from flashlab.devices import find_device
from flashlab.statistics import MARGIN
from flashlab.story.compare.table import (
    FUSED,
    Compared,
    as_speeds,
    counts,
    ranked_by,
    records_of,
)
from flashlab.story.observation import Observation
from flashlab.story.tables import FASTER, SLOWER
from flashlab.story.words import margins

HARDLY = 0.2
"""Up to which share of the settings at which both sides decide on the fastest another one is the
fastest, the choice hardly changes."""

SETTING = ("shape", "dtype", "device")
"""The columns that tell a setting from others."""

SHOWN = 3
"""Most names that a sentence lists."""


def span_of(rows: pd.DataFrame) -> list[float]:
    """The least and the greatest of some speeds."""
    return [float(rows.x.min()), float(rows.x.max())]


def evidence_of(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of the table that a statement rests on, by what tells them apart."""
    kept = ["metric", "implementation", "shape", "ratio", "low", "high", "verdict"]
    return [{"table": "comparisons", **row} for row in records_of(rows[kept])]


def mean_facts(row: pd.Series) -> dict[str, Any]:
    """A pooled speed as facts."""
    return {"x": row.x, "low": row.slowest, "high": row.fastest, "verdict": row.word}


# What changes


def _where(compared: Compared, rows: pd.DataFrame, of: pd.DataFrame) -> dict[str, Any] | None:
    """The swept size and the variants to which some of the rows are confined; None of none."""
    sizes = compared.sizes
    variants = [
        dict(variant.words[rows[variant.name].iloc[0]])
        for variant in compared.benchmark.variants
        if variant.words and rows[variant.name].nunique() == 1 < of[variant.name].nunique()
    ]
    for parameter in sorted(sizes, key=lambda p: -of[p.name].nunique()):
        ends = [int(rows[parameter.name].min()), int(rows[parameter.name].max())]
        if ends != [of[parameter.name].min(), of[parameter.name].max()]:
            return {"p": parameter.symbol, "ends": ends, "variants": variants}
    return {"p": None, "ends": [], "variants": variants} if variants else None


def _changed(compared: Compared, word: str) -> list[dict[str, Any]]:
    """The implementations and passes with speeds of a verdict, the farthest from 1 first."""
    found = []
    for (name, metric), of in compared.speeds.groupby(["implementation", "metric"], sort=False):
        rows = of[of.word == word]
        if len(rows):
            about = {"name": name, "what": compared.what(str(metric)), "of": len(of)}
            where = _where(compared, rows, of)
            found.append({**about, "count": len(rows), "x": span_of(rows), "where": where})
    return sorted(found, key=lambda each: -max(abs(math.log(x)) for x in each["x"]))


def gain_of_groups(compared: Compared) -> dict[str, Any] | None:
    """The gains of another device for the naive implementation and for the fused ones."""
    naive = compared.totals[compared.totals.implementation == compared.benchmark.naive]
    fused, total = compared.totals[compared.totals.group == FUSED], compared.total.name
    mean = compared.pooled(total, FUSED)
    if compared.devices is None or naive.empty or mean is None:
        return None
    # The naive one may lack sizes at which nothing gains.
    common = fused[fused["shape"].isin(naive["shape"])]
    ours, theirs = (as_speeds(pooled_alike(each, ["metric"])) for each in (naive, common))
    apart = "both"
    if len(theirs) and ours.slowest.item() > theirs.fastest.item():
        apart = "naive" if compared.is_gain else "fused"
    elif len(theirs) and theirs.slowest.item() > ours.fastest.item():
        apart = "fused" if compared.is_gain else "naive"
    every = pd.concat([fused, compared.speeds[compared.speeds.group == FUSED]])
    means = {
        sizes: found
        for sizes in compared.classes(fused)
        if (found := compared.pooled(total, FUSED, sizes)) is not None
    }
    choose = max if compared.is_gain else min
    most = choose(means, key=lambda sizes: float(means[sizes].x), default=None)
    none = [s for s in means if not every[every.sizes == s].word.isin([FASTER, SLOWER]).any()]
    several = len(means) > 1
    last = compared.times[-1].name
    part = compared.speeds[compared.speeds.metric == last]
    part = part[part.implementation == compared.benchmark.naive]
    return {
        **{"apart": apart, "is_gain": compared.is_gain},
        "naive": {"name": compared.benchmark.naive, "x": span_of(naive)},
        "part": {"what": compared.what(last), "x": span_of(part)},
        "fused": mean_facts(mean),
        "most": {"sizes": most, **mean_facts(means[most])} if most and several else None,
        "none": {"sizes": none[-1], **mean_facts(means[none[-1]])} if none and several else None,
    }


def answer_gain(compared: Compared) -> Observation:
    """The speeds of the second side over the first, by group and implementation."""
    speeds = compared.speeds
    facts = {
        **compared.names,
        **{"of": len(speeds), "counts": counts(speeds), "margin": MARGIN},
        "groups": gain_of_groups(compared),
        **{word: _changed(compared, word)[:SHOWN] for word in (FASTER, SLOWER)},
        "more": {w: max(0, len(_changed(compared, w)) - SHOWN) for w in (FASTER, SLOWER)},
    }
    decided = speeds[speeds.word.isin([FASTER, SLOWER])]
    return Observation("answer_gain", None, facts, evidence_of(decided))


def answer_other(compared: Compared) -> Observation | None:
    """Which metrics other than times differ, such as the peak memory."""
    names = [m.name for m in compared.benchmark.compared if m not in compared.times]
    rows = compared.single[compared.single.metric.isin(names)]
    found = []
    keys = ["metric", "implementation", "verdict"]
    for (metric, name, verdict), some in rows.groupby(keys, sort=False):
        if verdict not in ("above", "below"):
            continue
        of = rows[(rows.metric == metric) & (rows.implementation == name)]
        about = {"name": name, "label": dict(compared.benchmark.metric(str(metric)).labels)}
        ends = [float(some.ratio.min()), float(some.ratio.max())]
        found.append({**about, "count": len(some), "of": len(of), "ratio": ends})
    if not found:
        return None
    facts = {**compared.names, "found": found[:SHOWN], "more": max(0, len(found) - SHOWN)}
    return Observation("answer_other", None, facts, evidence_of(rows[rows.verdict != "equal"]))


# Why, and what for


def answer_why(compared: Compared) -> Observation | None:
    """Why another device is faster, by measured ceilings; of one device, what code differs."""
    if compared.devices is None:
        return _commits(compared)
    rates = {rate["what"]: rate for rate in compared.about["ceilings"]}
    copy = rates.pop("copy", None)
    if copy is None or not rates:
        return None
    dtype, product = next(iter(rates.items()))
    measured = {"bandwidth": copy, "products": product}
    ratios = {name: rate["other"] / rate["one"] for name, rate in measured.items()}
    most, near = None, []
    if (row := compared.farthest(compared.speeds)) is not None:
        most = {"name": row.implementation, "what": compared.what(row.metric), "x": row.x}
        near = [
            name for name, ratio in ratios.items() if 1 / margins(2) <= row.x / ratio <= margins(2)
        ]
    facts = {
        **{"by": "ceilings", **compared.names, "dtype": dtype, **measured},
        **{"ratios": ratios, "most": most, "near": near[0] if len(near) == 1 else None},
        "is_gain": compared.is_gain,
    }
    return Observation("answer_why", None, facts)


def _commits(compared: Compared) -> Observation | None:
    one, other = (side["commits"] for side in compared.about["sides"])
    changed = [
        row["implementation"]
        for row in compared.about["environments"]
        if row["implementation"]
        and row["verdict"] == "differs"
        and not row["implementation"].endswith(PACKED_TWIN)
    ]
    names = list(dict.fromkeys(changed))
    if not (one and other) or (one == other and not names):
        return None
    facts = {
        **{"by": "commits", **compared.names, "commits": [one, other]},
        **{"kernels": names[:SHOWN], "more": max(0, len(names) - SHOWN)},
    }
    return Observation("answer_why", None, facts)


def _memory(compared: Compared) -> list[float] | None:
    """The memory of both devices in GB, where it is known and not the same."""
    found = [find_device(name) for name in compared.devices or ()]
    sizes = [device.memory_gb for device in found if device is not None]
    return sizes if len(sizes) == 2 and sizes[0] != sizes[1] else None


def fitting(compared: Compared) -> list[dict[str, Any]]:
    """The runs that ran out of memory on one of two devices alone."""
    if compared.devices is None:
        return []
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in compared.about["ended"]:
        for side, lacking in (("one", "other"), ("other", "one")):
            if (run[side], run[lacking]) == ("ok", "oom"):
                found.setdefault((run["implementation"], side), []).append(run)
    return [
        {"name": name, "side": compared.names[side], **shapes_of(compared, runs)}
        for (name, side), runs in found.items()
    ]


def shapes_of(compared: Compared, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The shapes of runs, by their sequence length where all have the same, and their number."""
    lengths = {run.get("seq_len") for run in runs}
    length = lengths.pop() if len(lengths) == 1 else None
    shapes = [run["shape"] for run in runs]
    return {"seq_len": length, "count": len(runs), "shapes": shapes[:SHOWN]}


def answer_use(compared: Compared) -> Observation | None:
    """The memory that another device has more, and the runs that fit on one of them only."""
    memory, fits = _memory(compared), fitting(compared)
    gain = gain_of_groups(compared)
    if memory is None and not fits:
        return None
    facts = {
        **{**compared.names, "memory": memory, "fits": fits[:SHOWN]},
        "none": gain["none"] if gain else None,
    }
    return Observation("answer_use", None, facts)


# Which implementation to choose


def _verdicts_of_side(compared: Compared, side: str, metric: str) -> pd.DataFrame:
    """Each pair of implementations of a side at each setting, both ways round, as speeds."""
    rows = compared.table[
        (compared.table.compared == IMPLEMENTATIONS)
        & (compared.table.experiment == side)
        & (compared.table.metric == metric)
    ]
    return as_speeds(both_ways(rows))


def _leaders(pairs: pd.DataFrame) -> pd.Series[str]:
    """By setting, the implementation that is decidedly faster than every other one there."""
    alone = (pairs.word == FASTER).groupby([pairs[each] for each in (*SETTING, "subject")]).all()
    return alone[alone].reset_index().set_index([*SETTING]).subject


def _ranking(compared: Compared, metric: Metric) -> dict[str, Any] | None:
    """The settings with another fastest implementation on the second side, by a metric."""
    pairs = [_verdicts_of_side(compared, side, metric.name) for side in compared.names.values()]
    one, other = map(_leaders, pairs)
    both = pd.DataFrame({"one": one, "other": other}).dropna()
    if both.empty:
        return None
    changed = both[both.one != both.other]
    kept = both[both.one == both.other].one.unique().tolist()
    found = {"what": compared.what(metric.name), "decided": len(both), "kept": kept[:SHOWN]}
    if changed.empty:
        return {**found, "changed": 0, "change": None}
    before, after = changed.value_counts().index[0]
    wins = [
        each[(each.subject == before) & (each.reference == after) & (each.word == FASTER)]
        for each in pairs
    ]
    times = as_speeds(compared.single[compared.single.metric == metric.name])
    lost = set(wins[0]["shape"]) - set(wins[1]["shape"])
    there = times[times["shape"].isin(lost)]
    gains = [span_of(there[there.implementation == name]) for name in (before, after)]
    change = {"before": before, "after": after, "wins": [len(each) for each in wins]}
    return {**found, "changed": len(changed), "change": {**change, "gains": gains}}


def answer_ranking(compared: Compared) -> Observation | None:
    """The change of the choice among at least three implementations."""
    if compared.speeds.implementation.nunique() < 3:
        return None
    found = (_ranking(compared, metric) for metric in ranked_by(compared.benchmark))
    told = [each for each in found if each is not None]
    if not told:
        return None
    decided, changed = (sum(each[key] for each in told) for key in ("decided", "changed"))
    word = "changes" if changed > HARDLY * decided else "hardly" if changed else "same"
    return Observation("answer_ranking", None, {**compared.names, "word": word, "by": told})
