"""What a class shows: copies, of whom each one is told, and what is far from it; nobody else."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import (
    CAUSAL,
    LONG,
    Change,
    graded,
    measured_again,
    noise,
    records,
    rescaled,
    write_class,
)
from planted.classes import H200, MEMORY, PASSES

CLASS = 14


def rounded(digits: int, own: Any, seed: int = 0) -> Any:
    """All numbers as somebody has written them."""
    for document in own.documents.values():
        for name in (*PASSES, "forward_backward"):
            own_numbers = document[name].items()
            document[name] = {key: float(f"{x:.{digits}g}") for key, x in own_numbers}
    return own


def jittered(by: float, level: float, own: Any) -> Any:
    return own.jittered(by, random.Random(1), level)


def clocked(step: float, own: Any, seed: int) -> Any:
    """Means of 30 calls by a clock of this step."""
    chance = random.Random(seed)
    for name in own.documents:
        for passed in PASSES:
            total = 30 * own.seconds(name, passed)
            ticks = max(1, int(total / step + chance.random()))
            own.rescale(name, ticks * step / total, [passed])
    return own


def with_decoys(own: Any) -> Any:
    """Own measurements before the copied ones."""
    for name in list(own.documents):
        own.documents[f"z-{name}"] = copy.deepcopy(own.documents[name])
        own.rows[f"z-{name}"] = [f"z-{name}", *own.rows[name][1:]]
        again = measured_again(own, 99).documents
        own.documents[name] = again[name]
    return own


def undeclared(own: Any) -> Any:
    """Another memory, and nothing that says which runs they are."""
    for document in own.documents.values():
        document[MEMORY] += 1
    own.without_names()
    own.rows = None
    return own


def files_of(places: Iterable[int], which: slice, own: list[Any]) -> Any:
    """One's own measurements, of which some files are those of others in turn."""
    eve, others = measured_again(own[0], 99), [own[place] for place in places]
    for i, name in enumerate(sorted(eve.documents, key=lambda name: LONG not in name)[which]):
        eve.documents[name] = others[i % len(others)].documents[name]
    return eve


def mean_of(places: tuple[int, ...], original: int, own: list[Any]) -> Any:
    eve = measured_again(own[0], 99)
    for name in list(eve.documents)[original:]:
        sources = (own[place].documents[name] for place in places)
        eve.derive(name, lambda *seconds: statistics.fmean(seconds), *sources)
    return eve


