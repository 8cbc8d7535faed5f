"""What is said of a ladder: gains, what limits steps, what copies leave; from planted records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted import ladder as planted
from story.breaking import assert_unbroken, counted, english, judged

from flashlab.analysis.frames import Dataset
from flashlab.devices import find_device
from flashlab.story.ladder import story

SECONDS = {"GlobalMemory": 0.275, "SharedTiles": 0.137, "Padded": 0.136, "Coalesced": 0.183}
"""The planted times of the kernels at the headline's problem."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """SharedTiles halves the kernel's time, Padded changes nothing, Coalesced costs."""
    return planted.ON_GPU.dataset(tmp_path_factory.mktemp("ladder"))


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
    assert said in english(story(judged(data, verdict, **where)), "ladder")[place]


def test_the_unit_at_its_limit_is_named_with_the_counter_that_let_it(data: Dataset) -> None:
    device = find_device("NVIDIA H200")
    shared = 0.8 * device.shared_rate * SECONDS["SharedTiles"]
    tiles = {"global_load_bytes": 1e12, "bank_conflicts": 9e9}
    found = counted(
        data,
        {
            "GlobalMemory": {"global_load_bytes": 8e12, "shared_load_bytes": 0.0},
            "SharedTiles": {**tiles, "shared_load_bytes": shared, "shared_store_bytes": 0.0},
            "Padded": {
                **{"bank_conflicts": 1e3},
                **{"instructions": 0.7 * device.issue_rate * SECONDS["Padded"]},
            },
        },
    )
    said = english(story(found), "ladder")["ladder"]
    for part in (
        "SharedTiles cuts the reads from global memory to 1/8, and then shared memory",
        "itself limits the kernel, at 80% of what it can do.",
        "The issue of instructions limits Padded, at 70%",  # it is no faster: no cause
        "why Padded, which leaves almost nothing of the bank conflicts, gains nothing",
    ):
        assert part in said
    unknown = replace(found, runs=found.runs.assign(device_name="Abacus"))
    assert "limit" not in {each.name for each in story(unknown)}


def test_what_was_not_measured_is_not_told(data: Dataset, tmp_path: Path) -> None:
    metrics = data.values.index.get_level_values("metric")
    kernel_only = replace(data, values=data.values[metrics == "kernel_time"])
    names = {each.name for each in story(kernel_only)}
    assert names == {"answer", "pays", "notice", "size", "conclusion"}
    simulated = english(story(planted.SIMULATED.dataset(tmp_path)), "ladder")  # which has no times
    assert "10 of 10 runs are right" in simulated["answer"]
    assert {*simulated} == {"answer", "conclusion", "notice"}


def test_every_sentence_is_whole_whatever_failed(data: Dataset) -> None:
    assert_unbroken(data, story, "ladder")
