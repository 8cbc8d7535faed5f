"""What comparisons get right where processes differ in known ways (the large study: docs)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from analysis.study.rows import Score, study

pytestmark = pytest.mark.scheduled


def test_rows_are_true_and_intervals_hold_whatever_differs_between_processes(
    tmp_path: Path,
) -> None:
    """But of two processes, both of which a load may slow; one such run makes ten false rows."""
    decided, false = Counter[str](), Counter[str]()
    scores: dict[str, list[Score]] = {}
    for name, score in study(6, 1, tmp_path):
        if not name.endswith(", 2 processes"):
            scores.setdefault(name.split(",")[0], []).append(score)
            decided[name], false[name] = score.decided, score.false
    assert false.total() <= 0.001 * decided.total()
    for name, cells in scores.items():
        assert sum(x.missed for x in cells) <= 0.05 * sum(x.plain for x in cells), name
        assert sum(x.held for x in cells) >= 0.92 * sum(x.intervals for x in cells), name
        assert sum(x.different for x in cells) == 0, name
