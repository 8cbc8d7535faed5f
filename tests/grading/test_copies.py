"""Copies are found, and independent measurements are not accused."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.cheats import CAUSAL, noise, records
from grading.conftest import LONG, Graded, grade_folder, graded, measured_again, write_class
from planted.classes import H200, MEMORY, PASSES

from flashlab.lab5.results import Result
from flashlab_grading.copies import clock_step

CLASS = 14


def copies(found: Any) -> dict[str, set[str]]:
    """Who is told of whom, with the verdict."""
    told: dict[str, set[str]] = {}
    for line in found.alarms():
        if line.check == "copies" and "other" in line.params:
            told.setdefault(line.submission, set()).add(f"{line.verdict} {line.params['other']}")
    return told


def rounded(own: Any, digits: int) -> Any:
    """All numbers as somebody has written them."""
    for document in own.documents.values():
        for name in (*PASSES, "forward_backward"):
            own_numbers = document[name].items()
            document[name] = {key: float(f"{x:.{digits}g}") for key, x in own_numbers}
    return own


COPIES: dict[str, tuple[int, Callable[[Any], Any], str]] = {
    "0.003%": (1, lambda own: own.jittered(3e-5, random.Random(1)), "fail copies.same"),
    "scaled": (1, lambda own: own.jittered(0, random.Random(1), 1.03), "fail copies.computed"),
    "0.01%": (CLASS, lambda own: own.jittered(1e-4, random.Random(1)), "fail copies.same"),
    "both": (CLASS, lambda own: own.jittered(1e-4, random.Random(1), 0.97), "fail copies.computed"),
    "five digits": (CLASS, lambda own: rounded(own, 5), "fail copies.same"),
    "four digits": (CLASS, lambda own: rounded(own, 4), "fail copies.same"),
    "three digits": (CLASS, lambda own: rounded(own, 3), "warn copies.likely"),
}


@pytest.mark.parametrize("copied", COPIES)
def test_a_changed_scaled_or_rounded_copy_is_found(copied: str, sound: Any, tmp_path: Path) -> None:
    others, change, expected = COPIES[copied]
    taken, of = write_class(tmp_path, sound, others)[others // 3], f"s{others // 3:02}"
    change(copy.deepcopy(taken)).write(tmp_path / "eve")
    found, verdict = graded(tmp_path), expected.partition(" ")[0]
    assert copies(found) == {"eve": {f"{verdict} {of}"}, of: {f"{verdict} eve"}}
    lines = [line for line in found.all_lines if line.check == "copies"]
    assert {f"{x.verdict} {x.code}" for x in lines if x.submission == "eve"} == {expected}


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


def test_who_hands_in_files_of_four_fails_and_the_four_do_not(sound: Any, tmp_path: Path) -> None:
    """Of a few files in common, it is unknown who copied them."""
    own = write_class(tmp_path, sound, CLASS)
    eve = measured_again(sound, 99)
    for i, name in enumerate(eve.documents):
        eve.documents[name] = own[2 + i % 4].documents[name]
    eve.write(tmp_path / "eve")
    found, four = graded(tmp_path), [f"s{place:02}" for place in (2, 3, 4, 5)]
    expected = {"eve": {f"fail {name}" for name in four}}
    assert copies(found) == expected | {name: {"warn eve"} for name in four}
    assert {x.code for x in found.alarms() if x.submission in four} == {"copies.part"}


@pytest.mark.parametrize(
    ("files", "code"), [(slice(None, None, 9), "copies.part"), (slice(1), "copies.file")]
)
def test_a_few_equal_files_are_asked_about(
    files: slice, code: str, sound: Any, tmp_path: Path
) -> None:
    sound.write(tmp_path / "ann")
    other = measured_again(sound, 3)
    for name in sorted([*sound.documents], key=lambda name: LONG not in name)[files]:
        other.documents[name] = sound.documents[name]
    found = other.graded("ben")
    assert found.fails() == {} and {line.code for line in found.lines("warn")} == {code}


@pytest.mark.parametrize(("places", "original"), [((3, 5), 0), ((3, 5), 4), ((2, 3, 5), 0)])
def test_plain_means_of_others_are_found(
    places: tuple[int, ...], original: int, sound: Any, tmp_path: Path
) -> None:
    """Also where some files are original; those of whom they are means are not accused."""
    own = write_class(tmp_path, sound, CLASS)
    eve = measured_again(sound, 99)
    for name in list(eve.documents)[original:]:
        sources = (own[place].documents[name] for place in places)
        eve.derive(name, lambda *seconds: statistics.fmean(seconds), *sources)
    eve.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert found.fails() == {("copies", ""): "copies.average"}
    (line,) = found.lines("fail")
    assert line.submission == "eve"
    assert {*line.params["others"].split("\0")} == {f"s{place:02}" for place in places}


def test_what_is_published_is_a_source(sound: Any, published: Any, tmp_path: Path) -> None:
    write_class(tmp_path, sound, 8)
    datasets = {f"data/{name} ({by})" for name in ("h100", "h200") for by in ("lab5", "sampled")}
    assert {*published["owner"]} >= {*datasets, "the course's slides"}
    sound.jittered(1e-5, random.Random(5)).write(tmp_path / "eve")
    slide = H200.with_name("published").joinpath("slide.json").read_text()
    tmp_path.joinpath("s07", "mine.json").write_text(slide + "\n")
    found = Graded(grade_folder(tmp_path, None, published))
    told = {
        (line.submission, line.verdict, line.params["other"])
        for line in found.all_lines
        if line.check == "copies" and "other" in line.params
    }
    of_slide = ("s07", "warn", "the course's slides")
    assert told == {("eve", "fail", "data/h200 (lab5)"), of_slide}


def test_equal_samples_are_a_copy_even_if_the_times_repeat(sound: Any, tmp_path: Path) -> None:
    other = measured_again(sound, 3)
    for own in (sound, other):
        records(noise if own is sound else lambda i: noise(1000 + i))(own)
    name = sound.file(CAUSAL)
    other.documents[name] = sound.documents[name]
    sound.write(tmp_path / "ann")
    other.write(tmp_path / "eve")
    assert {*graded(tmp_path).fails().values()} == {"copies.samples"}


# Independent measurements


def test_times_of_two_digits_are_not_compared(sound: Any, tmp_path: Path) -> None:
    rounded(sound, 2).write(tmp_path / "ann")
    sound.write(tmp_path / "ben")
    found = graded(tmp_path)
    assert copies(found) == {}
    assert "copies.rounded" in {line.code for line in found.lines("not_checked")}


def clocked(own: Any, step: float, chance: random.Random) -> Any:
    """Means of 30 calls by a clock of this step, of all runs 20 times as slow."""
    for name in own.documents:
        for passed in PASSES:
            total = 30 * own.seconds(name, passed)
            ticks = max(1, int(total / step + chance.random()))
            own.rescale(name, ticks * step / total, [passed])
    return own


@pytest.mark.parametrize("step", [1e-3, 4e-3, 10e-3, 15.6e-3, 1 / 64])
def test_multiples_of_a_coarse_clocks_step_accuse_nobody(
    step: float, sound: Any, tmp_path: Path
) -> None:
    """Nor is one who copied them found."""
    for seed in range(5):
        own = clocked(measured_again(sound, seed), step, random.Random(seed))
        own.write(tmp_path / f"s{seed}")
    own.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert found.fails() == {}
    assert {line.code for line in found.all_lines if line.check == "copies"} == {"copies.clock"}


def test_a_clocks_step_is_that_of_all_times() -> None:
    def step_of(*seconds: float) -> float:
        pairs = zip(seconds[::2], seconds[1::2], strict=True)
        both = [dict(zip(PASSES, pair, strict=True)) for pair in pairs]
        return clock_step(Result("", "", "", {}, seconds=times) for times in both)

    ticks = [4, 9, 11, 30, 47, 2999]
    noise = [2e-7, 1e-7, -2e-7, 0, 1e-7, -1e-7]  # of a clock that is read as a double since 1970
    for step in (1e-3, 15.6e-3):
        totals = [n * step + e for n, e in zip(ticks, noise, strict=True)]
        assert step_of(*(total / 30 for total in totals)) == pytest.approx(step / 30, rel=1e-3)
    assert step_of(*(n * 1e-4 / 30 for n in ticks)) == 0  # finer
    assert step_of(*(n * 1e-3 / 30 for n in (*ticks[:5], 48.5))) == 0
    assert step_of(4e-3 / 30, 9e-3 / 30) == step_of() == 0  # too few to tell
    assert step_of(*(100.0 + n for n in ticks)) == 0


def same(own: Any) -> Any:
    return own


def of_an_uncommon_gpu(own: Any) -> Any:
    """It has a pattern of its own, in which its owners agree."""
    chance, other = random.Random(5), copy.deepcopy(own)
    for name in other.documents:
        other.rescale(name, chance.lognormvariate(0.3, 0.1))
    other.name_device("NVIDIA H100 80GB HBM3")
    return other


QUIET: dict[str, tuple[int, int, float, Callable[[Any], Any]]] = {
    "locked clocks": (0, CLASS, 1e-4, same),
    "two quiet machines": (0, 2, 5e-4, same),
    "two in a noisy class": (CLASS, 2, 5e-4, same),
    "three with other software": (CLASS, 3, 5e-4, partial(measured_again, seed=500)),
    "two of an uncommon GPU": (CLASS, 2, 5e-4, of_an_uncommon_gpu),
}


@pytest.mark.parametrize("quiet", QUIET)
def test_machines_that_agree_closely_are_accused_of_nothing(
    quiet: str, sound: Any, tmp_path: Path
) -> None:
    others, count, scatter, kind = QUIET[quiet]
    write_class(tmp_path, sound, others)
    own = kind(sound)
    for seed in range(count):
        again = partial(random.Random(100 + seed).lognormvariate, 0, scatter)
        own.measured(again).write(tmp_path / f"u{seed}")
    found = graded(tmp_path)
    assert copies(found) == {}
    assert found.of("u0")["copies"] == "pass"
