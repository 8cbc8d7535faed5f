"""How intervals and verdicts hold where processes of identical code differ.

Implementations are drawn that are all the same code: each is a kind of runs, each run is measured
in several processes, and each process is off as a whole. By hand:
perf/findings_right.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from analysis.study.noise import NOISES, Draw, lognormal

from flashlab.analysis.pairing import Pairings, RunEstimate
from flashlab.analysis.ratios import ratio
from flashlab.analysis.replication import Replicated, combine_processes
from flashlab.calls.replicates import MOST_ADDED
from flashlab.statistics import MARGIN, Estimate, Floats, estimate_median, function_interval

RUNS = 8
"""Runs of a kind: an implementation's in an experiment."""

TOGETHER = 24
"""Implementations that are compared pair by pair where the number of processes is fixed."""

FIRST = 3
"""Processes with which adaptive measuring begins."""


@dataclass(frozen=True)
class Calls:
    """The calls of a process: their noise, and how many there are."""

    name: str
    draw: Draw
    count: int


SHORT = Calls("independent", lognormal, 20)
CALLS = (
    SHORT,
    Calls("AR(1), rho 0.8", NOISES["AR(1), rho 0.8"], 500),
    *(Calls(f"states of {n} calls", NOISES[f"states of {n} calls"], 500) for n in (10, 30, 100)),
)

EQUAL = (1.0,) * RUNS
UNEQUAL: Mapping[str, Sequence[float]] = {
    "half of the runs three times": (3.0,) * (RUNS // 2) + (1.0,) * (RUNS // 2),
    "one run five times": (5.0,) + (1.0,) * (RUNS - 1),
    "from eight times to once": tuple(np.geomspace(8, 1, RUNS).tolist()),
}
"""Factors on the standard deviation of a kind's runs."""


@dataclass
class ReplicatedScore:
    """What became of runs and pairs of identical code.

    `missed` counts the pairs of which one is really slower by twice the margin and that is not
    found, `at_margin` those called different that really differ by just the margin.
    """

    runs: int = 0
    held: int = 0
    held_by_run: Floats = field(default_factory=lambda: np.zeros(RUNS))
    processes: int = 0
    pairs: int = 0
    ratio_held: int = 0
    false: int = 0
    missed: int = 0
    at_margin: int = 0

    def add_runs(self, kind: Sequence[Replicated]) -> None:
        for position, found in enumerate(kind):
            interval = function_interval(lambda median: median, [found.estimate])
            assert interval is not None
            held = interval[0] <= 1 <= interval[1]
            self.runs += 1
            self.held += held
            self.held_by_run[position] += held
            self.processes += found.processes

    @property
    def least_held(self) -> float:
        """The share of intervals that hold for the run of a kind for which they hold least."""
        return float(self.held_by_run.min() * RUNS / self.runs)


def _process(random: np.random.Generator, calls: Calls, sd: float) -> Estimate:
    offset = float(random.lognormal(sigma=sd)) if sd else 1.0
    return estimate_median((offset * calls.draw(random, calls.count)).tolist())


def _of_run(found: Replicated) -> RunEstimate:
    """The estimate of a run to which processes were added until the verdict was reached."""
    parts = found.estimate.median, found.estimate.count, found.estimate.quantiles
    return RunEstimate(*parts, (), Pairings({}, ()), found.processes - FIRST)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    assert estimate.quantiles is not None
    return Estimate(estimate.median * factor, estimate.count, estimate.quantiles * factor)


def score_fixed(
    calls: Calls, sd: float, processes: int, pairs: int, seed: int, factors: Sequence[float] = EQUAL
) -> ReplicatedScore:
    """Compare so many pairs of runs, each in so many processes."""
    random = np.random.default_rng(seed)
    score = ReplicatedScore()
    margin = 1 + MARGIN
    while score.pairs < pairs:
        kinds = []
        for _ in range(TOGETHER):
            drawn = [
                [_process(random, calls, sd * factor) for _ in range(processes)]
                for factor in factors
            ]
            kinds.append(combine_processes(drawn))
            score.add_runs(kinds[-1])
        for one, other in itertools.combinations(kinds, 2):
            for a, b in zip(one, other, strict=True):
                found = ratio(0, a.estimate, b.estimate)
                assert found.low is not None and found.high is not None
                score.pairs += 1
                score.ratio_held += found.low <= 1 <= found.high
                score.false += found.verdict in ("above", "below")
                score.missed += found.low * margin**2 <= margin
                score.at_margin += found.low * margin > margin
    return score


def _measured(
    random: np.random.Generator, calls: Calls, sd: float, effect: float
) -> tuple[list[list[Replicated]], int]:
    """Two kinds, the second slower by a factor, with processes added where a verdict is open.

    And how many of the pairs are said to differ.
    """
    drawn = [[[_process(random, calls, sd) for _ in range(FIRST)] for _ in EQUAL] for _ in "ab"]
    scales = (1.0, effect)

    def combined() -> list[list[Replicated]]:
        return [
            combine_processes([[_scaled(p, scale) for p in run] for run in kind])
            for kind, scale in zip(drawn, scales, strict=True)
        ]

    while True:
        kinds = combined()
        runs = ([_of_run(found) for found in kind] for kind in kinds)
        verdicts = [ratio(0, b, a).verdict for a, b in zip(*runs, strict=True)]
        undecided = [
            position
            for position, verdict in enumerate(verdicts)
            if verdict == "inconclusive" and len(drawn[0][position]) < MOST_ADDED
        ]
        if not undecided:
            return kinds, sum(verdict in ("above", "below") for verdict in verdicts)
        for kind in drawn:
            for position in undecided:
                kind[position].append(_process(random, calls, sd))


def score_adaptive(calls: Calls, sd: float, pairs: int, seed: int) -> ReplicatedScore:
    """Compare so many pairs of runs whose processes are added only while the verdict is open."""
    random = np.random.default_rng(seed)
    score = ReplicatedScore()
    margin = 1 + MARGIN
    while score.pairs < pairs:
        kinds, false = _measured(random, calls, sd, 1.0)
        for kind in kinds:
            score.add_runs(kind)
        for a, b in zip(*kinds, strict=True):
            found = ratio(0, _of_run(b), _of_run(a))
            assert found.low is not None and found.high is not None
            score.ratio_held += found.low <= 1 <= found.high
        score.pairs += RUNS
        score.false += false
        score.missed += RUNS - _measured(random, calls, sd, margin**2)[1]
        score.at_margin += _measured(random, calls, sd, margin)[1]
    return score
