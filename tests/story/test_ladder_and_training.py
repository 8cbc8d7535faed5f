"""What is said of ladders and trainings, by verdicts and by what was measured; planted records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted import ladder as planted_ladder
from planted import training as planted_training
from story.breaking import assert_unbroken, counted, judged, told

from flashlab.analysis.frames import Dataset
from flashlab.devices import find_device
from flashlab.story.ladder import story as ladder_story
from flashlab.story.training import story as training_story

STORIES = {"ladder": ladder_story, "training": training_story}
KERNEL, PROCESS = {"metric": "kernel_time"}, {"metric": "process_time"}
FIRST = {"reference": "GlobalMemory"}
ATTENTIONS, COMPILED = {"compared": "implementations"}, {"compared": "compile"}


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """SharedTiles halves the kernel's time, Padded changes nothing, Coalesced costs."""
    return planted_ladder.ON_GPU.dataset(tmp_path_factory.mktemp("ladder"))


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Flash2 keeps the GPU busy for 40%; two are not compiled; one loss is off."""
    return planted_training.REPORT.dataset(tmp_path_factory.mktemp("training"))


def english(data: Dataset) -> dict[str, str]:
    """The English paragraphs by place."""
    name = data.benchmark.name
    return {place: text["en"] for place, text in told(STORIES[name](data), name).items()}


@pytest.mark.parametrize(
    ("benchmark", "verdict", "where", "place", "said"),
    [
        ("ladder", "undecided", FIRST, "answer", "no step is shown to be faster"),
        ("ladder", "equal", KERNEL, "answer", "No step is shown to shorten the kernel"),
        ("ladder", "undecided", KERNEL, "answer", "Coalesced it is undecided"),
        ("ladder", "undecided", {"metric": "host_time"}, "answer", "with the copies none is shown"),
        ("ladder", "undecided", PROCESS, "answer", "no step is shown to shorten the"),
        ("ladder", "slower", PROCESS, "answer", "SharedTiles to Coalesced even"),
        ("ladder", "undecided", KERNEL, "conclusion", "No step is worth its effort"),
        ("ladder", "undecided", {"experiment": "size"}, "size", "Padded is not shown to pay at an"),
        ("training", "undecided", {}, "answer", "No fused attention is shown to train faster th"),
        ("training", "equal", ATTENTIONS, "attention", "are within 5% of it"),
        ("training", "undecided", ATTENTIONS, "attention", "no attention is shown"),
        ("training", "slower", COMPILED, "attention", "Pytorch and Flash2 become slower"),
        ("training", "faster", COMPILED, "attention", "Compiling makes Pytorch and Flash2"),
        ("training", "undecided", COMPILED, "attention", "Compiled, Flash2 leaves the pace"),
        ("training", "undecided", COMPILED, "notice", "are undecided; "),
    ],
)
def test_a_verdict_is_worded_as_what_it_is(
    request: Any, benchmark: str, verdict: str, where: dict[str, str], place: str, said: str
) -> None:
    assert said in english(judged(request.getfixturevalue(benchmark), verdict, **where))[place]


@pytest.mark.parametrize("benchmark", STORIES)
def test_every_sentence_is_whole_whatever_failed(request: Any, benchmark: str) -> None:
    assert_unbroken(request.getfixturevalue(benchmark), STORIES[benchmark], benchmark)


def test_the_unit_at_its_limit_is_named_with_the_counter_that_let_it(ladder: Dataset) -> None:
    """SharedTiles and Padded take 0.137 and 0.136 s."""
    device = find_device("NVIDIA H200")
    shared, issued = 0.8 * device.shared_rate * 0.137, 0.7 * device.issue_rate * 0.136
    tiles = {"global_load_bytes": 1e12, "bank_conflicts": 9e9, "shared_store_bytes": 0.0}
    counters = {
        "GlobalMemory": {"global_load_bytes": 8e12, "shared_load_bytes": 0.0},
        "SharedTiles": {**tiles, "shared_load_bytes": shared},
        "Padded": {"bank_conflicts": 1e3, "instructions": issued},
    }
    found = counted(ladder, counters)
    said = english(found)["ladder"]
    for part in (
        "SharedTiles cuts the reads from global memory to 1/8, and then shared memory",
        "itself limits the kernel, at 80% of what it can do.",
        "The issue of instructions limits Padded, at 70%",  # it is no faster: no cause
        "why Padded, which leaves almost nothing of the bank conflicts, gains nothing",
    ):
        assert part in said
    unknown = replace(found, runs=found.runs.assign(device_name="Abacus"))
    assert "limit" not in {each.name for each in ladder_story(unknown)}


def test_compiling_is_advised_where_it_makes_the_fastest(training: Dataset) -> None:
    """What an attention compiles when it is eager is no cost of compiling the model."""
    on = [key[1:3] == ("compile=true", "iteration_time") for key in training.values.index]
    values = training.values.mask(on, training.values / 2)
    values["attention", "compile=false", "compile_time", "Flash2", 1337] = 3.89
    halved = replace(training, values=values.sort_index())
    unsure = english(judged(halved, "undecided", **COMPILED))
    assert "Use a fused attention: with Flash2, compiled, an iteration" in unsure["answer"]
    assert "Change the attention, for time" in unsure["conclusion"]
    said = english(judged(halved, "faster", **COMPILED))
    assert "Use a fused attention and compile it: with Flash2 an iteration" in said["answer"]
    assert "Compiling takes 7.8 s, once, and is made up for after some 50 it" in said["answer"]
    assert "; then compile, for the host's time" in said["conclusion"]


@pytest.mark.parametrize(("factor", "waits"), [(2.0, True), (2.2, False)])
def test_the_host_waits_up_to_80_percent(training: Dataset, factor: float, waits: bool) -> None:
    """Flash2 keeps the GPU busy for so many times 40% of an iteration."""
    keys = [key[2:4] == ("gpu_busy_time", "Flash2") for key in training.values.index]
    busy = replace(training, values=training.values.mask(keys, factor * training.values))
    assert ("the host sets the pace" in english(busy)["attention"]) == waits
