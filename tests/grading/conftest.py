"""Submissions made of the recorded H200's runs by the course's protocol, altered and graded."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pytest
from planted.course import RUNS_CSV_COLUMNS, row_of, write, write_rows
from planted.records import record_of

from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.assigning import Line
from flashlab.lab5.results import result_of
from flashlab.lab5.words import RATE, TIME, said_in_cells
from flashlab.plan.datasets import read_dataset
from flashlab.runs import Run
from flashlab_grading import sheets, submissions
from flashlab_grading.checks import CHECKS, PASSES, Submission
from flashlab_grading.copies import published_times, times_of
from flashlab_grading.submissions import check_submission, find_submissions, grade_checked

H200 = Path(__file__).parents[2] / "data" / "h200"
DEVICE = "NVIDIA H200"
FLASH = "flash2-b16-n512-h32-e2048-full"
CAUSAL, LONG = "flash2-b16-n512-h32-e2048-causal", "pytorch-b32-n512-h32-e2048-causal"
Document = dict[str, Any]


def noise(seed: int) -> list[float]:
    """21 factors within 1% of 1, which is their median."""
    chance = random.Random(seed)
    return [1.0, *(1 + s * chance.uniform(0, 0.01) for s in (1, -1) * 10)]


@dataclass
class Handed:
    """A submission: the run and document of each file by its name, and the rows of runs.csv.

    `rows` is None for a submission without a runs.csv.
    """

    runs: dict[str, Run]
    documents: dict[str, Document]
    rows: dict[str, list[str]] | None

    def file(self, text: str) -> str:
        """The only file whose name has `text` in it, such as flash2-b16-n512-h32-e2048-full."""
        (name,) = [text] if text in self.documents else (x for x in self.documents if text in x)
        return name

    def document(self, text: str) -> Document:
        return self.documents[self.file(text)]

    def seconds(self, text: str, passed: str) -> float:
        return float(self.document(text)[passed][TIME])

    def rescale(self, text: str, factor: float, names: Iterable[str] = PASSES) -> None:
        """Make passes take `factor` times as long, and let everything follow from that."""
        document = self.document(text)
        for name in names:
            document[name][TIME] *= factor
            document[name][RATE] /= factor
        both = document["forward_backward"]
        flops = both[TIME] * both[RATE]
        both[TIME] = document["forward"][TIME] + document["backward"][TIME]
        both[RATE] = flops / both[TIME]

    def derive(self, text: str, law: Callable[..., float], *sources: Document) -> None:
        """Make each time of a file what a law gives of other documents' times, in seconds."""
        for name in PASSES:
            wanted = law(*(source[name][TIME] for source in sources))
            self.rescale(text, wanted / self.document(text)[name][TIME], [name])

    def measured(self, factor: Callable[[], float]) -> Self:
        """A copy in which each time of a pass takes a factor of its own."""
        again = copy.deepcopy(self)
        for name in again.documents:
            for passed in PASSES:
                again.rescale(name, factor(), [passed])
        return again

    def again(self, seed: int) -> Self:
        """The same runs measured by somebody else: 1% of scatter, up to 5% slower."""
        chance, level = random.Random(seed), random.Random(seed).uniform(1.0, 1.05)
        return self.measured(lambda: level * chance.lognormvariate(0, 0.01))

    def jittered(self, jitter: float, level: float = 1.0, seed: int = 1) -> Self:
        """A copy in which each time is changed by up to `jitter` either way."""
        chance = random.Random(seed)
        return self.measured(lambda: level * (1 + chance.uniform(-jitter, jitter)))

    def exchange_labels(self) -> Self:
        for row in (self.rows or {}).values():
            row[1] = {"Pytorch": "Flash2", "Flash2": "Pytorch"}[row[1]]
        return self

    def name_device(self, name: str) -> None:
        for row in (self.rows or {}).values():
            row[-1] = name

    def say_nothing(self) -> None:
        """Files of which neither a name nor a row says which run they are."""
        self.documents = {f"{i:02}.json": x for i, x in enumerate(self.documents.values())}
        self.rows = None

    def add_record(self, text: str, *factors: Sequence[float]) -> Document:
        """The record that a file has from now on: each pass's samples are its time times these."""
        name = self.file(text)
        times = [self.documents[name][passed][TIME] for passed in PASSES]
        samples = [[time * x for x in own] for time, own in zip(times, factors, strict=True)]
        environment = {"device_name": DEVICE, "provider": "flash-attn 2.8.3"}
        record = record_of(self.runs[name], "ok", *samples, environment=environment).to_json()
        return self.documents[name].setdefault("record", record["record"])

    def add_records(self, make: Callable[[int], Sequence[float]] = noise) -> None:
        for i, name in enumerate(self.documents):
            self.add_record(name, make(2 * i), make(2 * i + 1))

    def write(self, folder: Path) -> Path:
        write(folder, self.documents)
        if self.rows is not None:
            write_rows(folder, [*self.rows.values()])
        return folder

    def submission(self, name: str) -> Submission:
        """What grading reads of declared files, without writing them: for `perf`."""
        results = []
        for file, document in self.documents.items():
            said = said_in_cells(dict(zip(RUNS_CSV_COLUMNS, (self.rows or {})[file], strict=True)))
            del said["file"]
            read = result_of({k: document[k] for k in document if k != "record"}, file, file, "")
            assert read is not None
            results.append(replace(read, said=said))
        return Submission(name, tuple(results), results[0].said.get("device"))


