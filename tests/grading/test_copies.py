"""What a class shows: copies, of whom each one is told, and what is far from it; nobody else."""

from __future__ import annotations

import copy
import inspect
import random
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import H200, LONG, PASSES, Handed, digits, graded, noise, rescaled

from flashlab.lab5.words import MEMORY
from flashlab_grading import copies, submissions

CLASS = 6


def clocked(own: Any, step: float = 1e-3) -> None:
    """Means of 30 calls by a clock of this step."""
    chance = random.Random(1)
    for name in own.documents:
        for passed in PASSES:
            total = 30 * own.document(name)[passed]["time(s)"]
            ticks = max(1, int(total / step + chance.random()))
            own.rescale(name, ticks * step / total, [passed])


def with_decoys(own: Any) -> Any:
    """Own measurements before the copied ones."""
    for name, document in own.again(99).documents.items():
        own.documents[f"z-{name}"] = own.documents[name]
        own.rows[f"z-{name}"] = [f"z-{name}", *own.rows[name][1:]]
        own.documents[name] = document
    return own


def undeclared(own: Any) -> Any:
    """Another memory, and nothing that says which runs they are."""
    for document in own.documents.values():
        document[MEMORY] += 1
    own.say_nothing()
    return own


# Submissions beside those of a class, which is a list: the sound one, then s1, s2, …
def of_one(change: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A copy of a classmate's, changed."""
    return lambda own: [change(copy.deepcopy(own[1]))]


def far(*texts: str, **how: Any) -> Callable[[list[Any]], Any]:
    """One's own measurements, of which some take so many times as long."""
    return lambda own: [rescaled(*texts, **how)(own[0].again(99))]


def files_of(places: Iterable[int], which: slice, own: list[Any]) -> list[Any]:
    """One's own measurements, of which some files are those of others in turn."""
    eve, others = own[0].again(99), [own[place] for place in places]
    for i, name in enumerate(sorted(eve.documents, key=lambda name: LONG not in name)[which]):
        eve.documents[name] = others[i % len(others)].documents[name]
    return [eve]


def mean_of(places: tuple[int, ...], original: int, own: list[Any]) -> list[Any]:
    eve = own[0].again(99)
    for name in list(eve.documents)[original:]:
        sources = (own[place].documents[name] for place in places)
        eve.derive(name, lambda *seconds: statistics.fmean(seconds), *sources)
    return [eve]


def with_samples(own: list[Any]) -> list[Any]:
    """Records, of which one has another's samples."""
    eve = own[0].again(99)
    eve.add_records(lambda i: noise(1000 + i))
    eve.documents[own[0].file(LONG)] = own[1].document(LONG)
    return [eve]


def machines(
    count: int, scatter: float, own: list[Any], kind: Callable[[Any], Any] = copy.copy
) -> list[Any]:
    """Submissions of a kind that differ by a scatter alone."""
    again = partial(random.Random(100).lognormvariate, 0, scatter)
    return [kind(own[0]).measured(again) for _ in range(count)]


def of_another_gpu(factor: Callable[[str], float], own: Any) -> Any:
    """It takes so many times as long, by the name of the file."""
    other = copy.deepcopy(own)
    other.name_device("NVIDIA H100 80GB HBM3")
    for name in other.documents:
        other.rescale(name, factor(name))
    return other


OF_ITS_OWN = partial(of_another_gpu, lambda name: random.Random(name).lognormvariate(0.3, 0.1))
SLOWER_IN_ONE = partial(of_another_gpu, lambda name: 3.0 if "pytorch" in name else 1.1)


def told(code: str, *others: str) -> dict[str, set[str]]:
    """What eve is told of others; these fail or are warned as she is."""
    return {"eve": {f"{code} {other}" for other in others}} | {
        other: {f"{code} eve"} for other in others
    }


DAILY = {"four digits": pytest.mark.scheduled}  # 8 s; three digits take the same way
FOUR, TWO = [f"s{place}" for place in (2, 3, 4, 5)], ("eve", "eve1")
SAME = told("fail copies.same", "s1")
OF_FILES, FAR = told("fail copies.file", "s1"), {"eve": {"warn plausibility.class"}}
ROUNDED, CLOCK = {"not_checked copies.rounded"}, {"not_checked copies.clock"}
Eve = Callable[[list[Any]], Any]
CASES: dict[str, tuple[int, Eve, dict[str, set[str]], *tuple[Any, ...]]] = {
    "scaled": (1, of_one(lambda own: own.jittered(0, 1.03)), told("fail copies.computed", "s1")),
    "0.01%": (2, of_one(lambda own: own.jittered(1e-4)), SAME),
    "four digits": (2, of_one(digits(4)), SAME),
    "three digits": (2, of_one(digits(3)), told("warn copies.likely", "s1")),
    # Nothing that is declared hides equal times.
    "decoys": (2, of_one(with_decoys), OF_FILES),
    "labels": (2, of_one(Handed.exchange_labels), OF_FILES),
    "undeclared": (2, of_one(undeclared), OF_FILES),
    # Of a few files in common, it is unknown who copied them.
    "files of four": (
        CLASS, partial(files_of, (2, 3, 4, 5), slice(None)),
        {"eve": {f"fail copies.same {name}" for name in FOUR}}
        | {name: {"warn copies.part eve"} for name in FOUR},
    ),
    "every 9th, and a copy": (
        1, lambda own: 2 * files_of((1,), slice(None, None, 9), own),
        {"s1": {f"warn copies.part {name}" for name in TWO}}
        | {x: {f"fail copies.same {y}", "warn copies.part s1"} for x, y in (TWO, TWO[::-1])},
    ),
    "one file": (1, partial(files_of, (1,), slice(1)), told("warn copies.file", "s1")),
    "samples": (1, with_samples, told("fail copies.samples", "s1"), Handed.add_records),
    # Also where four files are original; those of whom they are means are not accused.
    "means of 2": (CLASS, partial(mean_of, (3, 5), 4), {"eve": {"fail copies.average s3, s5"}}),
    "of 3": (CLASS, partial(mean_of, (2, 3, 5), 0), {"eve": {"fail copies.average s2, s3, s5"}}),
    # Times that tell nothing accuse nobody, not even who copied them.
    "two digits": (1, of_one(copy.copy), {x: ROUNDED for x in ("s1", "eve")}, digits(2)),
    "a clock of 1 ms": (1, of_one(copy.copy), {x: CLOCK for x in ("s1", "eve")}, clocked),
    # Machines that agree closely are accused of nothing, nor a GPU that few have.
    "locked clocks": (0, partial(machines, 14, 1e-4), {}),
    "two quiet machines": (0, partial(machines, 2, 5e-4), {}),
    "two in a noisy class": (CLASS, partial(machines, 2, 5e-4), {}),
    "other software": (CLASS, partial(machines, 3, 5e-4, kind=lambda own: own.again(500)), {}),
    "two of an uncommon GPU": (CLASS, partial(machines, 2, 5e-4, kind=OF_ITS_OWN), {}),
    "other GPUs are no measure": (CLASS, partial(machines, 2, 0.01, kind=SLOWER_IN_ONE), {}),
    # What is far from the class is a warning.
    "a slow end": (CLASS, far("pytorch-b32-n1024-h32-e2048-full", by=4), FAR),
    "a fast run": (CLASS, far(LONG, by=1 / 2.2), FAR),
    "all of it": (CLASS, far(by=2.5), {"eve": {"warn plausibility.level"}}),
    "a slow pass": (CLASS, far(LONG, by=3, names=["forward"]), {}),  # as another process makes it
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(c, marks=DAILY.get(c, ())) for c in CASES])
def test_those_are_told_whom_it_concerns(case: str, sound: Any, tmp_path: Path) -> None:
    """In a class of independent submissions s1, s2, …, and eve's, or several."""
    count, eve, expected, *alter = CASES[case]
    own = [sound, *map(sound.again, range(1, count + 1))]
    for change, submission in product(alter, own):
        change(submission)
    handed = {f"s{i}": each for i, each in enumerate(own) if i}
    for name, each in (handed | {f"eve{i or ''}": x for i, x in enumerate(eve(own))}).items():
        each.write(tmp_path / name)
    found: dict[str, set[str]] = {}
    for one in graded(tmp_path).lines("fail", "warn", "not_checked"):
        who = one.params.get("other") or one.params.get("others", "").replace("\0", ", ")
        if one.check == "copies" or one.verdict == "warn":
            found.setdefault(one.submission, set()).add(f"{one.verdict} {one.code} {who}".rstrip())
    assert found == expected


