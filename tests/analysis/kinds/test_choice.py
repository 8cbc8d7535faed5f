"""Who is best at each size, and over a dataset."""

from __future__ import annotations

from typing import Any

from analysis.deriving import Plant, derived

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import CHOICE

TOTAL = "forward_backward_time"


def overall(*experiments: Any) -> Finding:
    """The choice over several."""
    (found,) = (f for f in derived(CHOICE, *experiments) if f.experiment is None)
    return found


def test_over_a_dataset_every_setting_counts_once(experiment: Plant) -> None:
    first = experiment({"A": {128: 2, 256: 4}, "B": {128: 3, 256: 9}}, "first")
    second = experiment({"A": {256: 4, 512: 30}, "B": {256: 9, 512: 20}}, "second")
    found = overall(first, second)
    assert (found.verdict, found.metric, found.facts["count"]) == ("changes", TOTAL, 3)
    (tally,) = (t["counts"] for t in found.facts["tallies"] if t["metric"] == TOTAL)
    assert tally == [
        {"implementation": "A", "level": 2, "best": 2, "alone": 2},
        {"implementation": "B", "level": 1, "best": 1, "alone": 1},
    ]
    assert "wrong" not in found.facts
