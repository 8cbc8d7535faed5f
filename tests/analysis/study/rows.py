"""How often comparisons of planted reports are right, and their intervals hold.

Each row of comparisons.csv is compared with the ratio that was planted. By hand: perf/right.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from analysis.study.world import METRICS, MODELS, TOTAL, plant

from flashlab.story.attention.roles import margins

PROCESSES = (2, 3, 4, 5)
TIMER = "timer of two or three ticks"
"""A cell besides: quiet processes, by a coarse clock."""

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "above": lambda ratio: ratio > margins(1),
    "below": lambda ratio: ratio < 1 / margins(1),
    "equal": lambda ratio: 1 / margins(1) <= ratio <= margins(1),
    "inconclusive": lambda _: True,
}
"""The test of a verdict by the margin, given the true ratio."""


def outcomes(row: Mapping[str, Any], ratio: float, is_alike: bool) -> dict[str, int]:
    """What a row of comparisons.csv counts as, given the true ratio.

    A difference of twice the margin is plain, and `missed` if it is not found; `alike` and
    `different` are rows on identical code.
    """
    differs = row["verdict"] in ("above", "below")
    is_plain, is_of_ends = max(ratio, 1 / ratio) >= margins(2), not math.isnan(row["low"])
    is_alike &= row["compared"] in ("implementations", "causal")
    return {
        **{"decided": row["verdict"] != "inconclusive", "false": not RIGHT[row["verdict"]](ratio)},
        **{"plain": is_plain, "missed": is_plain and not differs},
        **{"intervals": is_of_ends, "held": is_of_ends and row["low"] <= ratio <= row["high"]},
        **{"alike": is_alike, "different": is_alike and differs},
    }


def out_of_bounds(of: Counter[str], is_of_states: bool = False) -> Iterator[str]:
    """The goals that rows miss: false, missed, A/A, and intervals that hold."""
    if of["false"] > max(1, 0.001 * of["decided"]):
        yield f"{of['false']} of {of['decided']} decided rows are false"
    if of["missed"] > 0.05 * of["plain"]:
        yield f"{of['missed']} of {of['plain']} plain ones are missed"
    if of["different"] > of["alike"] / (500 if is_of_states else 10_000):
        yield f"{of['different']} of {of['alike']} rows of identical code differ"
    if of["held"] < 0.92 * of["intervals"]:
        yield f"{of['held']} of {of['intervals']} intervals hold"


def study(reports: int, seed: int, folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Outcomes by model and number of processes, each of so many reports, half of them A/A."""
    named = [(name, name, count) for name in MODELS for count in PROCESSES]
    for name, model, count in [*named, (TIMER, "quiet", 3)]:
        found = Counter[str]()
        for index in range(reports):
            random, is_alike = np.random.default_rng([seed, index, count]), index % 2 == 0
            results = folder / f"{name} {count} {index}"
            data, truth = plant(random, results, model, count, is_alike, name == TIMER)
            for row in data.comparisons.to_dict("records"):
                if row["metric"] in (*METRICS, TOTAL):
                    found.update(outcomes(row, truth.row(row), is_alike))
        yield f"{name}, {count} processes", found
