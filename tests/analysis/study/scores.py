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
from analysis.study.planted import (
    DEVICE,
    PLANTS,
    Planted,
    lab,
    plant_ceilings,
    true_median,
    write_dataset,
)
from analysis.study.truth import Truth, anomalies, claims_a_difference, judge_claim
from planted.experiments import Planter

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import Given
from flashlab.analysis.kinds.claim import claims, wanted_range
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.plan.published import CLAIMS, claims_of, read_claims

UNDECIDED = {
    *("inconclusive", "imprecise", "too_few_sizes", "withheld"),
    *("none", "not_tested", "other_device"),
}
"""Verdicts that state nothing that could be false."""

UNSCORED = {"anomaly", "conclusion", "counters", "environment", "processes", "sittings"}
"""Kinds that say nothing of what is planted, and those that are scored by themselves."""

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
        missed: bool | None = None,
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
    """All kinds' scores, and what was claimed of implementations that are identical."""

    kinds: dict[str, Score] = field(default_factory=dict)
    datasets: Counter[str] = field(default_factory=Counter)
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
    """Plant datasets, derive their findings and compare each with the truth.

    A twelfth as many again have the lab's shapes, for the published claims.
    """
    scores = Scores()
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        dataset = PLANTS[index % len(PLANTS)](random)
        scores.datasets[dataset.kind] += 1
        _score_findings(scores, dataset, random, folder / str(index))
    for index in range(datasets // 12):
        random = np.random.default_rng([seed, datasets + index])
        device = ("NVIDIA GeForce RTX 3070", DEVICE)[index % 2]
        scores.datasets["lab"] += 1
        _score_claims(scores, lab(random), random, folder / f"lab{index}", device)
    return scores


def _score_findings(
    scores: Scores, dataset: Planted, random: np.random.Generator, folder: Path
) -> None:
    ceilings = plant_ceilings(dataset, random)
    plan = write_dataset(dataset, folder, random)
    experiment = Planter(folder).read(plan)
    estimates = Estimates([experiment])
    found = derive([experiment], estimates, NO_CLAIMS, read_ceilings(ceilings, estimates))
    truth = Truth(dataset, ceilings["truth"])
    for finding in found:
        if finding.kind not in UNSCORED:
            scores.add(finding.kind, finding.verdict, *getattr(truth, finding.kind)(finding))
    for kind, said, false, missed in anomalies(dataset, found):
        scores.add(kind, kind if said else "", false, missed)
    if dataset.identical:
        scores.identical_checks += sum(f.kind not in UNSCORED - {"anomaly"} for f in found)
        scores.identical_differences += sum(map(claims_a_difference, found))


def _score_claims(
    scores: Scores, dataset: Planted, random: np.random.Generator, folder: Path, device: str
) -> None:
    published = claims_of(read_claims(CLAIMS), ATTENTION)
    wanted = {claim["id"]: wanted_range(claim) for claim in published["claims"] if "test" in claim}
    plan = write_dataset(dataset, folder, random, device)
    experiment = Planter(folder).read(plan)
    times = {key: true_median(planted) for key, planted in dataset.passes.items()}
    found: Iterator[Finding] = claims([experiment], Given(Estimates([experiment]), None, published))
    for finding in found:
        if finding.estimates:
            judged = judge_claim(finding, wanted[finding.subject["claim"]], dataset, times)
            scores.add("claim", finding.verdict, *judged)
