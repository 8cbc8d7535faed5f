"""How often comparisons of planted reports are right, and their intervals hold.

Each row of comparisons.csv is compared with the ratio that was planted. By hand: perf/right.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass
class Score:
    """The rows of a model with a number of processes: how many are false, missed, and held.

    A difference of twice the margin is plain, and `missed` if it is not found; `alike` and
    `different` count the rows on identical code.
    """

    decided: int = 0
    false: int = 0
    plain: int = 0
    missed: int = 0
    intervals: int = 0
    held: int = 0
    alike: int = 0
    different: int = 0

    def add(self, row: Mapping[str, Any], ratio: float, is_alike: bool) -> None:
        """Count a row of comparisons.csv, given the true ratio."""
        differs = row["verdict"] in ("above", "below")
        is_plain = max(ratio, 1 / ratio) >= margins(2)
        self.decided += row["verdict"] != "inconclusive"
        self.false += not RIGHT[row["verdict"]](ratio)
        self.plain += is_plain
        self.missed += is_plain and not differs
        if not math.isnan(row["low"]):
            self.intervals += 1
            self.held += row["low"] <= ratio <= row["high"]
        if is_alike and row["compared"] in ("implementations", "causal"):
            self.alike += 1
            self.different += differs

    def out_of_bounds(self, is_of_states: bool, missed: float = 0.05) -> Iterator[str]:
        """The goals that the score misses: false, missed, A/A, and intervals that hold."""
        if self.false > max(1, 0.001 * self.decided):
            yield f"{self.false} of {self.decided} decided rows are false"
        if self.missed > missed * self.plain:
            yield f"{self.missed} of {self.plain} plain ones are missed"
        if self.different > self.alike / (500 if is_of_states else 10_000):
            yield f"{self.different} of {self.alike} rows of identical code differ"
        if self.held < 0.92 * self.intervals:
            yield f"{self.held} of {self.intervals} intervals hold"


def study(reports: int, seed: int, folder: Path) -> Iterator[tuple[str, Score]]:
    """A score for each model and number of processes, each of so many reports, half of them A/A."""
    named = [(name, name, count) for name in MODELS for count in PROCESSES]
    for name, model, count in [*named, (TIMER, "quiet", 3)]:
        score = Score()
        for index in range(reports):
            random, is_alike = np.random.default_rng([seed, index, count]), index % 2 == 0
            results = folder / f"{name} {count} {index}"
            data, truth = plant(random, results, model, count, is_alike, name == TIMER)
            for row in data.comparisons.to_dict("records"):
                if row["metric"] in (*METRICS, TOTAL):
                    score.add(row, truth.row(row), is_alike)
        yield f"{name}, {count} processes", score
