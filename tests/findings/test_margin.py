"""The margin is one constant: every verdict that depends on it moves with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from findings.lookups import the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.anomaly import unstable
from flashlab.analysis.kinds.comparison import comparisons, crossovers
from flashlab.analysis.kinds.monotonicity import monotonicities
from flashlab.analysis.ratios import Ratio
from flashlab.statistics import MARGIN

SOURCES = Path(__file__).parents[2] / "workflow" / "flashlab" / "findings"


@pytest.fixture
def wavering(sweep: Callable[..., Sweep], noisy: Callable[..., list[float]]) -> Sweep:
    """Flash2 is better by 20%, then worse by 20%; Pytorch's times fall by 20%, and one drifts."""

    def times(median: float) -> dict[str, Any]:
        return {"forward": noisy(median), "backward": [1.0] * 12}

    runs: dict[Any, Any] = {
        ("Pytorch", False, 128): times(1.2),
        ("Pytorch", False, 256): times(1.0),
        ("Pytorch", False, 512): times(1.2),
        ("Flash2", False, 128): times(1.0),
        ("Flash2", False, 256): times(1.2),
        ("Flash2", False, 512): times(1.0),
    }
    runs["Flash2", False, 512]["backward"] = [1.0] * 20 + [1.2] * 20
    return sweep(runs)


def verdicts(planted: Sweep) -> dict[str, str]:
    def findings() -> Iterator[Finding]:
        yield the_one(comparisons(planted, Estimates()))
        yield next(f for f in crossovers(planted, Estimates()) if f.metric == "forward_time")
        for finding in monotonicities(planted, Estimates()):
            if finding.is_about(implementation="Pytorch", metric="forward_time"):
                yield finding
        yield next(unstable(planted, Estimates()))

    return {finding.kind: finding.verdict for finding in findings()}


def test_a_wider_margin_moves_every_verdict(
    wavering: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdicts(wavering) == {
        "comparison": "mixed",
        "crossover": "crosses",
        "monotonicity": "broken",
        "anomaly": "unstable",
    }
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.5)
    assert verdicts(wavering) == {
        "comparison": "equivalent",
        "crossover": "none_in_range",
        "monotonicity": "monotone",
        "anomaly": "none",
    }


def test_a_ratio_is_judged_by_the_margin_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Ratio(128, 1.2, 1.1, 1.3, 30)
    assert (found.verdict, found.may_be_above) == ("above", True)
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.4)
    assert (found.verdict, found.may_be_above) == ("equal", False)


def test_a_trend_must_pass_the_margin(
    sweep: Callable[..., Sweep],
    noisy: Callable[..., list[float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {
        (name, False, size): {"forward": noisy(1e-3 / factor)}
        for size, factors in ((128, (1, 2.0)), (256, (1, 2.5)))
        for name, factor in zip(("Pytorch", "Flash2"), factors, strict=True)
    }
    planted = sweep(runs)
    assert the_one(comparisons(planted, Estimates())).params["trend"] == "widens"
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.4)
    assert the_one(comparisons(planted, Estimates())).params["trend"] == "none"


def test_no_finding_holds_a_margin_of_its_own() -> None:
    for path in SOURCES.glob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert str(MARGIN) not in code and "5%" not in code.replace("95%", ""), path.name
