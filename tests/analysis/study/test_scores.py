"""How often the findings are right, on a small scale (the large one: docs/findings.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from analysis.study import planted
from analysis.study.scores import Score, Scores, score
from analysis.study.truth import Truth

from flashlab.analysis.finding import Finding

DATASETS = 24


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Scores:
    return score(DATASETS, 3, tmp_path_factory.mktemp("planted"))


def test_what_is_planted_is_found_and_nothing_else(scores: Scores) -> None:
    assert scores.out_of_bounds() == []
    assert scores.identical_checks > 100
    assert len(scores.kinds) == 11
    for kind, found in scores.kinds.items():
        assert found.decided, kind
    assert sum(found.intervals for found in scores.kinds.values()) > 3000


@pytest.mark.parametrize(
    ("counted", "wrong"),
    [
        (Score(decided=100, false=2, plain=10, missed=1, intervals=100, held=93), 0),
        (Score(decided=100, false=3), 1),
        (Score(plain=10, missed=2), 1),
        (Score(intervals=100, held=92), 1),
        (Score(false=1), 1),
    ],
)
def test_a_score_out_of_bounds_is_told(counted: Score, wrong: int) -> None:
    assert len(list(counted.out_of_bounds())) == wrong


def test_a_verdict_against_the_truth_is_false() -> None:
    dataset = planted.faster(np.random.default_rng(1))
    truth = Truth(dataset)
    mine, theirs = (truth.along(name, False, "forward_time") for name in ("Flash2", "Pytorch"))
    ratio = theirs[128] / mine[128]
    subject = {"implementation": "Flash2", "baseline": "Pytorch", "metric": "forward_time"}
    estimate = {"value": 128, "estimate": ratio, "low": ratio, "high": ratio}
    finding = Finding(
        kind="comparison",
        experiment="sweep",
        subject=subject | {"variant": {"causal": False}},
        verdict="better",
    )
    right = "above" if ratio > 1 else "below"
    for verdict in ("above", "below"):
        estimates = [estimate | {"verdict": verdict}]
        false, _, _ = truth.comparison(replace(finding, estimates=estimates))
        assert false is (verdict != right)
