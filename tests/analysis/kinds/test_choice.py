"""Who is best at each size, and over a dataset."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived, excluded_run, keys

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import CHOICE

TOTAL = "forward_backward_time"


def chosen(experiment: Any) -> Finding:
    """The choice along one sweep."""
    (found,) = (f for f in derived(CHOICE, experiment, metric="forward_time") if f.experiment)
    return found


def overall(*experiments: Any) -> Finding:
    """The choice over several."""
    (found,) = (f for f in derived(CHOICE, *experiments) if f.experiment is None)
    return found


@pytest.mark.parametrize(
    ("times", "verdict", "name", "winners"),
    [
        # The same one everywhere, by far.
        ({"A": (2, 4), "B": (3, 9), "C": (4, 9)}, "one_best", "A", [["A"]]),
        # B is better at first, A later.
        ({"A": (4, 4), "B": (3, 9), "C": (9, 9)}, "changes", None, [["B"], ["A"]]),
        # A is never more than the margin worse: it will do.
        ({"A": (3.03, 4), "B": (3, 9), "C": (9, 9)}, "one_suffices", "A", [["B", "A"], ["A"]]),
        # A failed at the second value.
        ({"A": (2, "incorrect"), "B": (3, 9), "C": {256: 20}}, "changes", None, [["A"], ["B"]]),
    ],
)
def test_the_best_is_named_and_what_is_within_the_margin_of_it(
    experiment: Plant, times: Any, verdict: str, name: str | None, winners: list[list[str]]
) -> None:
    found = chosen(experiment(times))
    assert (found.verdict, found.facts.get("name")) == (verdict, name)
    assert [stretch["names"] for stretch in found.facts["winners"]] == winners
    assert (found.facts["of"], keys(found)) == (3, [f"choice.{verdict}"])
    assert "implementation" not in found.subject
    failed = times["A"][1] == "incorrect"
    assert (excluded_run("A", 256, "incorrect") in found.reasons) is failed


def test_one_alone_is_no_choice(experiment: Plant) -> None:
    found = chosen(experiment({"A": {128: 2}, "B": {256: 3}}))
    assert (found.verdict, found.statements) == ("inconclusive", [])
    assert derived(CHOICE, experiment({"A": [2]})) == []


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
