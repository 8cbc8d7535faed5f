"""What is said of trainings: which attention, compiled or not, and who sets the pace."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from planted import training as planted
from story.breaking import altered, broken, judged, told
from story.planting import dataset_of_report

from flashlab.analysis.frames import Dataset
from flashlab.story.training import story


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Flash2 keeps the GPU busy for 40%; two are not compiled; one loss is off."""
    return dataset_of_report(planted.REPORT, tmp_path_factory.mktemp("training"))


def english(data: Dataset) -> dict[str, str]:
    return {place: of["en"] for place, of in told(story(data), "training").items()}


def measured(data: Dataset, metric: str, factor: float, name: str = "Flash2") -> Dataset:
    """The same with another value of a metric of an attention."""
    at = data.values.index
    mine = (at.get_level_values("metric") == metric) & (
        at.get_level_values("implementation") == name
    )
    assert mine.any()
    return replace(data, values=data.values.where(~mine, data.values * factor))


def test_what_to_use_and_what_it_costs(data: Dataset) -> None:
    said = english(data)
    assert said["answer"].startswith(
        "Use a fused attention: with Flash2 and SdpaEfficient an iteration runs at "
        "2.4–2.9 times the speed of Pytorch, eager, in 41% of its memory. The fastest of them is "
        "Flash2."
    )
    assert "gives less speed than eager Flash2, and takes 2.4 times its memory" in said["answer"]
    assert said["notice"].startswith("SdpaEfficient and SdpaMath have runs without numbers.")
    assert "Change the attention first, for time and for memory." in said["conclusion"]
    assert "The losses of SdpaEfficient do not follow that of Pytorch" in said["seeds"]


def test_the_long_chapter_has_four_sentences_at_most(data: Dataset) -> None:
    said = english(data)["attention"]
    assert said.count(". ") + 1 <= 4
    assert "busy to 14% of the naive one's, but then keeps it busy for only 40%" in said


def test_compiling_is_advised_where_it_makes_the_fastest(data: Dataset) -> None:
    """What an attention compiles when it is eager is no cost of compiling the model."""
    levels = {name: data.values.index.get_level_values(name) for name in ("variant", "metric")}
    on = (levels["variant"] == "compile=true") & (levels["metric"] == "iteration_time")
    values = data.values.where(~on, data.values / 2)
    values["attention", "compile=false", "compile_time", "Flash2", 1337] = 3.89
    said = english(replace(data, values=values.sort_index()))
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
    assert said in english(judged(data, verdict, **where))[place]


@pytest.mark.parametrize(("factor", "waits"), [(1.0, True), (2.0, True), (2.2, False)])
def test_the_host_sets_the_pace_up_to_80_percent(data: Dataset, factor: float, waits: bool) -> None:
    said = english(measured(data, "gpu_busy_time", factor))["attention"]
    assert ("the host sets the pace" in said) == waits


def test_nothing_breaks_a_sentence(data: Dataset) -> None:
    for seed in range(40):
        assert broken(told(story(altered(data, random.Random(seed))), "training")) == [], seed
