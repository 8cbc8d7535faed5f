"""How often the findings are right: scores over datasets whose truth is planted.

The findings of each dataset are derived from its tables as from any other's, and each is compared
with what was planted. By hand: PYTHONPATH=tests python -m analysis.study.scores [DATASETS] [SEED]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.study.judging import Judge, anomalies, differences, judge_claim
from analysis.study.judging_kinds import JUDGES
from analysis.study.judging_kinds import differences as chosen_differences
from analysis.study.planted import DEVICE, PLANTS, lab, plant_ceilings, true_median, write_dataset

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import read_planned_sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.claim import claims
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.plan.published import claims_of, read_claims

CLAIMS = Path(__file__).parents[2] / "data" / "published" / "claims.yaml"

UNDECIDED = {
    *("inconclusive", "imprecise", "too_few_sizes", "withheld"),
    *("none", "not_tested", "other_device"),
}
"""Verdicts that state nothing that could be false."""


UNSCORED = {"anomaly", "conclusion", "counters", "environment", "processes", "sittings"}
"""Kinds that say nothing of what is planted, and those that are scored by themselves."""


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
        intervals: Sequence[tuple[float, dict[str, Any]]] = (),
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

    @property
    def false_share(self) -> float:
        return self.false / self.decided if self.decided else 0.0

    @property
    def missed_share(self) -> float:
        return self.missed / self.plain if self.plain else 0.0

    @property
    def held_share(self) -> float:
        return self.held / self.intervals if self.intervals else 1.0


@dataclass
class Scores:
    """All kinds' scores, and what was claimed of implementations that are identical."""

    kinds: dict[str, Score] = field(default_factory=dict)
    datasets: dict[str, int] = field(default_factory=dict)
    identical_checks: int = 0
    identical_differences: int = 0

    def of(self, kind: str) -> Score:
        return self.kinds.setdefault(kind, Score())

    def text(self) -> str:
        """The scores as a table in Markdown."""
        lines = [
            "| kind | findings | decided | false | plain ones missed | intervals that hold |",
            "|---|---|---|---|---|---|",
        ]
        for kind, score in sorted(self.kinds.items()):
            missed = f"{score.missed} of {score.plain}" if score.plain else "–"
            held = (
                f"{score.held} of {score.intervals} ({100 * score.held_share:.1f}%)"
                if score.intervals
                else "–"
            )
            lines.append(
                f"| {kind} | {score.findings} | {score.decided} | "
                f"{score.false} ({100 * score.false_share:.1f}%) | {missed} | {held} |"
            )
        planted = ", ".join(f"{count} {kind}" for kind, count in sorted(self.datasets.items()))
        return "\n".join(
            [
                *lines,
                "",
                f"{sum(self.datasets.values())} datasets: {planted}.",
                f"Of identical implementations and variants, {self.identical_checks} findings, "
                f"{self.identical_differences} of which claim a difference.",
            ]
        )


def score(
    datasets: int,
    seed: int,
    folder: Path,
    seen: Callable[[list[Finding]], None] = lambda findings: None,
) -> Scores:
    """Plant datasets, derive their findings and compare each with the truth.

    A twelfth as many again have the lab's shapes, for the published claims. `seen` is called with
    each dataset's findings.
    """
    scores = Scores()
    published = claims_of(read_claims(CLAIMS), ATTENTION)
    none: dict[str, Any] = {**published, "sources": {}, "claims": []}
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        dataset = PLANTS[index % len(PLANTS)](random)
        ceilings = plant_ceilings(dataset, random)
        home = folder / str(index)
        plan = write_dataset(dataset, home, random)
        estimates = Estimates()
        sweep = read_planned_sweep(plan, home / "tables", with_samples=True)
        found = derive([sweep], estimates, none, read_ceilings(ceilings, estimates))
        seen(found)
        scores.datasets[dataset.kind] = scores.datasets.get(dataset.kind, 0) + 1
        judge = Judge(dataset, ceilings["truth"])
        for finding in found:
            if finding.kind not in UNSCORED:
                judge_kind = JUDGES.get(finding.kind) or getattr(Judge, finding.kind)
                judged = judge_kind(judge, finding)
                scores.of(finding.kind).add(finding.verdict, *judged)
        for kind, said, false, missed in anomalies(dataset, found):
            scores.of(kind).add(kind if said else "", false, missed)
        if dataset.identical:
            scores.identical_checks += sum(
                finding.kind not in UNSCORED - {"anomaly"} for finding in found
            )
            scores.identical_differences += differences(found) + chosen_differences(found)
    for index in range(datasets // 12):
        random = np.random.default_rng([seed, datasets + index])
        dataset = lab(random)
        device = ("NVIDIA GeForce RTX 3070", DEVICE)[index % 2]
        home = folder / f"lab{index}"
        plan = write_dataset(dataset, home, random, device)
        sweep = read_planned_sweep(plan, home / "tables", with_samples=True)
        found = list(claims(published, [sweep], Estimates()))
        seen(found)
        scores.datasets["lab"] = scores.datasets.get("lab", 0) + 1
        times = {key: true_median(planted) for key, planted in dataset.passes.items()}
        for finding in found:
            if finding.estimates:
                judged = judge_claim(finding, dataset, times)
                scores.of("claim").add(finding.verdict, *judged)
    return scores


def main() -> None:
    """Print the scores."""
    datasets, seed = (int(value) for value in (*sys.argv[1:], *("360", "1")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        print(score(datasets, seed, Path(folder)).text())


if __name__ == "__main__":
    main()
