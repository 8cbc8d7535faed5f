"""The error rates of comparisons and statements, over datasets whose truth is planted.

The table and the observations of each dataset are made as those of any other, and each row and
each claim of an observation is compared with what was planted. By hand: perf/right.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from analysis.study.alternatives import JUDGES_OF_ALTERNATIVES, Alternatives
from analysis.study.planted import PLANTS, Planted, nine, three, write_dataset
from analysis.study.steps import JUDGES_OF_STEPS, Steps
from analysis.study.truth import Judges, Truth, judge_row
from planted.experiments import Planter

from flashlab.analysis.comparison_rows import FIRST, PREVIOUS
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.story import ladder, training
from flashlab.story.observation import Observation

Plant = Callable[[np.random.Generator, Path], "Case"]
"""Draws a dataset and writes it into a folder."""

MOST_FALSE, MOST_MISSED, LEAST_HELD = 0.01, 0.1, 0.93
"""Bounds: shares of decided rows and statements that are false, of plain effects that are missed,
and of intervals that hold."""

FEW = 3
"""Intervals that may fail to hold however few there are: those of one run fail together."""


@dataclass
class Score:
    """Of one kind of comparison, or one observation: how much is false, missed, and held."""

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
    """All scores, what was claimed of what is identical, and what is false."""

    rows: dict[str, Score] = field(default_factory=dict)
    statements: dict[str, Score] = field(default_factory=dict)
    datasets: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    identical_rows: int = 0
    identical_differences: int = 0

    def out_of_bounds(self) -> list[str]:
        """The bounds that any score exceeds, a line each."""
        every = {**self.rows, **self.statements}
        found = [f"{kind}: {said}" for kind, s in every.items() for said in s.out_of_bounds()]
        if self.identical_differences:
            found.append(f"{self.identical_differences} differences of what is identical")
        return found


@dataclass(frozen=True)
class Case:
    """A dataset with its truth: its comparisons, its observations and who judges these."""

    kind: str
    identical: bool
    comparisons: pd.DataFrame
    told: Sequence[Observation]
    truth: Truth | Steps | Alternatives
    judges: Judges


def _sweep(plant: Callable[[np.random.Generator], Planted]) -> Plant:
    """A sweep of attention, of which `analysis.study.sentences` judges what is said."""

    def case(random: np.random.Generator, folder: Path) -> Case:
        dataset, planter = plant(random), Planter(folder)
        planted = [planter.read(write_dataset(dataset, planter, random))]
        table = comparisons(planted, Estimates(planted))
        return Case(dataset.kind, dataset.identical, table, [], Truth(dataset), {})

    return case


def _ladder(random: np.random.Generator, folder: Path) -> Case:
    truth = Steps(random)
    data = truth.tables(folder)
    return Case("ladder", False, data.comparisons, [*ladder.story(data)], truth, JUDGES_OF_STEPS)


def _training(random: np.random.Generator, folder: Path) -> Case:
    truth = Alternatives(random)
    data, judges = truth.tables(folder), JUDGES_OF_ALTERNATIVES
    return Case("training", False, data.comparisons, [*training.story(data)], truth, judges)


OF_OTHERS: Sequence[Plant] = (
    *(_sweep(three), _sweep(nine), _ladder, _training, _sweep(nine), _sweep(three)),
    *(_sweep(nine), _ladder, _sweep(three), _training, _sweep(nine), _sweep(nine)),
)
CASES: Sequence[Plant] = (*map(_sweep, PLANTS), *OF_OTHERS)
"""In turn: twelve datasets of two implementations, and twelve others."""


def score(datasets: int, seed: int, folder: Path) -> Scores:
    """Plant datasets, make their tables and observations, and compare each with the truth."""
    scores = Scores()
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        _score_case(scores, CASES[index % len(CASES)](random, folder / str(index)))
    return scores


def _score_case(scores: Scores, case: Case) -> None:
    scores.datasets[case.kind] += 1
    for row in case.comparisons.astype({"value": float}).to_dict("records"):
        ratio = case.truth.ratio(row)
        if ratio is None:
            continue
        kind = f"{row['compared']}, pooled" if math.isnan(row["value"]) else row["compared"]
        found = scores.rows.setdefault(kind, Score())
        false, missed = judge_row(row, ratio)
        found.add(row["verdict"] != "inconclusive", false, missed)
        found.hold(row, ratio)
        if case.identical and row["compared"] not in (PREVIOUS, FIRST):
            scores.identical_rows += 1
            scores.identical_differences += row["verdict"] in ("above", "below")
    for observation in case.told:
        judge = case.judges.get(observation.name)
        for judged in judge(observation.facts, case.truth) if judge else ():
            scores.statements.setdefault(observation.name, Score()).add(True, *judged)
            if judged[0]:
                scores.examples.append(f"{case.kind}: {observation.name} {observation.facts}")
