"""Trainings whose truth is planted, and which claims about them are false."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.study.steps import verdicts
from analysis.study.truth import MARGIN, STORED, Judged, Judges, is_verdict
from planted import training as planted
from planted.records import plain_record
from planted.results import PlantedReport
from story.planting import dataset_of_report

from flashlab.analysis.comparison_rows import ALTERNATIVES, IMPLEMENTATIONS
from flashlab.analysis.frames import Dataset
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.records import Measurement, Record
from flashlab.runs import Run

TIME, NAIVE = "iteration_time", "Pytorch"
BETWEEN, CALLS = 0.003, 60

Facts = Mapping[str, Any]
Key = tuple[str, bool]
"""An attention, and whether it is compiled."""


@dataclass
class Alternatives:
    """The true times of an iteration in milliseconds, by attention and compilation.

    Fused attentions may tie; compiling gains, costs or changes nothing; the GPU is busy for a share
    of the time. Every run is in one to three processes.
    """

    random: np.random.Generator
    kind: str = "training"
    identical: bool = False
    times: dict[Key, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._processes = int(self.random.integers(1, 4))

    def _time(self, key: Key) -> float:
        if key not in self.times:
            draw, (name, compiled) = self.random, key
            if compiled:
                gains = (0.0, draw.uniform(-0.1, 0.1), draw.uniform(-0.4, 0.8))
                time = self._time((name, False)) / float(np.exp(draw.choice(gains)))
            elif name == NAIVE:
                time = 120.0
            else:
                gains = (0.4, draw.uniform(-0.1, 0.1), draw.uniform(-0.5, 0.8))
                time = 120.0 / float(np.exp(draw.choice(gains)))
            self.times[key] = time
        return self.times[key]

    def _record(self, run: Run) -> Record:
        """One process of a run, which is off as a whole."""
        key = run.implementation, bool(run["compile"])
        time, off = self._time(key), float(self.random.lognormal(sigma=BETWEEN))
        samples = (time * off * self.random.lognormal(sigma=0.005, size=CALLS)).tolist()
        size = 6000.0 if key[0] in STORED else 4000.0
        busy = time * (0.5 + 0.45 * (len(key[0]) % 3) / 2)
        metrics = {
            TIME: Measurement(float(np.median(samples)), tuple(samples), "interval"),
            **{"first_step": Measurement(30.0), "peak_memory": Measurement(size)},
            **{"process_memory": Measurement(size + 1000), "gpu_busy_time": Measurement(busy)},
            **{"kernels": Measurement(3000.0), "energy": Measurement(time / 2)},
        }
        if key[1]:
            metrics["compile_time"] = Measurement(20.0)
        return plain_record(
            *(run, TRAINING.name),
            metrics=metrics,
            environment={"device_name": "NVIDIA A100", "packages": {}},
            protocol={"name": "training"},
        )

    def tables(self, folder: Path) -> Dataset:
        """The tables of a report on it."""
        report = PlantedReport(
            *(TRAINING, planted.REPORT.config, planted.REPORT.kind, self._record),
            processes=self._processes,
        )
        return dataset_of_report(report, folder)

    @property
    def is_replicated(self) -> bool:
        """True if processes show their spread, so that plain differences have to be found."""
        return self._processes > 2

    def speed(self, one: Key, other: Key) -> float:
        """The true speed of one alternative over another."""
        return self.times[other] / self.times[one]

    def ratio(self, row: Mapping[str, Any]) -> float | None:
        """The planted ratio of a row of comparisons.csv; None of what is not judged here."""
        if row["metric"] != TIME or math.isnan(row["value"]):
            return None
        on = row["variant"] == "compile=true"
        if row["compared"] == IMPLEMENTATIONS:
            return self.speed((row["reference"], on), (row["subject"], on))
        if row["compared"] in ("compile", ALTERNATIVES):
            return self.speed((row["reference"], False), (row["subject"], True))
        return None


def _answer(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    for name in facts.get("names", ()):
        yield truth.speed((name, facts["compiled"]), (NAIVE, False)) <= MARGIN, None
    if facts.get("which") in ("fastest", "equal"):
        best = facts["lowest"], facts["compiled"]
        verdict = {"fastest": "slower", "equal": "equal"}[facts["which"]]
        for name in {*facts["names"]} - {facts["lowest"]}:
            yield not is_verdict(verdict, truth.speed((name, facts["compiled"]), best)), None
    if alone := facts.get("alone"):
        x = truth.speed((NAIVE, True), (alone["fused"], False))
        yield not is_verdict(alone["verdict"], x), None


def _attention(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    speeds = {n: truth.speed((n, False), (NAIVE, False)) for n, on in truth.times if not on}
    yield from verdicts(facts, speeds, truth.is_replicated)


def _compiling(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    speeds = {n: truth.speed((n, True), (n, False)) for n, on in truth.times if on}
    yield from verdicts(facts, speeds, truth.is_replicated)


JUDGES_OF_ALTERNATIVES: Judges = {
    **{"answer": _answer, "attention": _attention, "compiling": _compiling},
}
"""Of a training. Other observations quote measured or exact values."""
