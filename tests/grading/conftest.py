"""Submissions made of the recorded H200's runs by the course's protocol, to be altered."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd
import pytest
from planted.classes import PASSES, Handed, lab

from flashlab.lab5.assigning import Line
from flashlab_grading import submissions
from flashlab_grading.checks import CHECKS, Submission
from flashlab_grading.copies import published_times, times_of
from flashlab_grading.submissions import check_submission, find_submissions, grade_checked

FLASH, NAIVE = (f"{name}-b16-n512-h32-e2048-full" for name in ("flash2", "pytorch"))
CAUSAL, LONG = "flash2-b16-n512-h32-e2048-causal", "pytorch-b32-n512-h32-e2048-causal"
Change = Callable[[Any], None]
P = ParamSpec("P")


@dataclass
class Sound(Handed):
    """A submission, and the folder of the class which it alone is."""

    folder: Path

    def graded(self) -> Graded:
        """What grading finds in a class of this submission alone."""
        self.write(self.folder / "ann")
        return graded(self.folder)


_published = cache(published_times)


@pytest.fixture(autouse=True, scope="module")
def _read_once() -> Iterator[None]:
    """What is published is read once: it stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submissions, "published_times", _published)
        yield


@pytest.fixture
def published() -> pd.DataFrame:
    """What is published."""
    return _published()


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    """The lab's 36 runs of an H200, declared."""
    return Sound(**vars(lab()), folder=tmp_path)


Submitted = TypeVar("Submitted", bound=Handed)


def measured_again(own: Submitted, seed: int) -> Submitted:
    """The same runs as another measurement has them: 1% of scatter, 5% between the submissions."""
    chance = random.Random(seed)
    level = random.Random(seed).uniform(1.0, 1.05)
    return own.measured(lambda: level * chance.lognormvariate(0, 0.01))


def write_class(
    folder: Path,
    own: Submitted,
    count: int,
    alter: Callable[[Submitted, int], object] | None = None,
) -> list[Submitted]:
    """Independent submissions s00, s01, …, each as `alter` changes it; they are returned too."""
    classmates = [measured_again(own, seed) for seed in range(count)]
    for seed, submission in enumerate(classmates):
        if alter:
            alter(submission, seed)
        submission.write(folder / f"s{seed:02}")
    return classmates


@dataclass(frozen=True)
class Graded:
    """What grading found, for tests to look into."""

    submissions: list[Submission]

    @property
    def all_lines(self) -> list[Line]:
        return [line for own in self.submissions for line in own.lines]

    def lines(self, *verdicts: str) -> list[Line]:
        return [line for line in self.all_lines if line.verdict in verdicts]

    def fails(self) -> dict[tuple[str, str], str]:
        """Message codes of what failed, by check and file."""
        return {(line.check, line.file): line.code for line in self.lines("fail")}

    def alarms(self) -> list[Line]:
        return self.lines("fail", "warn")

    def of(self, submission: str) -> Mapping[str, str]:
        """The verdict of each check of a submission."""
        (own,) = (each for each in self.submissions if each.name == submission)
        return {check: own.verdict(check) for check in CHECKS}


def graded(
    folder: Path, device: str | None = None, published: pd.DataFrame | None = None
) -> Graded:
    """What grading finds in a folder of submissions, of this device where they name none."""
    names = find_submissions(str(folder))[0]
    checked = [check_submission(str(folder), name, device) for name in names]
    nothing = times_of(()).assign(owner="")
    return Graded(grade_checked(checked, nothing if published is None else published))


# Changes


def later(change: Callable[Concatenate[Any, P], None]) -> Callable[P, Change]:
    """A function that changes a submission, as one of the other arguments that gives a `Change`."""
    return lambda *args, **kwargs: lambda own: change(own, *args, **kwargs)


@later
def rescaled(own: Any, *texts: str, by: float, **which: Any) -> None:
    """Runs (all if none is named) that took so many times as long, and all that follows."""
    for text in texts or own.documents:
        own.rescale(text, by, **which)


def sampled(document: Any, passed: str, factors: Sequence[float]) -> None:
    """Samples of a pass in its record: its time times these factors, and their median."""
    samples = [1e3 * document[passed]["time(s)"] * factor for factor in factors]
    measured = {"samples": samples, "value": statistics.median(samples)} if samples else {}
    document["record"]["metrics"][f"{passed}_time"] |= measured


def noise(seed: int, count: int = 21, spread: float = 0.01) -> list[float]:
    """Factors whose median is 1."""
    chance = random.Random(seed)
    return [1.0, *(1 + s * chance.uniform(0, spread) for s in (1, -1) * (count // 2))]


@later
def records(own: Any, make: Callable[[int], list[float]] = noise) -> None:
    """A record in each file, with samples in both passes."""
    for i, (name, document) in enumerate(own.documents.items()):
        document["record"] = own.record(name, protocol={"name": "sampled"})
        for j, passed in enumerate(PASSES):
            sampled(document, passed, make(2 * i + j))
