"""Ratios of processes that ran side by side, on a small scale (the large one: docs/findings.md)."""

from __future__ import annotations

import pytest
from analysis.study.paired import DISTURBANCES, Disturbance, score_paired

RECORDINGS = 50


@pytest.mark.parametrize("disturbance", DISTURBANCES.values(), ids=DISTURBANCES)
def test_pairs_hold_and_are_narrower_where_cards_and_clocks_differ(
    disturbance: Disturbance,
) -> None:
    score = score_paired(disturbance, RECORDINGS, seed=2)
    assert score.held / score.ratios >= 0.93
    assert score.false == 0
    undisturbed = disturbance is DISTURBANCES["none"]
    assert score.relative_width < (1.1 if undisturbed else 0.6)
