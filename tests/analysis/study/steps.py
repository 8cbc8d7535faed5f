"""Ladders whose truth is planted, and which claims about them are false."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.study.truth import MARGIN, PLAIN, Judged, Judges, is_verdict
from planted import ladder as planted
from planted.records import plain_record
from planted.results import PlantedReport
from story.planting import dataset_of_report

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.frames import Dataset
from flashlab.benchmarks.ladder.cases import CASES as SIZES
from flashlab.benchmarks.ladder.costs import flops
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.story.speeds import OPEN, VERDICTS

STEPS = ("GlobalMemory", "SharedTiles", "Padded", "Coalesced", "Registers", "Unrolled")
GROWING = ("GlobalMemory", "SharedTiles", "Padded", "Unrolled")
CASES = ("Padded", "Coalesced", "Registers", "Unrolled")
KERNEL, HOST, WHOLE = "kernel_time", "host_time", "process_time"
PROCESSES, BETWEEN, CALLS = 3, 0.002, 60
HEADLINE, LENGTHS = 28, (1024, 4096, 16384)

Facts = Mapping[str, Any]


def _config() -> dict[str, Any]:
    steps, size = ({**each, "figures": []} for each in planted.CONFIG["experiments"])
    lengths = {"batch_size": 4, "seq_len": [*LENGTHS], "head_dim": 64}
    cases = {"name": "cases", "cuda": {"case": [1, 22]}, "implementations": [*CASES]}
    experiments = [
        {**steps, "implementations": [*STEPS]},
        {**size, "cuda": lengths, "implementations": [*GROWING]},
        {**steps, **cases},
    ]
    return {**planted.CONFIG, "counted": [], "experiments": experiments}


@dataclass
class Steps:
    """A ladder's true times in milliseconds, by step, sizes of the problem and clock.

    The steps gain by factors or nothing, copies and the start of the process take what they take,
    and rates rise with the size or do not. Every run is off by up to 1%.
    """

    random: np.random.Generator
    kind: str = "ladder"
    identical: bool = False
    times: dict[tuple[str, tuple[int, ...], str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw = self.random
        self._speeds, speed = dict[str, float](), 1.0
        for name in STEPS:
            gains = (0.0, draw.uniform(-0.1, 0.1), draw.uniform(-0.3, 1.5))
            speed *= float(np.exp(draw.choice(gains)))
            self._speeds[name] = speed
        self._exponent = float(draw.choice([1.0, draw.uniform(0.6, 1.05)]))
        self._copies = {name: float(draw.choice([1.0, draw.uniform(0.5, 6)])) for name in STEPS}
        self._start = {name: float(draw.choice([900.0, 1800.0])) for name in STEPS}

    def _time(self, run: Run, clock: str) -> float:
        key = (run.implementation, (run["batch_size"], run["seq_len"], run["head_dim"]), clock)
        if key not in self.times:
            name, work = run.implementation, flops(run) / 1e12
            time = 1e3 * work**self._exponent / self._speeds[name]
            if clock != KERNEL:
                time = self._time(run, KERNEL) + self._copies[name]
            time += self._start[name] if clock == WHOLE else 0.0
            self.times[key] = time * float(1 + self.random.uniform(-0.01, 0.01))
        return self.times[key]

    def _record(self, run: Run) -> Record:
        """One process of a run, which is off as a whole."""
        off, metrics = float(self.random.lognormal(sigma=BETWEEN)), {}
        for clock in (KERNEL, HOST, WHOLE):
            calls = self.random.lognormal(sigma=0.005, size=CALLS)
            samples = (self._time(run, clock) * off * calls).tolist()
            metrics[clock] = Measurement(float(np.median(samples)), tuple(samples), "interval")
        metrics["process_start"] = Measurement(self._start[run.implementation])
        environment = planted.ENVIRONMENT
        return plain_record(run, LADDER.name, metrics=metrics, environment=environment)

    def tables(self, folder: Path) -> Dataset:
        """The tables of a report on it."""
        kind = ("float32", "cuda")
        report = PlantedReport(LADDER, _config(), kind, self._record, processes=PROCESSES)
        return dataset_of_report(report, folder)

    def time(self, name: str, clock: str, sizes: tuple[int, ...] | int) -> float:
        """A true time, by the sizes of the problem or by its case."""
        return self.times[name, SIZES[sizes] if isinstance(sizes, int) else sizes, clock]

    def speed(self, name: str, over: str, clock: str, sizes: tuple[int, ...] | int) -> float:
        """The true speed of one step over another."""
        return self.time(over, clock, sizes) / self.time(name, clock, sizes)

    def ratio(self, row: Mapping[str, Any]) -> float | None:
        """The planted ratio of a row of comparisons.csv; None of what is not judged here."""
        value, clock = row["value"], row["metric"]
        if math.isnan(value) or clock not in (KERNEL, HOST, WHOLE):
            return None
        batches, length, dim = (int(row[each]) for each in ("batch_size", "seq_len", "head_dim"))
        if row["compared"] == IMPLEMENTATIONS:
            sizes = batches, length, dim
            return self.speed(row["reference"], row["subject"], clock, sizes)
        before = batches, int(row["reference_value"]), dim  # along N
        name = row["subject"]
        return self.time(name, clock, (batches, length, dim)) / self.time(name, clock, before)


def verdicts(told: Facts, speeds: Mapping[Any, float], find: bool = False) -> Iterator[Judged]:
    """Names or values by the verdict on their speeds; of plain differences it has to be found."""
    for verdict in VERDICTS:
        for key in told[verdict]:
            x = speeds[key]
            missed = verdict in OPEN if find and max(x, 1 / x) >= PLAIN else None
            yield not is_verdict(verdict, x), missed


def _before(name: str) -> str:
    return STEPS[STEPS.index(name) - 1]


def _answer(facts: Facts, truth: Steps) -> Iterator[Judged]:
    best, first = facts["best"], facts["first"]
    if "x" in facts:
        yield truth.speed(best, first, KERNEL, HEADLINE) <= MARGIN, None
    yield min(truth.speed(best, n, KERNEL, HEADLINE) for n in STEPS) < 1 / MARGIN, None


def _pays(facts: Facts, truth: Steps) -> Iterator[Judged]:
    speeds = {n: truth.speed(n, _before(n), KERNEL, HEADLINE) for n in STEPS[1:]}
    yield from verdicts(facts, speeds, find=True)
    for name in facts["copied"]:
        yield truth.speed(name, _before(name), HOST, HEADLINE) <= MARGIN, None


def _clock(facts: Facts, truth: Steps) -> Iterator[Judged]:
    if facts["host"]:
        yield truth.speed(facts["best"], STEPS[0], HOST, HEADLINE) <= MARGIN, None
    speeds = {n: truth.speed(n, STEPS[0], WHOLE, HEADLINE) for n in STEPS[1:]}
    yield from verdicts(facts["process"], speeds)


def _size(facts: Facts, truth: Steps) -> Iterator[Judged]:
    def rate(name: str, length: int) -> float:
        return length**2 / truth.time(name, KERNEL, (4, length, 64))

    if facts["steady"]:
        name, since = facts["steady"]
        for one, after in itertools.pairwise(LENGTHS[LENGTHS.index(since) :]):
            yield not is_verdict("equal", rate(name, after) / rate(name, one)), None
        yield truth.speed(facts["best"], name, KERNEL, (4, LENGTHS[-1], 64)) <= MARGIN, None
    if facts["rises"]:
        best = facts["best"]
        yield rate(best, LENGTHS[-1]) <= MARGIN * rate(best, LENGTHS[-2]), None
    split, over = facts["split"], GROWING[-2]
    speeds = {n: truth.speed(split, over, KERNEL, (4, n, 64)) for n in LENGTHS}
    yield from verdicts(facts, speeds)


def _copies(facts: Facts, truth: Steps) -> Iterator[Judged]:
    if hidden := facts["hidden"]:
        ends = hidden["best"], hidden["other"]
        at = int(hidden["case"].removeprefix("t"))
        yield not is_verdict("faster", truth.speed(*ends, KERNEL, at)), None
        if hidden["equal"]:
            yield not is_verdict("equal", truth.speed(*ends, HOST, at)), None
    if gains := facts["streams"]:
        name, at = gains["name"], int(gains["case"].removeprefix("t"))
        yield not is_verdict("faster", truth.speed(name, _before(name), HOST, at)), None


JUDGES_OF_STEPS: Judges = {
    **{"answer": _answer, "pays": _pays, "clock": _clock, "size": _size, "copies": _copies},
}
"""Of a ladder. Other observations quote measured values or counters."""
