"""How often the findings are right: scores over datasets whose truth is planted.

The findings of each dataset are derived from its tables as from any other's, and each is compared
with what was planted. By hand: perf/findings_right.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.deriving import NO_CLAIMS
from analysis.study.planted import PLANTS, Planted, write_dataset
from analysis.study.truth import Truth, anomalies, claims_a_difference
from planted.experiments import Planter

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding

UNDECIDED = {"inconclusive", "imprecise", "too_few_sizes", "none"}
"""Verdicts that state nothing that could be false."""

UNSCORED = {
    *("conclusion", "counters", "environment", "processes", "sittings"),
    *("correctness", "exact_account", "exact_comparison", "out_of_memory"),
}
"""Kinds that say nothing of what is planted, those of exact values, and conclusions, which have a
study of their own. Published figures and ceilings, which claims and rooflines need, are not
planted."""

MOST_FALSE, MOST_MISSED, LEAST_HELD = 0.02, 0.1, 0.93
"""Bounds on every kind's shares: of decided findings, of plain effects, of intervals."""


@dataclass
class Score:
    """One kind's findings: how many are false or missed, and how many intervals hold the truth."""

    findings: int = 0
    decided: int = 0
    false: int = 0
    plain: int = 0
    missed: int = 0
    intervals: int = 0
    held: int = 0

    def add(
        self,
        verdict: str,
        false: bool,
        missed: bool | None,
        intervals: Sequence[tuple[float, Mapping[str, Any]]] = (),
    ) -> None:
        """Count one finding, or one that ought to be there (verdict "").

        `missed` is None where the effect is too small to require it.
        """
        self.findings += bool(verdict)
        self.decided += bool(verdict) and verdict not in UNDECIDED
        self.false += false
        if missed is not None:
            self.plain += 1
            self.missed += missed
        for truth, interval in intervals:
            if interval["low"] is not None:
                self.intervals += 1
                self.held += interval["low"] <= truth <= interval["high"]

    def out_of_bounds(self) -> Iterator[str]:
        """What of the score is worse than it may be."""
        if self.false > MOST_FALSE * self.decided:
            yield f"{self.false} of {self.decided} decided ones are false"
        if self.missed > MOST_MISSED * self.plain:
            yield f"{self.missed} of {self.plain} plain ones are missed"
        if self.held < LEAST_HELD * self.intervals:
            yield f"{self.held} of {self.intervals} intervals hold"


@dataclass
class Scores:
    """All kinds' scores, what was claimed of what is identical, and statements that are false."""

    kinds: dict[str, Score] = field(default_factory=dict)
    datasets: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    identical_checks: int = 0
    identical_differences: int = 0

    def add(self, kind: str, verdict: str, *judged: Any) -> None:
        self.kinds.setdefault(kind, Score()).add(verdict, *judged)

    def out_of_bounds(self) -> list[str]:
        """What is worse than it may be, a line each."""
        found = [f"{k}: {said}" for k, s in self.kinds.items() for said in s.out_of_bounds()]
        if self.identical_differences:
            found.append(f"{self.identical_differences} differences of what is identical")
        return found


def score(datasets: int, seed: int, folder: Path) -> Scores:
    """Plant datasets, derive their findings and compare each with the truth."""
    scores = Scores()
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        dataset = PLANTS[index % len(PLANTS)](random)
        scores.datasets[dataset.kind] += 1
        _score_findings(scores, dataset, random, folder / str(index))
    return scores


def _is_scored(finding: Finding) -> bool:
    is_overall_choice = finding.kind == "choice" and finding.experiment is None
    is_exact = finding.metric == "peak_memory"
    return finding.kind not in UNSCORED and not is_overall_choice and not is_exact


def _score_findings(
    scores: Scores, dataset: Planted, random: np.random.Generator, folder: Path
) -> None:
    experiment = Planter(folder).read(write_dataset(dataset, folder, random))
    estimates = Estimates([experiment])
    derived = derive([experiment], estimates, NO_CLAIMS, None)
    found = [finding for finding in derived if _is_scored(finding)]
    truth = Truth(dataset)
    for finding in found:
        if finding.kind != "anomaly":
            scores.add(finding.kind, finding.verdict, *getattr(truth, finding.kind)(finding))
    for kind, said, false, missed in anomalies(dataset, found):
        scores.add(kind, kind if said else "", false, missed)
    if dataset.identical:
        scores.identical_checks += len(found)
        scores.identical_differences += sum(map(claims_a_difference, found))
