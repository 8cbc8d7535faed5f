"""Trainings whose truth is planted, and which claims about them are false."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.study.truth import MARGIN, PLAIN, STORED, Judged, Judges, is_verdict
from planted import training as planted
from planted.records import plain_record
from planted.results import PlantedReport
from story.planting import tables_of_report

from flashlab.analysis.comparison_rows import ALTERNATIVES, IMPLEMENTATIONS
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.story.tables import Tables

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

    def tables(self, folder: Path) -> Tables:
        """The tables of a report on it."""
        report = PlantedReport(
            *(TRAINING, planted.REPORT.config, planted.REPORT.kind, self._record),
            processes=self._processes,
        )
        return tables_of_report(report, folder)

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


def _answer_use(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    for name in facts["names"]:
        yield truth.speed((name, facts["compiled"]), (NAIVE, False)) <= MARGIN, None


def _answer_which(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    first = facts["lowest"][0]
    best = first["name"], first["compiled"]
    slower = sum(truth.speed(each, best) < 1 for each in truth.times)
    yield facts["out"] > slower, None
    if facts["verdict"] == "one":
        yield any(truth.speed(each, best) > 1 for each in truth.times), None
    if facts["verdict"] == "level":
        for each in facts["lowest"]:
            x = truth.speed((each["name"], each["compiled"]), best)
            yield not is_verdict("equal", x), None


def _answer_cost(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    for each in facts["slower"]:
        name = each["name"]
        yield not is_verdict("slower", truth.speed((name, True), (name, False))), None
    for each in facts["avoid"]:
        yield not is_verdict("slower", truth.speed((each["name"], False), (NAIVE, False))), None


def _effect(facts: Facts, speeds: Mapping[str, float], is_close: bool) -> Iterator[Judged]:
    told = {name: verdict for verdict, found in facts["by"].items() for name in found["names"]}
    for name, verdict in told.items():
        x = speeds[name]
        missed = verdict == "undecided" if is_close and max(x, 1 / x) >= PLAIN else None
        yield not is_verdict(verdict, x), missed


def _effect_attention(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    speeds = {n: truth.speed((n, False), (NAIVE, False)) for n, on in truth.times if not on}
    yield from _effect(facts, speeds, truth.is_replicated)


def _effect_compile(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    speeds = {n: truth.speed((n, True), (n, False)) for n, on in truth.times if on}
    yield from _effect(facts, speeds, truth.is_replicated)


def _naive_compiled(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    x = truth.speed((facts["naive"], True), (facts["fused"], False))
    yield not is_verdict(facts["verdict"], x), None


def _section_surprise(facts: Facts, truth: Alternatives) -> Iterator[Judged]:
    if facts["least"] and facts["least"]["verdict"] == "slower":
        least = facts["least"]["name"], facts["least"]["compiled"]
        yield truth.times[least] <= min(truth.times.values()), None


JUDGES_OF_ALTERNATIVES: Judges = {
    **{"answer_use": _answer_use, "answer_which": _answer_which, "answer_cost": _answer_cost},
    **{"effect_attention": _effect_attention, "effect_compile": _effect_compile},
    **{"naive_compiled": _naive_compiled, "section_surprise": _section_surprise},
}
"""Of a training. Other observations quote measured or exact values."""
