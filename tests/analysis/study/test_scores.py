"""The error rates of comparisons and statements, on a small scale (the large one: docs)."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis.study.scores import score

pytestmark = pytest.mark.scheduled

DATASETS = 24


def test_what_is_planted_is_found_and_nothing_else(tmp_path: Path) -> None:
    scores = score(DATASETS, 3, tmp_path)
    assert scores.out_of_bounds() == [], scores.examples
    assert scores.identical_rows > 100
    assert {"implementations", "implementations, pooled", "causal"} <= scores.rows.keys()
    of_others = {"pays", "size", "attention", "compiling"}
    assert of_others <= scores.statements.keys()
    assert sum(found.intervals for found in scores.rows.values()) > 3000
