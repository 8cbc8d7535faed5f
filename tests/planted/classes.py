"""Classes with a planted truth: submissions of the lab's runs, honest or altered.

They are made of an H200's recorded runs, and graded as files or in memory.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from planted.course import RUNS_CSV_COLUMNS, row_of, write_rows

from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.results import result_of
from flashlab.lab5.words import said_in_cells
from flashlab.plan.datasets import read_dataset
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab_grading.checks import PASSES, Submission

H200 = Path(__file__).parents[2] / "data" / "h200"
DEVICE = "NVIDIA H200"
MEMORY = "peak_memory_usage(MB)"

Document = dict[str, Any]


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
        if text in self.documents:
            return text
        (name,) = (name for name in self.documents if text in name)
        return name

    def document(self, text: str) -> Document:
        return self.documents[self.file(text)]

    def seconds(self, text: str, passed: str) -> float:
        found: float = self.document(text)[passed]["time(s)"]
        return found

    def rescale(self, text: str, factor: float, names: Iterable[str] = PASSES) -> None:
        """Make passes take `factor` times as long, and let everything follow from that."""
        document = self.document(text)
        for name in names:
            document[name]["time(s)"] *= factor
            document[name]["FLOPS(TFLOPs/s)"] /= factor
        both = document["forward_backward"]
        flops = both["time(s)"] * both["FLOPS(TFLOPs/s)"]
        both["time(s)"] = document["forward"]["time(s)"] + document["backward"]["time(s)"]
        both["FLOPS(TFLOPs/s)"] = flops / both["time(s)"]

    def derive(self, text: str, law: Callable[..., float], *sources: Document) -> None:
        """Make each time of a file what a law gives of other documents' times, in seconds."""
        for name in PASSES:
            wanted = law(*(source[name]["time(s)"] for source in sources))
            self.rescale(text, wanted / self.seconds(text, name), [name])

    def measured(self, factor: Callable[[], float]) -> Self:
        """A copy in which each time of a pass takes a factor of its own."""
        again = copy.deepcopy(self)
        for name in again.documents:
            for passed in PASSES:
                again.rescale(name, factor(), [passed])
        return again

    def jittered(self, jitter: float, chance: random.Random, level: float = 1.0) -> Self:
        """A copy in which each time is changed by up to `jitter` either way."""
        return self.measured(lambda: level * (1 + chance.uniform(-jitter, jitter)))

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
        """A record of a file, without samples; `more` takes keys' places."""
        document = self.documents[name]
        metrics = {
            f"{passed}_time": Measurement(1e3 * document[passed]["time(s)"]) for passed in PASSES
        }
        record = Record(
            **{"benchmark": "attention", "run": self.runs[name], "status": "ok", "message": None},
            **{"protocol": {"name": "lab5"}, "gate": None, "warnings": (), "sources": {}},
            metrics=metrics | {"peak_memory": Measurement(document[MEMORY])},
            environment={"device_name": DEVICE, "provider": "flash-attn 2.8.3"},
            started="2026-11-20T16:45:24+00:00",
        )
        return {**record.to_json()["record"], **more}

    def write(self, folder: Path) -> Path:
        for path, document in ((folder / name, self.documents[name]) for name in self.documents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document), encoding="utf-8")
        if self.rows is not None:
            write_rows(folder, [*self.rows.values()])
        return folder

    def submission(self, name: str) -> Submission:
        """What grading reads of declared files, without writing them."""
        results = []
        for file, document in self.documents.items():
            row = zip(RUNS_CSV_COLUMNS, (self.rows or {})[file], strict=True)
            said = said_in_cells(dict(row))
            del said["file"]
            read = result_of({k: document[k] for k in document if k != "record"}, file, file, "")
            assert read is not None
            results.append(replace(read, said=said))
        return Submission(name, tuple(results), results[0].said.get("device"))


@cache
def _recorded() -> Handed:
    found: dict[str, tuple[Run, Document]] = {}
    for entry in read_dataset(H200).entries:
        if entry.protocol["name"] == "lab5":
            document = json.loads(entry.path.read_bytes())
            del document["record"]
            found.setdefault(f"{entry.run.slug}.json", (entry.run, document))
    runs = {name: run for name, (run, _) in found.items()}
    rows = {n: row_of(n, run.implementation, Shape.of(run), DEVICE) for n, run in runs.items()}
    return Handed(runs, {name: document for name, (_, document) in found.items()}, rows)


def lab() -> Handed:
    """The lab's 36 runs of an H200 by the course's protocol, declared."""
    return copy.deepcopy(_recorded())
