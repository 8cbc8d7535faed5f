"""The error rates of comparisons, on a small scale (the large one: docs)."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis.study.scores import score

pytestmark = pytest.mark.scheduled

DATASETS = 20


def test_what_is_planted_is_found_and_nothing_else(tmp_path: Path) -> None:
    scores = score(DATASETS, 3, tmp_path)
    assert scores.out_of_bounds() == []
    assert scores.identical_rows > 100
    assert {"implementations", "implementations, pooled", "causal"} <= scores.rows.keys()
    assert sum(found.intervals for found in scores.rows.values()) > 3000
