"""How often comparisons are right where processes differ in ways of known kinds.

A model gives the factor on each process of each run of a session; a cell is a model and a number of
processes. By hand: perf/right.py models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from analysis.study.planted import Planted, crossing, faster, identical, three, write_dataset
from analysis.study.scores import Score
from analysis.study.truth import Truth, judge_row
from planted.experiments import Planter

from flashlab.analysis.comparison_rows import FIRST, PREVIOUS
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.statistics import Floats

Model = Callable[[np.random.Generator, int, int], Floats]
"""The factor on the times of each of so many runs, in order, in each of so many rounds."""

STATE, DRIFT = 1.1, 0.1
"""The factor between two states of a process; and the most that all change from the first process
of a session to the last one."""

SHARE, OFF = 0.05, (1.2, 2.5)
"""Of processes, which another program slows; and by least and most how much."""

ONE_PROCESS = 0.006
"""The standard deviation between processes on a quiet machine, three times as great as planted
otherwise."""


def _quiet(random: np.random.Generator, runs: int, rounds: int) -> Floats:
    return random.lognormal(sigma=ONE_PROCESS, size=(runs, rounds))


def _two_states(random: np.random.Generator, runs: int, rounds: int) -> Floats:
    """Each process in either of two states, around 1."""
    states: Floats = STATE ** (random.integers(2, size=(runs, rounds)) - 0.5)
    return states


def _session_drift(random: np.random.Generator, runs: int, rounds: int) -> Floats:
    """All that is measured later is slower, or faster: round by round, and run by run in each."""
    change = float(random.uniform(-DRIFT, DRIFT))
    at = np.linspace(-0.5, 0.5, runs * rounds).reshape(rounds, runs).T
    found: Floats = np.exp(change * at) * _quiet(random, runs, rounds)
    return found


def _random_load(random: np.random.Generator, runs: int, rounds: int) -> Floats:
    """Each process with a probability of 5% beside another program, which slows it."""
    slowed = np.where(
        random.random((runs, rounds)) < SHARE, random.uniform(*OFF, (runs, rounds)), 1
    )
    found: Floats = slowed * _quiet(random, runs, rounds)
    return found


def _load_on_most(random: np.random.Generator, runs: int, rounds: int) -> Floats:
    """Of one run all processes but one are slowed by one load."""
    found = _quiet(random, runs, rounds)
    slowed = random.permutation(rounds)[1:]
    found[random.integers(runs), slowed] *= random.uniform(*OFF)
    return found


MODELS: Mapping[str, Model] = {
    "quiet": _quiet,
    "two states": _two_states,
    "drift of the session": _session_drift,
    "random load": _random_load,
    "one load on most": _load_on_most,
}
PROCESSES = (2, 3, 4, 5)
TIMER = "timer of two or three ticks"
"""A cell besides: quiet processes, by a clock of which the shortest time has so many."""

DATASETS = (identical, faster, identical, crossing, three)


@dataclass
class Cell:
    """The rows of a model with a number of processes, and those of what is identical."""

    rows: Score = field(default_factory=Score)
    identical: int = 0
    different: int = 0

    def out_of_bounds(self, is_of_states: bool, missed: float = 0.05) -> Iterator[str]:
        """The goals that the cell misses: false, missed, A/A, and intervals that hold."""
        rows = self.rows
        if rows.false > max(1, 0.001 * rows.decided):
            yield f"{rows.false} of {rows.decided} decided rows are false"
        if rows.missed > missed * rows.plain:
            yield f"{rows.missed} of {rows.plain} plain ones are missed"
        if self.different > self.identical / (500 if is_of_states else 10_000):
            yield f"{self.different} of {self.identical} rows of identical code differ"
        if rows.held < 0.92 * rows.intervals:
            yield f"{rows.held} of {rows.intervals} intervals hold"


def plant_by(
    random: np.random.Generator, index: int, model: Model, processes: int, ticks: bool = False
) -> Planted:
    dataset = DATASETS[index % len(DATASETS)](random)
    dataset.noise = 1.0
    runs = sorted({(shape, name) for name, shape, _ in dataset.passes})
    factors = model(random, len(runs), processes)
    dataset.factors = {(name, shape): of for (shape, name), of in zip(runs, factors, strict=True)}
    if ticks:
        least = min(each.median for each in dataset.passes.values())
        tick = least / float(random.uniform(2, 3))
        dataset.passes = {
            key: replace(each, resolution=tick) for key, each in dataset.passes.items()
        }
    return dataset


def score_models(datasets: int, seed: int, folder: Path) -> Iterator[tuple[str, Cell]]:
    """A cell for each model and number of processes, each of so many datasets."""
    named = [(name, model, count) for name, model in MODELS.items() for count in PROCESSES]
    for name, model, count in [*named, (TIMER, _quiet, 3)]:
        cell = Cell()
        for index in range(datasets):
            random = np.random.default_rng([seed, index, count])
            dataset = plant_by(random, index, model, count, ticks=name == TIMER)
            planter = Planter(folder / f"{name} {count} {index}")
            truth = Truth(dataset)
            planted = [planter.read(write_dataset(dataset, planter, random))]
            table = comparisons(planted, Estimates(planted))
            for row in table.astype({"value": float}).to_dict("records"):
                if (ratio := truth.ratio(row)) is None:
                    continue
                false, missed = judge_row(row, ratio)
                cell.rows.add(row["verdict"] != "inconclusive", false, missed)
                cell.rows.hold(row, ratio)
                if dataset.identical and row["compared"] not in (PREVIOUS, FIRST):
                    cell.identical += 1
                    cell.different += row["verdict"] in ("above", "below")
        yield f"{name}, {count} processes", cell
