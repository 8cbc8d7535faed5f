"""The margin is one constant: every verdict that depends on it moves with it."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.kind import Kind
from flashlab.analysis.kinds.anomaly import ANOMALY
from flashlab.analysis.kinds.balance import BALANCE
from flashlab.analysis.kinds.choice import CHOICE
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.crossover import CROSSOVER
from flashlab.analysis.kinds.launch_bound import LAUNCH_BOUND
from flashlab.analysis.kinds.monotonicity import MONOTONICITY
from flashlab.analysis.kinds.saturation import SATURATION
from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT
from flashlab.analysis.kinds.variant_gain import VARIANT_GAIN
from flashlab.analysis.kinds.worse_than_naive import WORSE_THAN_NAIVE

BY_TURNS = {"Pytorch": (12, 10, 12), "Flash2": (10, 12, 10)}
"""Each is better by 20% somewhere, and worse elsewhere."""

DRIFTING = {"forward": [1e-3] * 20 + [1.2e-3] * 20}


@pytest.mark.parametrize(
    ("kind", "runs", "narrow", "wide"),
    [
        (COMPARISON, BY_TURNS, "mixed", "equivalent"),
        (CROSSOVER, BY_TURNS, "crosses", "none_in_range"),
        (MONOTONICITY, BY_TURNS, "broken", "monotone"),
        (CHOICE, BY_TURNS, "changes", "one_suffices"),
        (WORSE_THAN_NAIVE, BY_TURNS, "worse", "none"),
        (LAUNCH_BOUND, BY_TURNS, "none", "level"),
        (ANOMALY, {"Flash2": [DRIFTING]}, "unstable", "none"),
        (BALANCE, {"Flash2": [(10, 20)]}, "below", "as_operations"),
        (SATURATION, {"Flash2": (1 / 3, 4 / 3.1, 16 / 4)}, "rising", "reached"),
        (VARIANT_EFFECT, {"Flash2": [12], ("Flash2", True): [10]}, "better", "equivalent"),
        (VARIANT_GAIN, {"Flash2": [12], ("Flash2", True): [8]}, "below", "as_operations"),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_a_wider_margin_moves_every_verdict(
    sweep: Plant, monkeypatch: pytest.MonkeyPatch, kind: Kind, runs: Any, narrow: str, wide: str
) -> None:
    planted = sweep(runs)

    def verdict() -> str:
        metrics = ("backward_time",) if kind is BALANCE else ("forward_time", None)
        return next(f.verdict for f in derived(kind, planted) if f.metric in metrics)

    assert verdict() == narrow
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.5)
    assert verdict() == wide
