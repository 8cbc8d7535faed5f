"""What is said of a ladder: gains, what limits steps, what copies leave; from planted records."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from planted import ladder as planted
from story.breaking import altered, broken, counted, judged, told
from story.planting import dataset_of_report

from flashlab.analysis.frames import Dataset
from flashlab.devices import find_device
from flashlab.story.ladder import ladder_of, story

STEPS = ["GlobalMemory", "SharedTiles", "Padded", "Coalesced"]
SECONDS = {"GlobalMemory": 0.275, "SharedTiles": 0.137, "Padded": 0.136, "Coalesced": 0.183}
"""The planted times of the kernels at the headline's problem."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """SharedTiles halves the kernel's time, Padded changes nothing, Coalesced costs."""
    return dataset_of_report(planted.ON_GPU, tmp_path_factory.mktemp("ladder"))


def english(data: Dataset) -> dict[str, str]:
    return {place: of["en"] for place, of in told(story(data), "ladder").items()}


def test_page_one_says_what_pays(data: Dataset) -> None:
    said = english(data)
    assert "SharedTiles is 2.00 times as fast as that of GlobalMemory." in said["answer"]
    assert "One of the three steps shortens the kernel; Padded makes no" in said["answer"]
    assert "difference to it; Coalesced lengthens it." in said["answer"]
    assert "which is start-up and compilation" in said["answer"]
    assert said["notice"] == "Sequential has no time on t28 (not supported)."
    assert said["conclusion"] == "Most is gained by shared-memory tiles."
    assert "the times 16–32 times as long. Padded pays only at N = 4096" in said["size"]


@pytest.mark.parametrize(
    ("verdict", "where", "place", "said"),
    [
        ("undecided", {"reference": "GlobalMemory"}, "answer", "no step is shown to be faster"),
        ("equal", {"metric": "kernel_time"}, "answer", "No step is shown to shorten the kernel"),
        ("undecided", {"metric": "kernel_time"}, "answer", "Coalesced it is undecided"),
        ("undecided", {"metric": "host_time"}, "answer", "with the copies none is shown"),
        ("undecided", {"metric": "process_time"}, "answer", "no step is shown to shorten the"),
        ("slower", {"metric": "process_time"}, "answer", "SharedTiles to Coalesced even"),
        ("undecided", {"metric": "kernel_time"}, "conclusion", "No step is worth its effort"),
        ("undecided", {"experiment": "size"}, "size", "Padded is not shown to pay at any N"),
    ],
)  # fmt: skip
def test_a_verdict_is_worded_as_what_it_is(
    data: Dataset, verdict: str, where: dict[str, str], place: str, said: str
) -> None:
    assert said in english(judged(data, verdict, **where))[place]


def test_the_unit_at_its_limit_is_named_with_the_counter_that_let_it(data: Dataset) -> None:
    device = find_device("NVIDIA H200")
    assert device is not None
    issue = {step: 0.7 * device.issue_rate * seconds for step, seconds in SECONDS.items()}
    shared = 0.8 * device.shared_rate * SECONDS["SharedTiles"]
    found = counted(
        data,
        {
            "GlobalMemory": {"global_load_bytes": 8e12, "shared_load_bytes": 0.0},
            "SharedTiles": {
                **{"global_load_bytes": 1e12, "shared_load_bytes": shared / 2},
                **{"shared_store_bytes": shared / 2, "bank_conflicts": 9e9},
            },
            "Padded": {"bank_conflicts": 1e3, "instructions": issue["Padded"]},
        },
    )
    said = english(found)["ladder"]
    assert "SharedTiles cuts the reads from global memory to 1/8, and then shared memory" in said
    assert "itself limits the kernel, at 80% of what it can do." in said
    assert "The issue of instructions limits Padded, at 70%" in said  # it is no faster: no cause
    assert (
        "That is why Padded, which leaves almost nothing of the bank conflicts, gains nothing"
        in said
    )
    evidence = [row for each in story(found) if each.name == "limit" for row in each.evidence]
    assert {row["table"] for row in evidence} == {"comparisons.csv", "metrics.csv"}


def test_without_a_device_s_facts_no_unit_of_them_limits(data: Dataset) -> None:
    unknown = replace(data, runs=data.runs.assign(device_name="Abacus"))
    d = ladder_of(unknown)
    assert d is not None and d.counters[["shared", "issue"]].isna().all(axis=None)
    assert "limit" not in {each.name for each in story(unknown)}


def test_what_was_not_measured_is_not_told(data: Dataset) -> None:
    metrics = data.values.index.get_level_values("metric")
    kernel_only = replace(data, values=data.values[metrics == "kernel_time"])
    assert {each.name for each in story(kernel_only)} == {
        "answer",
        "pays",
        "notice",
        "size",
        "conclusion",
    }
    of_size = data.values.index.get_level_values("experiment") == "size"
    assert "size" not in {each.name for each in story(replace(data, values=data.values[~of_size]))}


def test_a_simulator_has_no_times(tmp_path: Path) -> None:
    said = english(dataset_of_report(planted.SIMULATED, tmp_path))
    assert "10 of 10 runs are right" in said["answer"] and set(said) == {
        "answer",
        "conclusion",
        "notice",
    }


def test_nothing_breaks_a_sentence(data: Dataset) -> None:
    for seed in range(40):
        assert broken(told(story(altered(data, random.Random(seed))), "ladder")) == [], seed
