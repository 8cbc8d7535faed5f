from __future__ import annotations

from collections.abc import Callable

import pytest
from compare.golden import two_sides
from compare.recordings import Recording, record, runs

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.listing import cells
from flashlab.compare.sentences import Sentences
from flashlab.compare.two_sides import compare_records
from flashlab.runs import Run


def compared(one: Recording, other: Recording) -> Sentences:
    return Sentences(compare_records(ATTENTION, ("before", one), ("after", other)), "en")


def concluded(slow: Callable[[Run], bool], masks: tuple[bool, ...] = (False,)) -> list[str]:
    """What is concluded where the runs that `slow` names take 10% longer."""
    measured = runs(masks=masks)
    one = record(measured, 1, spread=0.002)
    other = record(measured, 2, spread=0.002, factor=lambda run: 1.1 if slow(run) else 1.0)
    return compared(one, other).conclusions


@pytest.mark.parametrize(
    ("slow", "where"),
    [
        (lambda run: run["seq_len"] >= 4096, "at 4 of 8 shapes (each of them N ≥ 4096)"),
        (lambda run: run["seq_len"] <= 1024, "at 4 of 8 shapes (each of them N ≤ 1024)"),
        (lambda run: run["seq_len"] == 1024, "at 2 of 8 shapes (each of them N = 1024)"),
        (lambda run: run["causal"], "at 4 of 8 shapes (each of them causal)"),
        (
            lambda run: run["causal"] and run["seq_len"] >= 4096,
            "at 2 of 8 shapes (each of them N ≥ 4096, causal)",
        ),
        (lambda run: True, "at all 8 shapes"),
        (
            lambda run: (run["seq_len"], run["causal"]) in [(256, False), (4096, True)],
            "at 2 of 8 shapes (B1 N256 H8 E512 full, B1 N4096 H8 E512 causal)",
        ),
    ],
)
def test_the_fewest_conditions_that_describe_the_change_are_named(
    slow: Callable[[Run], bool], where: str
) -> None:
    summary, sentence = concluded(slow, masks=(False, True))
    assert summary.startswith(
        "24 comparisons of after with before (forward time, backward time, peak memory): slower "
    )
    assert sentence.startswith(f"Flash2 is slower with after {where}: its forward time is ")


def test_identical_code_is_concluded_to_state_no_difference() -> None:
    (sentence,) = concluded(lambda run: False)
    assert sentence == (
        "No difference can be claimed: of 12 comparisons, 12 are equal within ±5% and 0 are "
        "undecided."
    )


def test_a_field_agrees_differs_or_is_not_stated_on_one_side() -> None:
    rows = compared(*two_sides()).document["environments"]
    verdicts = {row["field"]: row["verdict"] for row in rows}
    found = [verdicts[field] for field in ("torch", "device_name", "driver")]
    assert found == ["agrees", "differs", "unstated"]


def test_an_interval_without_bounds_is_not_printed_to_the_digit() -> None:
    words = compared(record(runs(), 1), record(runs(), 2))
    pair = {**words.document["pairs"][0], "low": 3.2e-5, "high": 126000.0}
    assert "< 0.01–> 100" in cells(pair, words)
    pair = {**pair, "low": 0.934, "high": 1.0499}
    assert "0.934–1.0499" in cells(pair, words)
