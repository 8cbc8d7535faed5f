"""Ladders whose truth is planted, and which claims about them are false."""

from __future__ import annotations

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
from story.planting import tables_of_report

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.benchmarks.ladder.cases import CASES as SIZES
from flashlab.benchmarks.ladder.costs import flops
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.story.ladder import MUCH
from flashlab.story.tables import Tables

STEPS = ("GlobalMemory", "SharedTiles", "Padded", "Coalesced", "Registers", "Unrolled")
GROWING = ("GlobalMemory", "SharedTiles", "Padded", "Unrolled")
CASES = ("Padded", "Coalesced", "Registers", "Unrolled")
KERNEL, HOST, WHOLE = "kernel_time", "host_time", "process_time"
PROCESSES, BETWEEN, CALLS = 3, 0.002, 60
HEADLINE = 28

Facts = Mapping[str, Any]


def _config() -> dict[str, Any]:
    steps, size = ({**each, "figures": []} for each in planted.CONFIG["experiments"])
    lengths = {"batch_size": 4, "seq_len": [1024, 4096, 16384], "head_dim": 64}
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

    def tables(self, folder: Path) -> Tables:
        """The tables of a report on it."""
        kind = ("float32", "cuda")
        report = PlantedReport(LADDER, _config(), kind, self._record, processes=PROCESSES)
        return tables_of_report(report, folder)

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


def _answer_kernel(facts: Facts, truth: Steps) -> Iterator[Judged]:
    best, first = facts["best"]["name"], facts["first"]["name"]
    yield truth.speed(best, first, KERNEL, HEADLINE) <= MARGIN, None
    yield min(truth.speed(best, n, KERNEL, HEADLINE) for n in STEPS) < 1 / MARGIN, None


def _answer_things(facts: Facts, truth: Steps) -> Iterator[Judged]:
    for name in (part["name"] for thing in facts["things"] for part in thing["parts"]):
        yield truth.speed(name, _before(name), KERNEL, HEADLINE) <= MARGIN, None


def _before(name: str) -> str:
    return STEPS[STEPS.index(name) - 1]


def _answer_process(facts: Facts, truth: Steps) -> Iterator[Judged]:
    best, first = facts["best"]["name"], facts["first"]["name"]
    if best != first:
        x = truth.speed(best, first, WHOLE, HEADLINE)
        missed = facts["verdict"] != "faster" if x >= PLAIN else None
        yield not is_verdict(facts["verdict"], x), missed
    for name in facts["equal"]:
        yield not is_verdict("equal", truth.speed(name, best, WHOLE, HEADLINE)), None
    for name in (step["name"] for step in facts["slower"]):
        yield not is_verdict("slower", truth.speed(name, best, WHOLE, HEADLINE)), None


def _answer_use(facts: Facts, truth: Steps) -> Iterator[Judged]:
    run = facts["run"]["name"]
    yield truth.speed(run, facts["first"]["name"], HOST, HEADLINE) <= MARGIN, None


def _ladder_time(facts: Facts, truth: Steps) -> Iterator[Judged]:
    told = {name: verdict for verdict, names in facts["by"].items() for name in names}
    for name, verdict in told.items():
        x = truth.speed(name, _before(name), KERNEL, HEADLINE)
        missed = verdict not in ("faster", "slower") if max(x, 1 / x) >= PLAIN else None
        yield not is_verdict(verdict, x), missed


def _ladder_growth(facts: Facts, truth: Steps) -> Iterator[Judged]:
    if facts["below"]:
        for name in GROWING:
            ends = (truth.time(name, KERNEL, (4, facts[end], 64)) for end in ("first", "last"))
            first, last = ends
            yield MUCH * last / first >= facts["operations"], None


def _ladder_rates(facts: Facts, truth: Steps) -> Iterator[Judged]:
    def rate(name: str, length: int) -> float:
        return length**2 / truth.time(name, KERNEL, (4, length, 64))

    lengths = [1024, 4096, 16384]
    for name, since in ((each["name"], each["since"]) for each in facts["steady"]):
        for n in lengths[lengths.index(since) : -1]:
            after = lengths[lengths.index(n) + 1]
            yield not is_verdict("equal", rate(name, after) / rate(name, n)), None
    if facts["rises"]:
        yield rate(facts["best"], 16384) <= MARGIN * rate(facts["best"], 4096), None


def _ladder_split(facts: Facts, truth: Steps) -> Iterator[Judged]:
    for verdict, found in facts["by"].items():
        for length in found["at"]:
            x = truth.speed(facts["name"], facts["before"], KERNEL, (4, length, 64))
            yield not is_verdict(verdict, x), None


def _ladder_streams(facts: Facts, truth: Steps) -> Iterator[Judged]:
    name, before = facts["name"], _before(facts["name"])
    for key, verdict in (("pays", "faster"), ("costs", "slower")):
        if facts[key]:
            at = facts[key]["case"]["at"]
            yield not is_verdict(verdict, truth.speed(name, before, HOST, at)), None
            if facts["same"]:
                yield not is_verdict("equal", truth.speed(name, before, KERNEL, at)), None


def _ladder_copies(facts: Facts, truth: Steps) -> Iterator[Judged]:
    best, other, at = facts["best"]["name"], facts["other"]["name"], facts["case"]["at"]
    yield not is_verdict("faster", truth.speed(best, other, KERNEL, at)), None
    yield not is_verdict(facts["verdict"], truth.speed(best, other, HOST, at)), None


JUDGES_OF_STEPS: Judges = {
    **{"answer_kernel": _answer_kernel, "answer_things": _answer_things},
    **{"answer_process": _answer_process, "answer_use": _answer_use},
    **{"ladder_time": _ladder_time, "ladder_growth": _ladder_growth},
    **{"ladder_rates": _ladder_rates, "ladder_split": _ladder_split},
    **{"ladder_streams": _ladder_streams, "ladder_copies": _ladder_copies},
}
"""Of a ladder. Other observations quote measured values, counters or a definition."""
