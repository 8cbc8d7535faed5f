"""Submissions made of the recorded H200's runs by the course's protocol, to be altered."""

from __future__ import annotations

import copy
import csv
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import PASSES, RUNS_CSV_COLUMNS
from flashlab.plan.datasets import read_dataset
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.grade import Grades, check_alone, grade_checked
from flashlab_grading.model import Line, Result
from flashlab_grading.submissions import find_submissions, read_submission

H200 = Path(__file__).parents[2] / "data" / "h200"
DEVICE = "NVIDIA H200"
KEYS = (*PASSES, "peak_memory_usage(MB)")
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


def row_of(file: str, run: Run, device: str = DEVICE) -> list[str]:
    """A row of runs.csv."""
    s = Shape.of(run)
    sizes = (s.batch_size, s.seq_len, s.num_heads, s.emb_dim)
    return [file, run.implementation, *map(str, sizes), str(s.causal).lower(), device]


@dataclass
class Handed:
    """A submission that is to be written: documents by file name, and the rows of runs.csv.

    `rows` is None for a submission without a runs.csv.
    """

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

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        for name, document in self.documents.items():
            folder.joinpath(name).write_text(json.dumps(document), encoding="utf-8")
        if self.rows is not None:
            with folder.joinpath("runs.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*RUNS_CSV_COLUMNS, "device"])
                writer.writerows(self.rows.values())
        return folder


@pytest.fixture
def sound() -> Handed:
    """The lab's 36 runs of an H200, declared."""
    results = _course_results()
    runs = {name: run for name, (run, _) in results.items()}
    documents = {name: json.loads(text) for name, (_, text) in results.items()}
    return Handed(runs, documents, {name: row_of(name, run) for name, run in runs.items()})


def measured_again(own: Handed, seed: int) -> Handed:
    """The same runs as another measurement has them: 1% of scatter, 5% between the submissions."""
    chance = random.Random(seed)
    again = copy.deepcopy(own)
    level = chance.uniform(1.0, 1.05)
    for name in again.documents:
        for passed in ("forward", "backward"):
            again.rescale(name, level * chance.lognormvariate(0, 0.01), [passed])
    return again


def grade_folder(folder: Path, device: str | None = None, **published: list[Result]) -> Grades:
    """The grades of a folder of submissions, those that name no device as of this one."""
    names = find_submissions(str(folder)).submissions
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


@pytest.fixture
def handed_in(tmp_path: Path) -> Callable[..., Graded]:
    """Grades a class of one submission."""

    def grade(own: Handed, name: str = "ann") -> Graded:
        own.write(tmp_path / name)
        return Graded(grade_folder(tmp_path))

    return grade
