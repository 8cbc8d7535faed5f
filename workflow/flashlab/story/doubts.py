"""Runs with a warning: how many, and how far from turning a verdict is that rests on one."""

from __future__ import annotations

from typing import Any

from flashlab.analysis.experiment import IMPORTED
from flashlab.story import words
from flashlab.story.tables import FASTER, SLOWER, Speed, Tables


def room(speed: Speed) -> float:
    """By what factor a time would have to be wrong to turn a verdict: from its interval on."""
    margin = words.margins(1)
    low, high = speed.low or speed.x, speed.high or speed.x
    if speed.verdict == FASTER:
        return low / margin
    if speed.verdict == SLOWER:
        return 1 / (high * margin)
    return min(margin / high, low * margin)


def doubtful(speed: Speed) -> bool:
    """True if one of its runs carries a warning, other than that it was imported."""
    return bool({*str(speed.row.get("doubts") or "").split()} - {IMPORTED})


def _distinct_runs(tables: Tables) -> dict[Any, Any]:
    return {each.key_of(run): run for each in tables.experiments for run in each.runs}


def runs_of(tables: Tables) -> int:
    """The number of distinct runs of the sections and the headline."""
    return len(_distinct_runs(tables))


def warned_runs(tables: Tables) -> tuple[int, list[dict[str, Any]]]:
    """The number of runs with a warning, and of each kind of warning, the most frequent first."""
    found: dict[str, int] = {}
    warned = 0
    for run in _distinct_runs(tables).values():
        codes = {warning["code"] for warning in run["warnings"] or ()} - {IMPORTED}
        warned += bool(codes)
        for code in codes:
            found[code] = found.get(code, 0) + 1
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return warned, [{"code": code, "runs": count} for code, count in ordered]