def of(place: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A copy of a classmate's, changed."""
    return lambda own: change(copy.deepcopy(own[place]))


def with_samples(own: list[Any]) -> Any:
    """Records, of which one has another's samples."""
    eve = measured_again(own[0], 99)
    records(lambda i: noise(1000 + i))(eve)
    eve.documents[own[0].file(CAUSAL)] = own[0].documents[own[0].file(CAUSAL)]
    return eve


def told(code: str, *others: str) -> dict[str, set[str]]:
    """What eve is told of others; these fail or are warned as she is."""
    return {"eve": {f"{code} {other}" for other in others}} | {
        other: {f"{code} eve"} for other in others
    }


FOUR = [f"s{place:02}" for place in (2, 3, 4, 5)]
MEANS = {"eve": {"fail copies.average s03, s05"}}
SAME, COMPUTED = "fail copies.same", "fail copies.computed"
ROUNDED, CLOCK = "not_checked copies.rounded ", "not_checked copies.clock "
Eve = Callable[[list[Any]], Any] | None
COPIES: dict[str, tuple[int, Eve, dict[str, set[str]], *tuple[Any, ...]]] = {
    "0.003%": (1, of(0, partial(jittered, 3e-5, 1)), told(SAME, "s00")),
    "scaled": (1, of(0, partial(jittered, 0, 1.03)), told(COMPUTED, "s00")),
    "0.01%": (CLASS, of(4, partial(jittered, 1e-4, 1)), told(SAME, "s04")),
    "four digits": (CLASS, of(4, partial(rounded, 4)), told(SAME, "s04")),
    "three digits": (CLASS, of(4, partial(rounded, 3)), told("warn copies.likely", "s04")),
    # Nothing that is declared hides equal times.
    "decoys": (8, of(3, with_decoys), told("fail copies.file", "s03")),
    "labels": (
        8, of(3, lambda own: (own.exchange_labels(), own)[1]), told("fail copies.file", "s03")
    ),
    "undeclared": (8, of(3, undeclared), told("fail copies.file", "s03")),
    # Of a few files in common, it is unknown who copied them.
    "files of four": (
        CLASS, partial(files_of, (2, 3, 4, 5), slice(None)),
        {"eve": {f"fail copies.same {name}" for name in FOUR}}
        | {name: {"warn copies.part eve"} for name in FOUR},
    ),
    "every ninth file": (
        1, partial(files_of, (0,), slice(None, None, 9)), told("warn copies.part", "s00")
    ),
    "one file": (1, partial(files_of, (0,), slice(1)), told("warn copies.file", "s00")),
    "samples": (
        1, with_samples, told("fail copies.samples", "s00"), lambda own, seed: records()(own)
    ),
    # Also where some files are original; those of whom they are means are not accused.
    "means of two": (CLASS, partial(mean_of, (3, 5), 0), MEANS),
    "and four files": (CLASS, partial(mean_of, (3, 5), 4), MEANS),
    "means of three": (
        CLASS, partial(mean_of, (2, 3, 5), 0), {"eve": {"fail copies.average s02, s03, s05"}}
    ),
    # Times that tell nothing accuse nobody, not even who copied them.
    "two digits": (2, None, {x: {ROUNDED} for x in ("s00", "s01")}, partial(rounded, 2)),
    **{
        f"a clock of {1000 * step:.4g} ms": (
            2, of(1, copy.copy), {x: {CLOCK} for x in ("s00", "s01", "eve")},
            partial(clocked, step),
        )
        for step in (1e-3, 15.6e-3)
    },
}  # fmt: skip


@pytest.mark.parametrize("copied", COPIES)
def test_of_copies_those_are_told_whom_they_concern(
    copied: str, sound: Any, tmp_path: Path
) -> None:
    count, eve, expected, *alter = COPIES[copied]
    classmates = write_class(tmp_path, sound, count, *alter)
    if eve:
        eve(classmates).write(tmp_path / "eve")
    found: dict[str, set[str]] = {}
    for line in (x for x in graded(tmp_path).all_lines if x.check == "copies"):
        who = line.params.get("other") or line.params.get("others", "").replace("\0", ", ")
        if line.verdict != "pass":
            found.setdefault(line.submission, set()).add(f"{line.verdict} {line.code} {who}")
    assert found == expected


def test_what_is_published_is_a_source(sound: Any, published: Any, tmp_path: Path) -> None:
    write_class(tmp_path, sound, 8)
    datasets = {f"data/{name} ({by})" for name in ("h100", "h200") for by in ("lab5", "sampled")}
    assert {*published["owner"]} >= {*datasets, "the course's slides"}
    sound.jittered(1e-5, random.Random(5)).write(tmp_path / "eve")
    slide = H200.with_name("published").joinpath("slide.json").read_text()
    tmp_path.joinpath("s07", "mine.json").write_text(slide + "\n")
    lines = [x for x in graded(tmp_path, None, published).alarms() if x.check == "copies"]
    of_slide = ("s07", "warn", "the course's slides")
    assert {(x.submission, x.verdict, x.params["other"]) for x in lines} == {
        ("eve", "fail", "data/h200 (lab5)"), of_slide
    }  # fmt: skip


def of_an_uncommon_gpu(own: Any) -> Any:
    """It has a pattern of its own, in which its owners agree."""
    chance, other = random.Random(5), copy.deepcopy(own)
    for name in other.documents:
        other.rescale(name, chance.lognormvariate(0.3, 0.1))
    other.name_device("NVIDIA H100 80GB HBM3")
    return other


QUIET: dict[str, tuple[int, int, float, Callable[[Any], Any]]] = {
    "locked clocks": (0, CLASS, 1e-4, copy.copy),
    "two quiet machines": (0, 2, 5e-4, copy.copy),
    "two in a noisy class": (CLASS, 2, 5e-4, copy.copy),
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
    assert {x.verdict for x in graded(tmp_path).all_lines if x.check == "copies"} == {"pass"}


# Honest measurements, and what is far from the class


def test_disturbed_times_of_honest_submissions_fail_nothing(sound: Any, tmp_path: Path) -> None:
    """One time in fifty takes three times as long."""
    for seed in range(12):
        factors = random.Random(7 + seed).choices((3.0, 1.0), (0.02, 0.98), k=100)
        own = measured_again(sound, seed).measured(iter(factors).__next__)
        own.write(tmp_path / f"s{seed:02}")
    found = graded(tmp_path)
    assert found.fails() == {} and {line.check for line in found.lines("warn")} == {"plausibility"}


def test_another_device_than_the_classs_is_not_taken_in_silence(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    found = graded(tmp_path, "NVIDIA GeForce RTX 3070")
    assert [line.code for line in found.alarms()] == ["form.other_device"]
    assert graded(tmp_path, "H200").alarms() == []


def test_a_whole_recorded_dataset_raises_no_alarm(tmp_path: Path) -> None:
    """Seven implementations, two protocols, runs out of memory: records with all their samples."""
    tmp_path.joinpath("ann").mkdir()
    for path in H200.joinpath("records").iterdir():  # not as it was shipped
        tmp_path.joinpath("ann", path.name).write_text(path.read_text() + "\n")
    found = graded(tmp_path)
    assert found.alarms() == []
    assert "form.not_measured" in {line.code for line in found.lines("pass")}


BATCHES = [f"pytorch-b{b}-n512-h32-e2048-causal" for b in (8, 16, 32, 64)]
AGAINST_THE_CLASS: dict[str, tuple[Change, str]] = {
    # With no neighbour above.
    "a slow end": (rescaled("pytorch-b32-n1024-h32-e2048-full", by=4), "plausibility.class"),
    "a fast run": (rescaled(LONG, by=1 / 2.2), "plausibility.class"),
    "a fast experiment": (rescaled(*BATCHES, by=0.5), "plausibility.class"),
    "milliseconds": (rescaled(by=1000), "plausibility.level"),
    "a slow pass": (rescaled(LONG, by=3, names=["forward"]), ""),  # as another process makes it
}


@pytest.mark.parametrize("altered", AGAINST_THE_CLASS)
def test_what_is_far_from_the_class_is_a_warning(altered: str, sound: Any, tmp_path: Path) -> None:
    change, code = AGAINST_THE_CLASS[altered]
    write_class(tmp_path, sound, 6, lambda own, seed: change(own) if seed == 3 else None)
    found = graded(tmp_path)
    assert found.fails() == {} and code in {"", *(line.code for line in found.lines("warn"))}
    assert {line.submission for line in found.lines("warn")} == ({"s03"} if code else set())


def test_other_gpus_in_the_class_are_no_measure(sound: Any, tmp_path: Path) -> None:
    """Six of one GPU and two of another, which is slower in one of the implementations."""

    def exchange(own: Any, seed: int) -> None:
        for name in own.documents if seed > 5 else ():
            own.rows[name][-1] = "NVIDIA H100 80GB HBM3"
            own.rescale(name, 3.0 if "pytorch" in name else 1.1)

    write_class(tmp_path, sound, 8, exchange)
    assert graded(tmp_path).alarms() == []
