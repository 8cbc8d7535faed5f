"""How often comparisons and statements are right, on a small scale (the large one: docs)."""

from __future__ import annotations

from pathlib import Path

from analysis.study.scores import score

DATASETS = 24


def test_what_is_planted_is_found_and_nothing_else(tmp_path: Path) -> None:
    scores = score(DATASETS, 3, tmp_path)
    assert scores.out_of_bounds() == [], scores.examples
    assert scores.identical_rows > 100
    assert {"implementations", "implementations, pooled", "causal"} <= scores.rows.keys()
    assert {"time_lead", "time_switch", "take", "answer_use"} <= scores.statements.keys()
    assert sum(found.intervals for found in scores.rows.values()) > 3000
