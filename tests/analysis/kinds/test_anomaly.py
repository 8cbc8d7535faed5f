from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from analysis.deriving import Plant, derived
from planted.experiments import noisy

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.anomaly import ANOMALY, with_dips

SIZES = (128, 256, 512, 1024, 2048)


def along(time: Callable[[int], float], sizes: tuple[int, ...] = SIZES, **at: Any) -> Any:
    """Forward and backward times by size, but for what is planted at some; ``n512=2``."""
    return {"Flash2": {n: at.get(f"n{n}", (time(n), 2 * time(n))) for n in sizes}}


def square(n: int) -> float:
    return n**2 / 1e4


def hits(planted: Any) -> list[Finding]:
    return [finding for finding in derived(ANOMALY, planted) if finding.verdict != "none"]


def halves(time: float, first: float, second: float) -> list[float]:
    """40 calls, the first and the second half of them longer by a factor."""
    return [t * (first if i < 20 else second) for i, t in enumerate(noisy(time * 1e-5))]


def test_calls_that_slow_down_are_unstable(experiment: Plant) -> None:
    drifting = {"forward": halves(square(512), 1, 1.3), "backward": 2 * square(512)}
    (found,) = (
        f for f in hits(experiment(along(square, n512=drifting))) if f.verdict == "unstable"
    )
    assert (found.facts["sign"], found.facts["value"]) == ("drift", 512)
    assert found.facts["ratio"] == pytest.approx(1.3, rel=0.02)


def test_a_median_that_is_hardly_known_is_unstable(experiment: Plant) -> None:
    shuffled = np.random.default_rng(1).permutation([1e-3, 2e-3] * 10).tolist()
    planted = experiment(along(square, n512={"forward": square(512), "backward": shuffled}))
    (found,) = (f for f in hits(planted) if f.verdict == "unstable")
    assert (found.facts["sign"], found.metric) == ("spread", "backward_time")
    assert found.facts["half_width"] == pytest.approx(33.3, abs=1)


def test_the_checks_that_found_nothing_are_counted(experiment: Plant) -> None:
    found = derived(ANOMALY, experiment(along(square)))
    assert {f.subject["check"]: (f.verdict, f.facts["checked"]) for f in found} == {
        "unstable": ("none", 10),
        "outlier": ("none", 6),  # 3 inner sizes, 2 metrics
    }


@pytest.mark.parametrize("factor", [0.5, 1.6])
def test_a_record_far_from_the_power_law_of_its_neighbours_is_an_outlier(
    experiment: Plant, factor: float
) -> None:
    planted = experiment(along(square, n512=(square(512) * factor, 2 * square(512))))
    (found,) = hits(planted)
    assert (found.verdict, found.facts["value"]) == ("outlier", 512)
    assert found.facts["ratio"] == pytest.approx(factor, rel=0.03)


@pytest.mark.parametrize(
    "time",
    [
        lambda n: 10 + square(n),
        lambda n: max(10, square(n)),
        lambda n: square(n) * (3 if n >= 512 else 1),
        lambda n: square(n) * (0.3 if n >= 512 else 1),
    ],
    ids=["launch added", "launch hidden", "step up", "step down"],
)
@pytest.mark.parametrize("sizes", [SIZES, SIZES[:4]])
def test_a_curve_that_bends_of_itself_contradicts_no_record(
    experiment: Plant, time: Callable[[int], float], sizes: tuple[int, ...]
) -> None:
    assert hits(experiment(along(time, sizes))) == []


def test_unstable_neighbours_contradict_nothing(experiment: Plant) -> None:
    wavering = {"forward": halves(square(256), 0.94, 1.06), "backward": 2 * square(256)}
    outlying = (2 * square(512), 2 * square(512))
    found = hits(experiment(along(square, n256=wavering, n512=outlying)))
    assert {finding.verdict for finding in found} == {"unstable"}


def test_few_samples_are_not_checked(experiment: Plant) -> None:
    few = {"Flash2": {n: {"forward": [1.0] * 5} for n in SIZES}}
    assert derived(ANOMALY, experiment(few, processes=1)) == []


def with_dip(factor: float, naive: float = 1.0) -> dict[str, Any]:
    """Two implementations, whose times at 512 are longer by these factors."""
    sizes = SIZES[:4]
    at = {name: {512: (slow * square(512), 2 * square(512))} for name, slow in
          (("Flash2", factor), ("Pytorch", naive))}  # fmt: skip
    return {name: {n: at[name].get(n, (square(n), 2 * square(n))) for n in sizes} for name in at}


@pytest.mark.parametrize(
    ("factors", "found"), [((3.9, 1), True), ((1.2, 1), False), ((3.9, 3.9), False)]
)
def test_a_run_is_odd_that_alone_takes_as_long_as_four_times_its_work(
    experiment: Plant, factors: tuple[float, float], found: bool
) -> None:
    """Not where the other implementation does too: then the problem is what takes so long."""
    planted = experiment(with_dip(*factors))
    dips = [f for f in hits(planted) if f.facts.get("sign") == "dips"]
    assert [(f.subject["implementation"], f.facts["value"], f.facts["beside"]) for f in dips] == (
        [("Flash2", 512, [256, 1024])] if found else []
    )
    (warned,) = with_dips([planted], Estimates([planted]))
    runs = [r for r in warned.runs if any(w["code"] == "dips" for w in r["warnings"] or ())]
    assert [(r["implementation"], r["seq_len"]) for r in runs] == (
        [("Flash2", 512)] if found else []
    )