def test_what_is_published_is_a_source(sound: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """What was frozen here is one as well, but not of those whom it may be of."""
    published = submissions.published_times("*")
    datasets = {f"data/{name} ({by})" for name in ("h100", "h200") for by in ("lab5", "sampled")}
    assert {*published["owner"]} >= {*datasets, "the course's slides"}
    sound.jittered(1e-5).write(tmp_path / "eve")
    slide = H200.with_name("published").joinpath("slide.json").read_text()
    sound.again(1).write(tmp_path / "ann").joinpath("mine.json").write_text(slide + "\n")
    lines = [x for x in graded(tmp_path, None, published).alarms() if x.check == "copies"]
    found = {(x.submission, x.verdict, x.params["other"]) for x in lines}
    assert found == {("eve", "fail", "data/h200 (lab5)"), ("ann", "warn", "the course's slides")}
    tmp_path.joinpath("data").mkdir()
    tmp_path.joinpath("data", "mine").symlink_to(H200)
    monkeypatch.setattr(copies, "ROOT", tmp_path)
    ours, every = (inspect.unwrap(copies.recorded)(each) for each in (copies.OURS, "*"))
    assert [name for name, *_ in ours] == ["the course's slides"] and len(every) > len(ours)


def test_disturbed_times_of_honest_submissions_fail_nothing(sound: Any, tmp_path: Path) -> None:
    """One time in fifty takes three times as long."""
    for seed in range(CLASS):
        factors = random.Random(7 + seed).choices((3.0, 1.0), (0.02, 0.98), k=100)
        sound.again(seed).measured(iter(factors).__next__).write(tmp_path / f"s{seed}")
    found = graded(tmp_path)
    assert found.lines("fail") == []
    assert {line.check for line in found.lines("warn")} == {"plausibility"}


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