def later(change: Callable[..., Any]) -> Callable[..., Callable[[Handed], Any]]:
    """A function that changes a submission, as one of its other arguments that gives a change."""
    return lambda *args, **kwargs: lambda own: change(own, *args, **kwargs)


@later
def rescaled(own: Handed, *texts: str, by: float, **which: Any) -> Handed:
    """Runs (all if none is named) that took so many times as long, and all that follows."""
    for text in texts or own.documents:
        own.rescale(text, by, **which)
    return own


@later
def rewritten(own: Handed, change: Callable[[float], float], *keys: str, text: str = "") -> Handed:
    """Numbers as somebody has written them: the memory, or times and rates; of files so named."""
    for document in (own.documents[name] for name in own.documents if text in name):
        for part in (document, *(document[name] for name in (*PASSES, "forward_backward"))):
            part.update({key: change(part[key]) for key in keys if key in part})
    return own


def digits(count: int, **which: str) -> Callable[[Handed], Handed]:
    """Times and rates rounded to so many significant digits."""
    return rewritten(lambda x: float(f"{x:.{count}g}"), TIME, RATE, **which)


@cache
def recorded() -> Handed:
    """The lab's 36 runs of an H200 by the course's protocol, declared."""
    found: dict[str, tuple[Run, Document]] = {}
    for entry in read_dataset(H200).entries:
        if entry.protocol["name"] == "lab5":
            document = json.loads(entry.path.read_bytes())
            del document["record"]
            found.setdefault(f"{entry.run.slug}.json", (entry.run, document))
    runs = {name: run for name, (run, _) in found.items()}
    rows = {n: row_of(n, run.implementation, Shape.of(run), DEVICE) for n, run in runs.items()}
    return Handed(runs, {name: document for name, (_, document) in found.items()}, rows)


@pytest.fixture
def sound() -> Handed:
    return copy.deepcopy(recorded())


for module in (submissions, sheets):  # what is published is read once: it stays as it is
    module.published_times = cache(published_times)


@dataclass(frozen=True)
class Graded:
    """What grading found, for tests to look into."""

    submissions: list[Submission]

    def lines(self, *verdicts: str) -> list[Line]:
        """The lines of these verdicts, or all."""
        every = [line for own in self.submissions for line in own.lines]
        return [line for line in every if line.verdict in verdicts or not verdicts]

    def alarms(self) -> list[Line]:
        return self.lines("fail", "warn")

    def of(self, submission: str) -> Mapping[str, str]:
        """The verdict of each check of a submission."""
        (own,) = (each for each in self.submissions if each.name == submission)
        return {check: own.verdict(check) for check in CHECKS}


def graded(folder: Path, device: str | None = None, others: pd.DataFrame | None = None) -> Graded:
    """What grading finds in a folder of submissions, of this device where they name none."""
    names = find_submissions(str(folder))[0]
    checked = [check_submission(str(folder), name, device) for name in names]
    nothing = times_of(()).assign(owner="")
    return Graded(grade_checked(checked, nothing if others is None else others))
