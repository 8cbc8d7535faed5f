from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from compare.recordings import Recording, record, runs

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.circumstances import compare_ceilings
from flashlab.compare.listing import cells
from flashlab.compare.sentences import Sentences
from flashlab.compare.two_sides import compare_records
from flashlab.files import write_json
from flashlab.runs import Run


def compared(one: Recording, other: Recording) -> Sentences:
    return Sentences(compare_records(ATTENTION, ("before", one), ("after", other)), "en")


def concluded(slow: Callable[[Run], bool], masks: tuple[bool, ...] = (False,)) -> Sentences:
    """What is concluded where the runs that `slow` names take 10% longer."""
    measured = runs(masks=masks)
    one = record(measured, 1, spread=0.002)
    other = record(measured, 2, spread=0.002, factor=lambda run: 1.1 if slow(run) else 1.0)
    return compared(one, other)


@pytest.mark.parametrize(
    ("slow", "slower", "where"),
    [
        (lambda run: run["seq_len"] >= 4096, 4, "N ≥ 4096"),
        (lambda run: run["seq_len"] <= 1024, 4, "N ≤ 1024"),
        (lambda run: run["seq_len"] == 1024, 2, "N = 1024"),
        (lambda run: run["causal"], 4, "causal"),
        (lambda run: run["causal"] and run["seq_len"] >= 4096, 2, "N ≥ 4096, causal"),
        (lambda run: True, 8, "all"),
        (lambda run: (run["seq_len"], run["causal"]) in [(256, False), (4096, True)], 2, "–"),
    ],
)
def test_the_fewest_conditions_that_describe_the_change_are_named(
    slow: Callable[[Run], bool], slower: int, where: str
) -> None:
    words = concluded(slow, masks=(False, True))
    summary, memory = words.lead
    assert summary.startswith(
        "Nothing is shown to be faster with after: of 16 comparisons with before (forward time, "
        f"backward time), slower {slower}"
    )
    assert memory == "Equal throughout: peak memory (8 comparisons)."
    row = next(row for row in words.counted_rows if row["metric"] == "forward_time")
    ((verdict, medians, intervals, place),) = words.differences(row)
    assert (verdict, place, row["verdicts"]["slower"]) == ("slower", where, slower)
    ratios, (least, most) = (
        [float(end) for end in each.split("–")] for each in (medians, intervals)
    )
    assert 1.05 < least <= min(ratios) <= max(ratios) <= most < 1.15


def test_identical_code_is_concluded_to_state_no_difference() -> None:
    (sentence,) = concluded(lambda run: False).lead
    assert sentence == (
        "No difference can be claimed: of 12 comparisons, 12 are equal within ±5% and 0 are "
        "undecided."
    )


def of_two(seed: int, first: float, second: float) -> Recording:
    """Two implementations at one shape, whose forward passes take this many ms."""
    planted = (("Flash2", first), ("Flash4", second))
    sides = [
        record(runs([256], implementation=name), n, spread=0.002, factor=lambda _, f=ms: f)
        for n, (name, ms) in enumerate(planted, start=seed)
    ]
    return sides[0] | sides[1]


def test_who_is_fastest_is_told_where_both_sides_decide_it() -> None:
    def told(before: tuple[float, float], after: tuple[float, float]) -> list[str]:
        lead = compared(of_two(1, *before), of_two(3, *after)).lead
        return [line for line in lead if line.startswith("By ")]

    kept, total = told((1.0, 1.3), (1.0, 1.2))
    assert kept == (
        "By forward time, who is the fastest is decided on both sides at 1 of 1 shapes, and it is "
        "the same implementation on both (Flash2)."
    )
    assert total.startswith("By total time, ")
    changed, _ = told((1.0, 1.4), (1.4, 1.0))
    assert changed == (
        "By forward time, who is the fastest is decided on both sides at 1 of 1 shapes; at 1 of "
        "these it is another implementation with after: Flash2 → Flash4 at 1 (B1 N256 H8 E512 "
        "full)."
    )
    assert told((1.0, 1.3), (1.02, 1.0)) == []


def test_what_fails_on_both_sides_is_told_and_not_compared() -> None:
    one, other = (record(runs([256, 1024]), seed) for seed in (1, 2))
    for side in (one, other):
        run = next(iter(side))
        side[run] = [replace(each, status="incorrect", metrics={}) for each in side[run]]
    assert compared(one, other).lead[-1] == (
        "Flash2 has no result on either side at one shape: B1 N256 H8 E512 full (incorrect)."
    )


def test_circumstances_count_the_processes_and_gpus_of_what_is_compared() -> None:
    one = record(runs(), 1, processes=2)
    other = record(runs(), 2) | record(runs([512]), 2, processes=5)
    for cards, driver, side in ((1, None, one), (2, "2", other)):
        for run, records in side.items():
            side[run] = [
                replace(r, environment={**r.environment, "gpu_uuid": gpu, "driver": driver})
                for r in records
                if (gpu := f"GPU-{r.process % cards}")
            ]
    words = compared(one, other)
    found = {row["field"]: (row["one"], row["other"], row["verdict"]) for row in words.differing}
    assert found == {
        "gpus": (["1"], ["2"], "differs"),
        "processes": (["2"], ["3"], "differs"),
        "driver": ([], ["2"], "unstated"),
    }
    assert [side["records"] for side in words.document["sides"]] == [8, 12]


def test_the_ceilings_of_both_devices_stand_beside_each_other(tmp_path: Path) -> None:
    for name, milliseconds in (("one", 2.0), ("other", 1.0)):
        calls = {"time(s)": milliseconds / 1e3, "samples": [milliseconds / 1e3] * 30}
        document = {
            "device": "cuda",
            "environment": {},
            "matrix_product": {"float16": {**calls, "size": 1000}},
            "copy": {**calls, "bytes": 10**9},
        }
        write_json(tmp_path / name, document)
    found = compare_ceilings(tmp_path / "one", tmp_path / "other", {"float16"})
    assert found == [
        {"what": "copy", "one": pytest.approx(1000), "other": pytest.approx(2000)},
        {"what": "float16", "one": pytest.approx(1), "other": pytest.approx(2)},
    ]
    assert compare_ceilings(tmp_path / "one", None, {"float16"}) == []


def test_an_interval_without_bounds_is_not_printed_to_the_digit() -> None:
    words = compared(record(runs(), 1), record(runs(), 2))
    pair = {**words.document["pairs"][0], "low": 3.2e-5, "high": 126000.0}
    assert "< 0.01–> 100" in cells(pair, words)
    pair = {**pair, "low": 0.934, "high": 1.0499}
    assert "0.934–1.0499" in cells(pair, words)
