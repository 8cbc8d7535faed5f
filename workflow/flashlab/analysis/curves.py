"""Curves against chance: their distances beside the spread of the naive implementation's.

Runs of the naive implementation that differ only in a nominal parameter, such as the seed, show by
how much curves of the same problem differ. A curve with the same seed that is farther from the
naive one's than any two of those are from one another differs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab.analysis.experiment import Experiment, Row
from flashlab.benchmarks.model import Benchmark, Curve

FEWEST = 3
"""Fewest runs of the naive implementation from which a spread is estimated."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class CurveDistance:
    """The distance of a run's curve from the naive implementation's with the same seed.

    Attributes:
        experiment: the experiment of the run.
        run: its row of the run table.
        steps: the first steps over which the curves are compared.
        distance: the root mean square of their difference.
        spread: the largest distance between any two of the naive ones; None of fewer than two.
        count: how many naive ones there are.
    """

    experiment: Experiment
    run: Row
    steps: int
    distance: float
    spread: float | None
    count: int

    @property
    def is_judged(self) -> bool:
        """True if at least `FEWEST` naive curves give the spread."""
        return self.spread is not None and self.count >= FEWEST

    @property
    def differs(self) -> bool:
        """True if the distance exceeds the naive curves' spread."""
        return self.is_judged and self.spread is not None and self.distance > self.spread


def distance(one: Sequence[float], other: Sequence[float], steps: int) -> float:
    """The root mean square of the difference of two curves over their first steps."""
    difference = np.subtract(one[:steps], other[:steps])
    return math.sqrt(float(np.mean(difference**2)))


def _problem(benchmark: Benchmark, run: Row) -> Key:
    """The key of a run's problem: its sizes without nominal parameters, dtype and device."""
    sizes = (p.name for p in benchmark.given if not p.is_variant and not p.nominal)
    return (*(run[name] for name in sizes), run["dtype"], run["device"])


def _names(benchmark: Benchmark, run: Row) -> Key:
    """The values of a run's nominal parameters."""
    return tuple(run[p.name] for p in benchmark.given if p.nominal)


def _is_reference(benchmark: Benchmark, run: Row) -> bool:
    """True if a run is of the naive implementation in its plainest variant."""
    plain = all(run[p.name] in (False, *list(p.words)[:1]) for p in benchmark.variants)
    return run["implementation"] == benchmark.naive and plain


def curve_distances(experiments: Sequence[Experiment], curve: Curve) -> Iterator[CurveDistance]:
    """The distance of each run that has a curve, but of the naive ones that it is compared with."""
    benchmark = experiments[0].benchmark
    found = [
        (experiment, run, values)
        for experiment in experiments
        for run in experiment.ordered
        if run["status"] == "ok" and (values := experiment.curve_of(run, curve.name))
    ]
    references: dict[Key, dict[Key, list[float]]] = {}  # by problem and nominal values
    for _experiment, run, values in found:
        if _is_reference(benchmark, run):
            of_problem = references.setdefault(_problem(benchmark, run), {})
            of_problem.setdefault(_names(benchmark, run), values)
    for experiment, run, values in found:
        of_problem = references.get(_problem(benchmark, run), {})
        reference = of_problem.get(_names(benchmark, run))
        if not reference or experiment.is_summary or _is_reference(benchmark, run):
            continue
        others = [*of_problem.values()]
        steps = min(map(len, [values, *others]))
        pairs = itertools.combinations(others, 2)
        spread = max((distance(*pair, steps) for pair in pairs), default=None)
        away = distance(values, reference, steps)
        yield CurveDistance(experiment, run, steps, away, spread, len(others))
