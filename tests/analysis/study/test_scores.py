"""How often the findings are right, on a small scale (the large one: docs/findings.md)."""

from __future__ import annotations

from pathlib import Path

from analysis.study.scores import score

DATASETS = 24


def test_what_is_planted_is_found_and_nothing_else(tmp_path: Path) -> None:
    scores = score(DATASETS, 3, tmp_path)
    assert scores.out_of_bounds() == []
    assert scores.identical_checks > 100
    assert len(scores.kinds) == 11
    for kind, found in scores.kinds.items():
        assert found.decided, kind
    assert sum(found.intervals for found in scores.kinds.values()) > 3000
