"""Copies are found however they are disguised, and independent measurements are not accused."""

from __future__ import annotations

import copy
import json
import math
import random
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.cheats import CAUSAL, noise, records
from grading.conftest import grade_folder, graded, measured_again, write_class
from planted.classes import H200, MEMORY

from flashlab.benchmarks.attention import costs
from flashlab_grading.copies import LEAST_GROUP

CLASS = 14


def copies(found: Any) -> dict[str, set[str]]:
    """Who is told of whom, with the verdict."""
    told: dict[str, set[str]] = {}
    for line in found.grades.lines:
        if line.check == "copies" and line.verdict in ("fail", "warn") and "other" in line.params:
            told.setdefault(line.submission, set()).add(f"{line.verdict} {line.params['other']}")
    return told


@pytest.mark.parametrize(
    ("others", "jitter", "level", "code"),
    [
        (1, 3e-5, 1.0, "copies.same"),
        (1, 0.0, 1.03, "copies.computed"),
        (CLASS, 1e-4, 1.0, "copies.same"),
        (CLASS, 1e-4, 0.97, "copies.computed"),
        (CLASS, 1e-3, 1.0, "copies.likely"),
        (LEAST_GROUP - 2, 1e-3, 1.0, "copies.few"),  # too few of a device to tell
    ],
)
def test_a_jittered_or_scaled_copy_is_found(
    others: int, jitter: float, level: float, code: str, sound: Any, tmp_path: Path
) -> None:
    taken = write_class(tmp_path, sound, others)[others // 3]
    taken.jittered(jitter, random.Random(1), level).write(tmp_path / "eve")
    found, of, unclear = graded(tmp_path), f"s{others // 3:02}", code == "copies.few"
    verdict = "warn" if code == "copies.likely" else "fail"
    assert copies(found) == (
        {} if unclear else {"eve": {f"{verdict} {of}"}, of: {f"{verdict} eve"}}
    )
    lines = [line for line in found.grades.lines if line.check == "copies"]
    assert {line.code for line in lines if line.submission == "eve"} == {code}
    assert unclear == (found.of("eve")["copies"] == "not_checked")


LAWS: dict[str, Callable[[float], float]] = {
    "0.97 · t - 20 µs": lambda t: 0.97 * t - 20e-6,
    "1.05 · t^0.98": lambda t: 1.05 * t**0.98,
}


@pytest.mark.parametrize(("law", "original"), [*zip(LAWS, (0, 4), strict=True)])
def test_times_computed_from_anothers_are_found(
    law: str, original: int, sound: Any, tmp_path: Path
) -> None:
    """Also where some files are original."""
    taken = write_class(tmp_path, sound, CLASS)[3]
    eve = measured_again(sound, 99)
    for name in list(eve.documents)[original:]:
        eve.derive(name, LAWS[law], taken.documents[name])
    eve.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert copies(found) == {"eve": {"fail s03"}, "s03": {"fail eve"}}
    (line,) = found.lines("fail", "eve")
    assert (line.code, line.params["law"]) == ("copies.computed", law)


@pytest.mark.parametrize("altered", ["decoys", "device", "labels", "undeclared"])
def test_nothing_declared_hides_equal_times(altered: str, sound: Any, tmp_path: Path) -> None:
    taken = write_class(tmp_path, sound, 8)[3]
    eve = copy.deepcopy(taken)
    if altered == "decoys":  # own measurements before the copied ones
        eve = measured_again(sound, 99)
        for name in list(taken.documents):
            eve.documents[f"z-{name}"] = copy.deepcopy(taken.documents[name])
            eve.rows[f"z-{name}"] = [f"z-{name}", *taken.rows[name][1:]]
    else:
        for document in eve.documents.values():
            document[MEMORY] += 1
        eve.name_device("AMD EPYC (2 CPUs)")
    if altered == "labels":
        eve.exchange_labels()
    if altered == "undeclared":
        eve.without_names()
        eve.rows = None
    eve.write(tmp_path / "eve")
    assert copies(graded(tmp_path)) == {"eve": {"fail s03"}, "s03": {"fail eve"}}


MEANS: dict[str, tuple[Callable[..., float], tuple[int, ...]]] = {
    "weighted": (lambda a, b: 0.3 * a + 0.7 * b, (3, 5)),
    "of three": (lambda *seconds: statistics.fmean(seconds), (2, 3, 5)),
    "geometric": (lambda a, b: math.sqrt(a * b), (3, 5)),
}


@pytest.mark.parametrize(("mean", "original"), [*zip(MEANS, (0, 4, 0), strict=True)])
def test_means_of_others_are_found(mean: str, original: int, sound: Any, tmp_path: Path) -> None:
    """Also where some files are original, and where eve gave the mean away to be copied closely."""
    law, places = MEANS[mean]
    own = write_class(tmp_path, sound, CLASS)
    eve = measured_again(sound, 99)
    for name in list(eve.documents)[original:]:
        eve.derive(name, law, *(own[place].documents[name] for place in places))
    eve.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert found.fails() == {("copies", ""): "copies.average"}
    (line,) = found.lines("fail")
    others = {f"s{place:02}" for place in places}
    assert (line.submission, set(line.params["others"].split("\0"))) == ("eve", others)


def test_a_published_dataset_is_a_source(
    sound: Any, published: dict[str, Any], tmp_path: Path
) -> None:
    write_class(tmp_path / "class", sound, 8)
    datasets = {f"data/{name} ({by})" for name in ("h100", "h200") for by in ("lab5", "sampled")}
    assert published.keys() == {*datasets, "the course's slides"}
    sound.jittered(1e-5, random.Random(5)).write(tmp_path / "class" / "eve")
    found = grade_folder(tmp_path / "class", **published)
    told = {
        (line.submission, line.verdict, line.params["other"])
        for line in found.lines
        if line.check == "copies" and "other" in line.params
    }
    assert told == {("eve", "fail", "data/h200 (lab5)")}


def test_coarsely_rounded_times_are_not_checked_for_copies(sound: Any, tmp_path: Path) -> None:
    for document in sound.documents.values():
        for name in ("forward", "backward", "forward_backward"):
            document[name] = {key: float(f"{value:.3g}") for key, value in document[name].items()}
    sound.write(tmp_path / "ann")
    sound.write(tmp_path / "ben")
    found = graded(tmp_path)
    assert found.of("ann")["copies"] == "not_checked"
    assert "copies.rounded" in {line.code for line in found.lines("not_checked")}


# Independent measurements


def same(own: Any) -> Any:
    return own


def of_other_software(own: Any) -> Any:
    return measured_again(own, 500)


def of_an_uncommon_gpu(own: Any) -> Any:
    """It has a pattern of its own, in which its owners agree."""
    chance = random.Random(5)
    other = copy.deepcopy(own)
    for name in other.documents:
        other.rescale(name, chance.lognormvariate(0.3, 0.1))
    other.name_device("NVIDIA H100 80GB HBM3")
    return other


QUIET: dict[str, tuple[int, int, float, Callable[[Any], Any], bool]] = {
    "locked clocks": (0, CLASS, 1e-4, same, True),
    "two quiet machines": (0, 2, 5e-4, same, False),
    "two in a noisy class": (CLASS, 2, 5e-4, same, True),
    "three with other software": (CLASS, 3, 5e-4, of_other_software, True),
    "two of an uncommon GPU": (CLASS, 2, 5e-4, of_an_uncommon_gpu, False),
    "ten of an uncommon GPU": (CLASS, 10, 5e-4, of_an_uncommon_gpu, True),
}


@pytest.mark.parametrize("quiet", QUIET)
def test_machines_that_agree_closely_are_accused_of_nothing(
    quiet: str, sound: Any, tmp_path: Path
) -> None:
    others, count, scatter, kind, is_checked = QUIET[quiet]
    write_class(tmp_path, sound, others)
    own = kind(sound)
    for seed in range(count):
        again = partial(random.Random(100 + seed).lognormvariate, 0, scatter)
        own.measured(again).write(tmp_path / f"u{seed}")
    found = graded(tmp_path)
    assert copies(found) == {}
    assert found.of("u0")["copies"] == ("pass" if is_checked else "not_checked")


def test_the_result_of_the_courses_slides_is_a_source(
    sound: Any, published: dict[str, Any], tmp_path: Path
) -> None:
    own = measured_again(sound, 1)
    own.documents["mine.json"] = json.loads(
        H200.with_name("published").joinpath("slide.json").read_text()
    )
    own.rows["mine.json"] = ["mine.json", "Flash2", "32", "1024", "32", "2048", "false", ""]
    own.write(tmp_path / "eve")
    found = grade_folder(tmp_path, **published)
    (line,) = (line for line in found.lines if line.code == "copies.file")
    assert (line.file, line.params["other"]) == ("mine.json", "the course's slides")


def test_equal_samples_are_a_copy_even_if_the_times_repeat(sound: Any, tmp_path: Path) -> None:
    other = measured_again(sound, 3)
    for own in (sound, other):
        records(noise if own is sound else lambda i: noise(1000 + i))(own)
    name = sound.file(CAUSAL)
    other.documents[name] = sound.documents[name]
    sound.write(tmp_path / "ann")
    other.write(tmp_path / "eve")
    assert set(graded(tmp_path).fails().values()) == {"copies.samples"}


def test_a_cpus_results_do_not_have_a_gpus_memory(sound: Any, tmp_path: Path) -> None:
    sound.name_device("AMD EPYC (2 CPUs)")
    for name, run in sound.runs.items():
        sound.documents[name][MEMORY] = costs.MIB % 1000 + len(run.implementation)
    sound.write(tmp_path / "cpu" / "ann")
    assert graded(tmp_path / "cpu").alarms() == []
