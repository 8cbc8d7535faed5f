"""Who plays which part in an experiment on attention, and how a lead changes along it.

`stored` keep the N × N scores in memory; the `subjects` are what is told beside the baseline: the
fused implementations where the baseline stores the scores, else all others. Times are totals of
both passes unless a pass is named; odd runs are left out of all that is said of time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from flashlab import statistics
from flashlab.analysis.frames import Dataset, Sweep, number, run_keys_of, word
from flashlab.story.observation import clause

PASSES = {"forward": "forward_time", "backward": "backward_time"}
TOTAL, MEMORY = "forward_backward_time", "peak_memory"
SHARED = "H_kv"
"""The symbol of the heads of keys and values."""

DECIDED = ("faster", "slower")

SAVES = 0.9
"""Up to which share of the baseline's memory one saves memory."""


def margins(count: int) -> float:
    """The factor of so many margins: a ratio of two ratios has the margins of both."""
    return float((1 + statistics.MARGIN) ** count)


def stores_scores(data: Dataset, name: str) -> bool:
    """True of an implementation that keeps the N × N scores in memory."""
    return bool(data.declared[name].get("stores_scores"))


def is_packed(data: Dataset, name: str) -> bool:
    """True of a twin that takes q, k and v in one tensor."""
    return bool(data.declared[name].get("packed_of"))


def stored(s: Sweep) -> list[str]:
    """Those that keep the scores, the baseline first."""
    return [name for name in s.names if stores_scores(s.data, name)]


def everyone(s: Sweep) -> list[str]:
    """All but packed twins."""
    return [name for name in s.names if not is_packed(s.data, name)]


@lru_cache(maxsize=64)
def subjects(s: Sweep) -> list[str]:
    """What is told beside the baseline: where that stores the scores, who does not."""
    left = {s.data.baseline, *(stored(s) if stores_scores(s.data, s.data.baseline) else ())}
    return [name for name in everyone(s) if name not in left]


def group(s: Sweep, names: Iterable[str], short: bool = False) -> dict[str, Any]:
    """The clause that names one, or says how many of which kind there are; in short, of all."""
    names = list(names)
    fused = stores_scores(s.data, s.data.baseline)
    fused &= not any(stores_scores(s.data, name) for name in names)
    says = "who_one" if len(names) == 1 else "who_fused" if fused else "who_others"
    if says != "who_one" and names != subjects(s):
        says = "who_names" if len(names) < 4 else "who_some" if fused else "who_part"
    elif says == "who_fused" and short:
        says = "who_all"
    return clause(says, names=names, count=len(names))


def has_baseline(s: Sweep) -> bool:
    """True where the baseline has numbers in this experiment."""
    return s.data.baseline in s.names


def span(numbers: Iterable[float]) -> list[float]:
    """The least and the greatest."""
    known = [float(each) for each in numbers]
    return [min(known), max(known)]


def mask_of(s: Sweep) -> dict[str, Any] | None:
    """The clause that all of an experiment is with the mask, or without it, and at which d."""
    masks, dims = {"true" in variant for variant in s.variants}, {*head_dims(s).values()}
    at = clause("at_d", d=min(dims)) if len(dims) == 1 else None
    said = "with_mask" if True in masks else "without_mask"
    return clause(said, at=at) if len(masks) == 1 else None


# Odd runs


@lru_cache(maxsize=64)
def odd_of(s: Sweep) -> dict[str, list[int]]:
    """The values at which a run of an implementation dips, by name."""
    found: dict[str, list[int]] = {}
    for _, name, at in run_keys_of(s.runs[s.runs.odd.astype(bool)]):
        found.setdefault(name, []).append(at)
    return {name: sorted({*values}) for name, values in found.items()}


def odd_at(s: Sweep) -> list[int]:
    """The values at which any run is odd."""
    return sorted({at for values in odd_of(s).values() for at in values})


def dip_of(s: Sweep, name: str) -> str:
    """The pass that dips in an implementation's first odd run: ``forward`` or ``backward``."""
    return str(s.runs.odd[s.runs.odd.astype(bool)].xs(name, level="implementation").iloc[0])


def is_alike(s: Sweep) -> bool:
    """True if the passes that dip run at the rate of the odd ones in all of the sweep, to 15%."""
    rates = [(s.medians(f"{dip_of(s, n)}_rate")[n].dropna(), at[0]) for n, at in odd_of(s).items()]
    near = [len(r) > 1 and (abs(r / number(r, at) - 1) < 0.15).all() for r, at in rates]
    return bool(near) and all(near)


def usual(s: Sweep, names: Iterable[str], at: Iterable[int]) -> list[str]:
    """Those without an odd run at any of these values."""
    places, odd = {*at}, odd_of(s)
    return [name for name in names if not places & {*odd.get(name, ())}]


def even(speeds: pd.DataFrame) -> pd.DataFrame:
    """Those that rest on no odd run; all where these are fewer than two."""
    found = speeds[~speeds.odd.astype(bool)]
    return found if len(found) > 1 else speeds


