"""What comparisons get right where processes differ in known ways (the large study: docs)."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis.study.models import score_models

pytestmark = pytest.mark.scheduled

DATASETS = 3
HARD = ("two states, 2", "random load", "one load on most, 2", "one load on most, 4")
"""Cells of which so many plain effects are not found as the disturbed processes are."""


def test_no_model_of_noise_makes_false_rows_and_intervals_hold(tmp_path: Path) -> None:
    for name, cell in score_models(DATASETS, 1, tmp_path):
        wrong = [*cell.out_of_bounds("two states" in name)]
        if name.startswith(HARD):
            wrong = [each for each in wrong if "missed" not in each]
        assert wrong == [], name
