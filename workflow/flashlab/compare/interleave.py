"""Measuring in turns: each implementation in a process of its own, and one of them at a time.

A batch of calls of the first implementation is followed by one of the second, and so on; the next
time round the order is reversed. What changes with time, such as clocks, heat and other load, then
changes for all alike, on a GPU and on a CPU.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flashlab.benchmarks.model import Benchmark
from flashlab.compare.bench_process import EndedError, Patience, Worker
from flashlab.compare.looks import FIRST_SHARE, LOOK_IN_FIRST, MIN_PAIRS, PROCESSES, Look, look_at
from flashlab.compare.targets import Target
from flashlab.measuring.supervised import Section, refused, together
from flashlab.runs import Run

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

ENDING = "ending"


@dataclass
class Candidate:
    """One implementation that is measured, with its results so far.

    `batches` has those of each pass by its timed metric, a list for each process, and `sections`
    how long those of the last pass took here; `looks` has the last look at the ratio of each pass.
    `status` and `message` are a record's; `environments` and `warnings` are of each process that
    has ended, and `worker` is the one that is under way.
    """

    target: Target
    run: Run
    status: str = "ok"
    message: str | None = None
    gate: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    batches: dict[str, list[Batches]] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    looks: dict[str, Look] = field(default_factory=dict)
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    worker: Worker = field(init=False, repr=False)

    def end_with(self, ending: Mapping[str, Any]) -> None:
        """Take the status of a process that ended early; the implementation is measured no more."""
        self.status, self.message = ending["status"], ending["message"]
        self.gate = ending.get("gate", self.gate)
        if "environment" in ending:
            self.environments.append(ending["environment"])

    @contextmanager
    def turn(self) -> Iterator[Worker]:
        """A block in which it acts; if its process ends there, its end is noted."""
        try:
            yield self.worker
        except EndedError as error:
            self.end_with(error.ending)
            self.worker.close()


class Progress(NamedTuple):
    """The current step of a bench, and its process, counted from 0."""

    doing: str
    process: int


def _measured(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The implementations that are still measured, one after the other."""
    return (candidate for candidate in candidates if candidate.status == "ok")


def _start(candidates: Sequence[Candidate], is_first: bool) -> Iterator[str]:
    """Wait for the kernels, and check them in the first process."""
    for candidate in _measured(candidates):
        yield f"starting {candidate.target.label}"
        with candidate.turn() as worker:
            worker.connect()
            candidate.target.check_unchanged()  # it has imported the files that were read
    for candidate in _measured(candidates) if is_first else ():
        yield f"checking {candidate.target.label}"
        with candidate.turn() as worker:
            checked = worker.command("prepare")
            candidate.gate, candidate.metrics = checked["gate"], checked["metrics"]
    for candidate in _measured(candidates):
        with candidate.turn() as worker:
            worker.command("passes")


def _measure_pass(
    candidates: Sequence[Candidate], name: str, seconds: float, look_after: float
) -> Iterator[str]:
    """Time a pass of all in turns, and compute the ratios after so many seconds and at the end."""
    doing = f"measuring the {name.removesuffix('_time')} pass"
    for candidate in _measured(candidates):
        yield f"{doing} of {candidate.target.label}"
        with candidate.turn() as worker:
            worker.command("pass", name=name)
            candidate.batches.setdefault(name, []).append([])
            candidate.sections.clear()
    begun, pairs, spent, in_turn = time.monotonic(), 0, 0.0, [*candidates]
    while pairs < MIN_PAIRS or spent < seconds:
        for candidate in _measured(in_turn):
            with candidate.turn() as worker:
                begin = time.monotonic()
                reply = worker.command("batch")
                samples, besides = reply["samples"], reply["besides"]
                candidate.batches[name][-1].append(samples)
                passed, is_filled = time.monotonic() - begin, candidate.run.device == "cpu"
                candidate.sections.append(Section(passed, sum(samples) + besides, is_filled))
        in_turn.reverse()
        pairs, spent = pairs + 1, time.monotonic() - begun
        if not any(_measured(candidates)):
            return
        if pairs >= MIN_PAIRS and spent >= look_after:
            look_after = math.inf
            _look(candidates, name)
        yield doing
    for candidate in _measured(candidates):
        with candidate.turn():
            if refusal := refused([together(candidate.sections)]):
                raise EndedError(refusal)
    _look(candidates, name)


def _look(candidates: Sequence[Candidate], name: str) -> None:
    """Compute the ratio of each implementation's neighbouring batches to the first one's."""
    first, *others = candidates
    for candidate in _measured(others) if first.status == "ok" else ():
        look = look_at(pair_ratios(candidate, first, name))
        if look is not None:
            candidate.looks[name] = look


def _end(candidates: Sequence[Candidate]) -> None:
    """Check each once more and let it end; its environment and warnings are kept."""
    for candidate in _measured(candidates):
        with candidate.turn() as worker:
            candidate.gate = {**(candidate.gate or {}), **worker.command("check")}
            reply = worker.end()
            candidate.environments.append(reply["environment"])
            candidate.warnings.append(reply["warnings"])


def pair_ratios(candidate: Candidate, first: Candidate, name: str) -> list[list[float]]:
    """The ratios of neighbouring batches' medians, of each process, in order of time."""
    return [
        [
            statistics.median(one) / statistics.median(other)
            for one, other in zip(batches, others, strict=False)
        ]
        for batches, others in zip(candidate.batches[name], first.batches[name], strict=False)
    ]


def measure_in_turns(
    benchmark: Benchmark,
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    patience: Patience,
) -> Generator[Progress]:
    """Measure implementations of one problem in turns, in several processes each.

    What is known of the candidates is filled in as the measuring goes on; one that fails keeps its
    status and is left out from there on. What is being done is given as often as something changes.
    `passes` are timed metrics in the benchmark's order, `seconds` the time for all of them, without
    that which processes take to start; it takes longer if a batch does. The `variables` of the
    environment confine a process to the claimed device.

    Raises:
        SavedError: an implementation's file was saved meanwhile.
    """
    first = FIRST_SHARE * seconds / len(passes)
    later = (seconds - FIRST_SHARE * seconds) / (PROCESSES - 1) / len(passes)
    for process in range(PROCESSES):
        share, look_after = (later, math.inf) if process else (first, LOOK_IN_FIRST * first)
        with ExitStack() as stack:
            for candidate in _measured(candidates):
                kernel = candidate.target.implementation
                candidate.worker = Worker(benchmark, candidate.run, kernel, variables, patience)
                stack.enter_context(candidate.worker)
            if not any(_measured(candidates)):
                return
            steps = [_measure_pass(candidates, name, share, look_after) for name in passes]
            for doing in itertools.chain(_start(candidates, process == 0), *steps):
                yield Progress(doing, process)
            yield Progress(ENDING, process)
            _end(candidates)
