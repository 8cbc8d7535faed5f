"""What is said of trainings: which attention, compiled or not, and who sets the pace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import training as planted
from story.breaking import assert_unbroken, english, judged

from flashlab.analysis.frames import Dataset
from flashlab.story.training import story


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Flash2 keeps the GPU busy for 40%; two are not compiled; one loss is off."""
    return planted.REPORT.dataset(tmp_path_factory.mktemp("training"))


def test_compiling_is_advised_where_it_makes_the_fastest(data: Dataset) -> None:
    """What an attention compiles when it is eager is no cost of compiling the model."""
    levels = {name: data.values.index.get_level_values(name) for name in ("variant", "metric")}
    on = (levels["variant"] == "compile=true") & (levels["metric"] == "iteration_time")
    values = data.values.where(~on, data.values / 2)
    values["attention", "compile=false", "compile_time", "Flash2", 1337] = 3.89
    said = english(story(replace(data, values=values.sort_index())), "training")
    assert "Use a fused attention and compile it: with Flash2 an iteration" in said["answer"]
    assert "Compiling takes 7.8 s, once, and is made up for after some 50 it" in said["answer"]
    assert "; then compile, for the host's time" in said["conclusion"]


@pytest.mark.parametrize(
    ("verdict", "where", "place", "said"),
    [
        ("undecided", {}, "answer", "No fused attention is shown to train faster than Pytorch."),
        ("equal", {"compared": "implementations"}, "attention", "are within 5% of it"),
        ("undecided", {"compared": "implementations"}, "attention", "no attention is shown"),
        ("slower", {"compared": "compile"}, "attention", "Pytorch and Flash2 become slower"),
        ("faster", {"compared": "compile"}, "attention", "Compiling makes Pytorch and Flash2"),
        ("undecided", {"compared": "compile"}, "attention", "Compiled, Flash2 leaves the pace"),
        ("undecided", {"compared": "compile"}, "notice", "are undecided; "),
    ],
)  # fmt: skip
def test_a_verdict_is_worded_as_what_it_is(
    data: Dataset, verdict: str, where: dict[str, str], place: str, said: str
) -> None:
    assert said in english(story(judged(data, verdict, **where)), "training")[place]


@pytest.mark.parametrize(("factor", "waits"), [(1.0, True), (2.0, True), (2.2, False)])
def test_the_host_sets_the_pace_up_to_80_percent(data: Dataset, factor: float, waits: bool) -> None:
    """Flash2 keeps the GPU busy for so many times 40% of an iteration."""
    keys = [k[2:4] == ("gpu_busy_time", "Flash2") for k in data.values.index]
    busy = replace(data, values=data.values.mask(keys, factor * data.values))
    assert ("the host sets the pace" in english(story(busy), "training")["attention"]) == waits


def test_every_sentence_is_whole_whatever_failed(data: Dataset) -> None:
    assert_unbroken(data, story, "training")