def ends(s: Sweep, names: Iterable[str], metric: str = TOTAL, variant: str = "") -> list[int]:
    """The first and the last value at which all of these have a metric, in time none of them odd.

    Odd ones count where fewer than two others are left; empty where fewer than two have it.
    """
    return _ends(s, tuple(names), metric, variant)


@lru_cache(maxsize=1024)
def _ends(s: Sweep, of: tuple[str, ...], metric: str, variant: str) -> list[int]:
    names = [*of]
    known = [int(at) for at in s.medians(metric, variant)[names].dropna().index]
    even = [at for at in known if metric == MEMORY or len(usual(s, names, [at])) == len(names)]
    chosen = even if len(even) > 1 else known
    return [chosen[0], chosen[-1]] if len(chosen) > 1 else []


def head_dims(s: Sweep) -> dict[int, int]:
    """The head dimension d by value of the sweep."""
    pairs = s.runs.reset_index()[["at", "head_dim"]].drop_duplicates("at")
    return {int(at): int(d) for at, d in pairs.to_numpy()}


# How a lead changes


def beyond(one: Any, other: Any) -> bool:
    """True if a speed's interval lies above another's by more than the margin."""
    return bool(one.low > other.high * margins(1))


def change(speeds: pd.DataFrame) -> str:
    """How a lead changes along a sweep, by its intervals.

    ``peaks`` or ``dips``: an inner one lies beyond both ends by two margins; ``grows`` or
    ``shrinks``: that of one end lies beyond the other's by one; ``constant``: all are within two
    margins; else ``open``. ``unknown`` where there are no two intervals.
    """
    known = speeds.dropna(subset=["low", "high"])
    if len(known) < 2:
        return "unknown"
    low, high = [*map(float, known.low)], [*map(float, known.high)]
    inner = range(1, len(low) - 1)
    if any(low[i] > margins(2) * max(high[0], high[-1]) for i in inner):
        return "peaks"
    if any(high[i] * margins(2) < min(low[0], low[-1]) for i in inner):
        return "dips"
    first, last = known.iloc[0], known.iloc[-1]
    if beyond(last, first) or beyond(first, last):
        return "grows" if beyond(last, first) else "shrinks"
    return "constant" if max(high) / min(low) <= margins(2) else "open"


def turns(speeds: pd.DataFrame) -> bool:
    """True if a lead is shown to go up between two values, and down between two."""
    steps = [*itertools.combinations((row for _, row in speeds.iterrows()), 2)]
    return any(beyond(b, a) for a, b in steps) and any(beyond(a, b) for a, b in steps)


def towards(speeds: pd.DataFrame) -> str | None:
    """Where a lead goes: ``grows``, ``shrinks``, ``keeps``; None if it turns, or that is open."""
    found = "turns" if turns(speeds) else change(speeds)
    return {"grows": found, "shrinks": found, "constant": "keeps"}.get(found)


def leaders(s: Sweep, of: list[str], variant: str = "") -> dict[int, str]:
    """The one of these with the least total at each value; where its run is odd, the next."""
    found: dict[int, str] = {}
    for at, row in s.medians(TOTAL, variant)[of].dropna(how="all").iterrows():
        value, times = int(str(at)), row.dropna()
        if names := usual(s, map(str, times.index), [value]):
            found[value] = min(names, key=lambda name: float(times[name]))
    return found


def leader(s: Sweep, variant: str = "") -> str | None:
    """The subject that has the least total at most values, of equals the first in the plan."""
    found = list(leaders(s, subjects(s), variant).values())
    return max(subjects(s), key=found.count) if found else None


def not_slower(s: Sweep, best: str, at: int, variant: str = "") -> list[str]:
    """Those that are not shown slower than the best at a value."""
    verdicts = {n: word(s.speed(TOTAL, n, best, variant), at, "verdict") for n in everyone(s)}
    return [n for n, verdict in verdicts.items() if n != best and verdict in ("equal", "undecided")]


def apart(numbers: Mapping[str, float]) -> str | None:
    """The one that alone makes a range more than twice as wide, and wide; None where none does."""
    logs = {name: math.log(x) for name, x in numbers.items()}

    def width(names: Iterable[str]) -> float:
        chosen = [logs[name] for name in names]
        return max(chosen) - min(chosen)

    if len(logs) < 4 or width(logs) <= 3 * math.log(margins(2)):
        return None
    best = min(logs, key=lambda name: width(logs.keys() - {name}))
    return best if 2 * width(logs.keys() - {best}) < width(logs) else None


def by_verdict(speeds: pd.DataFrame) -> dict[str, list[int]]:
    """The values of each verdict."""
    of = speeds.groupby("verdict", sort=False)
    return {str(verdict): [*map(int, rows.index)] for verdict, rows in of}


def share(s: Sweep, name: str, at: int, variant: str = "") -> float:
    """The peak memory of one as a share of the baseline's; NaN where either has none."""
    table = s.medians(MEMORY, variant)
    return number(table, at, name) / number(table, at, s.data.baseline)
