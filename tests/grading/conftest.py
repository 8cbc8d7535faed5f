"""Submissions made of the recorded H200's runs by the course's protocol, to be altered."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from planted.course import row_of, write_rows

from flashlab.benchmarks.attention.shape import Shape
from flashlab.plan.datasets import read_dataset
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading import selfcheck, sheets
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import Grades, check_alone, grade_checked
from flashlab_grading.model import Line, Result
from flashlab_grading.recorded import recorded_results
from flashlab_grading.submissions import read_submission

H200 = Path(__file__).parents[2] / "data" / "h200"
DEVICE = "NVIDIA H200"
FLASH, NAIVE = (f"{name}-b16-n512-h32-e2048-full" for name in ("flash2", "pytorch"))
LONG = "pytorch-b32-n512-h32-e2048-causal"
MEMORY = "peak_memory_usage(MB)"
OWN_CHECKS = ("form", "arithmetic", "identity", "physics", "plausibility", "coverage")
Document = dict[str, Any]


@cache
def _course_results() -> dict[str, tuple[Run, str]]:
    found = {}
    for entry in read_dataset(H200).entries:
        if entry.protocol["name"] == "lab5":
            record = read_record(entry.path, entry.run)
            four = record.top_level_keys()
            found[f"{entry.run.slug}.json"] = entry.run, json.dumps(four)
    return found


@dataclass
class Handed:
    """A submission that is to be written: documents by file name, and the rows of runs.csv.

    `rows` is None for a submission without a runs.csv.
    """

    folder: Path
    """That of the class which it alone is."""
    runs: dict[str, Run]
    documents: dict[str, Document]
    rows: dict[str, list[str]] | None = field(default_factory=dict)

    def file(self, text: str) -> str:
        """The only file whose name has `text` in it, such as flash2-b16-n512-h32-e2048-full."""
        (name,) = (name for name in self.documents if text in name)
        return name

    def document(self, text: str) -> Document:
        return self.documents[self.file(text)]

    def rescale(
        self, text: str, factor: float, names: Iterable[str] = ("forward", "backward")
    ) -> None:
        """Make passes take `factor` times as long, and let everything follow from that."""
        document = self.document(text)
        for name in names:
            document[name]["time(s)"] *= factor
            document[name]["FLOPS(TFLOPs/s)"] /= factor
        both = document["forward_backward"]
        flops = both["time(s)"] * both["FLOPS(TFLOPs/s)"]
        both["time(s)"] = document["forward"]["time(s)"] + document["backward"]["time(s)"]
        both["FLOPS(TFLOPs/s)"] = flops / both["time(s)"]

    def measured(self, seed: int, factor: Callable[[random.Random], float]) -> Handed:
        """A copy in which each time of a pass takes a factor of its own."""
        chance, again = random.Random(seed), copy.deepcopy(self)
        for name in again.documents:
            for passed in ("forward", "backward"):
                again.rescale(name, factor(chance), [passed])
        return again

    def exchange_labels(self) -> None:
        for row in (self.rows or {}).values():
            row[1] = {"Pytorch": "Flash2", "Flash2": "Pytorch"}[row[1]]

    def name_device(self, name: str) -> None:
        for row in (self.rows or {}).values():
            row[-1] = name

    def without_names(self) -> None:
        """Files whose names say nothing, as declared as they were."""
        new = {name: f"{i:02}.json" for i, name in enumerate(self.documents)}
        self.documents = {new[name]: document for name, document in self.documents.items()}
        self.runs = {new[name]: run for name, run in self.runs.items()}
        self.rows = {new[k]: [new[k], *row[1:]] for k, row in (self.rows or {}).items()}

    def record(self, name: str, **more: Any) -> Document:
        """What a record of a file's run claims, without samples; `more` takes keys' places."""
        return {
            "version": 2,
            "status": "ok",
            "protocol": {"name": "lab5"},
            "started": "2026-11-20T16:45:24+00:00",
            "run": self.runs[name].to_json(),
            "metrics": {f"{passed}_time": {"samples": []} for passed in ("forward", "backward")},
            "environment": {"device_name": DEVICE, "provider": "flash-attn 2.8.3"},
            **more,
        }

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        for name, document in self.documents.items():
            folder.joinpath(name).write_text(json.dumps(document), encoding="utf-8")
        if self.rows is not None:
            write_rows(folder, [*self.rows.values()])
        return folder

    def graded(self, name: str = "ann") -> Graded:
        """What grading finds in a class of this submission alone."""
        self.write(self.folder / name)
        return graded(self.folder)


_published = cache(recorded_results)


@pytest.fixture(autouse=True, scope="module")
def _read_once() -> Iterator[None]:
    """What is published is read once: it stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (selfcheck, sheets):
            patch.setattr(module, "recorded_results", _published)
        yield


@pytest.fixture
def published() -> dict[str, list[Result]]:
    """What is published."""
    return _published()


@pytest.fixture
def sound(tmp_path: Path) -> Handed:
    """The lab's 36 runs of an H200, declared."""
    results = _course_results()
    runs = {name: run for name, (run, _) in results.items()}
    documents = {name: json.loads(text) for name, (_, text) in results.items()}
    rows = {
        name: row_of(name, run.implementation, Shape.of(run), DEVICE) for name, run in runs.items()
    }
    return Handed(tmp_path, runs, documents, rows)


def measured_again(own: Handed, seed: int) -> Handed:
    """The same runs as another measurement has them: 1% of scatter, 5% between the submissions."""
    level = random.Random(seed).uniform(1.0, 1.05)
    return own.measured(seed, lambda chance: level * chance.lognormvariate(0, 0.01))


def write_class(folder: Path, own: Handed, count: int) -> list[Handed]:
    """Independent submissions s00, s01, …; they are returned too."""
    submissions = [measured_again(own, seed) for seed in range(count)]
    for seed, submission in enumerate(submissions):
        submission.write(folder / f"s{seed:02}")
    return submissions


def grade_folder(folder: Path, device: str | None = None, **published: list[Result]) -> Grades:
    """The grades of a folder of submissions, those that name no device as of this one."""
    names = find_submissions(str(folder))[0]
    checked = [check_alone(read_submission(str(folder), name, device)) for name in names]
    return grade_checked(checked, (), "", published)


@dataclass(frozen=True)
class Graded:
    """What grading found, for tests to look into."""

    grades: Grades

    def lines(self, verdict: str, submission: str | None = None) -> list[Line]:
        return [
            line
            for line in self.grades.lines
            if line.verdict == verdict and submission in (None, line.submission)
        ]

    def fails(self, submission: str | None = None) -> dict[tuple[str, str], str]:
        """Message codes of what failed, by check and file."""
        return {(line.check, line.file): line.code for line in self.lines("fail", submission)}

    def alarms(self) -> list[Line]:
        return self.lines("fail") + self.lines("warn")

    def of(self, submission: str) -> Mapping[str, str]:
        """The verdict of each check of a submission."""
        (found,) = (s for s in self.grades.summaries if s.submission == submission)
        return found.verdicts

    def badges(self, submission: str) -> tuple[str, ...]:
        (found,) = (s for s in self.grades.summaries if s.submission == submission)
        return found.badges


def graded(folder: Path, device: str | None = None) -> Graded:
    """What grading finds in a folder of submissions (`grade_folder`)."""
    return Graded(grade_folder(folder, device))
