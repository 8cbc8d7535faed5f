"""The error rates of comparisons, over datasets whose truth is planted.

The table of each dataset is made as that of any other, and each row is compared with what was
planted. What is said of it, `analysis.study.sentences` judges. By hand: perf/right.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from analysis.study.planted import PLANTS, Planted, nine, three, write_dataset
from analysis.study.truth import Truth, judge_row
from planted.experiments import Planter

from flashlab.analysis.comparison_rows import FIRST, PREVIOUS
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates

MOST_FALSE, MOST_MISSED, LEAST_HELD = 0.01, 0.1, 0.93
"""Bounds: shares of decided rows that are false, of plain effects that are missed, and of intervals
that hold."""

FEW = 3
"""Intervals that may fail to hold however few there are: those of one run fail together."""


@dataclass
class Score:
    """Of one kind of comparison: how much is false, missed, and held."""

    count: int = 0
    decided: int = 0
    false: int = 0
    plain: int = 0
    missed: int = 0
    intervals: int = 0
    held: int = 0

    def add(self, is_decided: bool, false: bool, missed: bool | None) -> None:
        """Count one; `missed` is None where no effect is plain enough to require it."""
        self.count += 1
        self.decided += is_decided
        self.false += false
        if missed is not None:
            self.plain += 1
            self.missed += missed

    def hold(self, row: Mapping[str, Any], ratio: float) -> None:
        """Count the interval of a row, if it has one."""
        if not math.isnan(row["low"]):
            self.intervals += 1
            self.held += row["low"] <= ratio <= row["high"]

    def out_of_bounds(self) -> Iterator[str]:
        """The bounds that the score exceeds, a sentence each."""
        if self.false > MOST_FALSE * self.decided:
            yield f"{self.false} of {self.decided} decided ones are false"
        if self.missed > max(1, MOST_MISSED * self.plain):
            yield f"{self.missed} of {self.plain} plain ones are missed"
        if self.intervals - self.held > max(FEW, (1 - LEAST_HELD) * self.intervals):
            yield f"{self.held} of {self.intervals} intervals hold"


@dataclass
class Scores:
    """The scores by kind of comparison, and what was claimed of what is identical."""

    rows: dict[str, Score] = field(default_factory=dict)
    identical_rows: int = 0
    identical_differences: int = 0

    def out_of_bounds(self) -> list[str]:
        """The bounds that any score exceeds, a line each."""
        found = [f"{kind}: {said}" for kind, s in self.rows.items() for said in s.out_of_bounds()]
        if self.identical_differences:
            found.append(f"{self.identical_differences} differences of what is identical")
        return found


CASES: Sequence[Callable[[np.random.Generator], Planted]] = (
    *PLANTS,
    *(three, nine, nine, three, nine, three, nine, nine),
)
"""In turn: twelve datasets of two implementations, and eight of more."""


def score(datasets: int, seed: int, folder: Path) -> Scores:
    """Plant datasets, make their tables, and compare each row with the truth."""
    scores = Scores()
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        dataset, planter = CASES[index % len(CASES)](random), Planter(folder / str(index))
        planted = [planter.read(write_dataset(dataset, planter, random))]
        table = comparisons(planted, Estimates(planted))
        _score_rows(scores, dataset, table)
    return scores


def _score_rows(scores: Scores, dataset: Planted, table: pd.DataFrame) -> None:
    truth = Truth(dataset)
    for row in table.astype({"value": float}).to_dict("records"):
        ratio = truth.ratio(row)
        kind = f"{row['compared']}, pooled" if math.isnan(row["value"]) else row["compared"]
        found = scores.rows.setdefault(kind, Score())
        false, missed = judge_row(row, ratio)
        found.add(row["verdict"] != "inconclusive", false, missed)
        found.hold(row, ratio)
        if dataset.identical and row["compared"] not in (PREVIOUS, FIRST):
            scores.identical_rows += 1
            scores.identical_differences += row["verdict"] in ("above", "below")
