"""Measuring in turns: each implementation in a process of its own, and one of them at a time.

A batch of calls of the first implementation is followed by one of the second, and so on; the next
time round the order is reversed. What changes with time, such as clocks, heat and other load, then
changes for all alike, on a GPU and on a CPU.
"""

from __future__ import annotations

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
from flashlab.runs import Run

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

ENDING = "ending"


@dataclass
class Candidate:
    """One implementation that is measured, and what is known of it so far.

    `batches` has those of each pass by its timed metric, a list for each process; `looks` has the
    last look at the ratio of each pass. `status` and `message` are a record's; `environments` and
    `warnings` are of each process that has ended.
    """

    target: Target
    run: Run
    status: str = "ok"
    message: str | None = None
    gate: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    batches: dict[str, list[Batches]] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)

    def end_with(self, found: Mapping[str, Any]) -> None:
        """Take on the status of a process that ended before its time; it is measured no more."""
        self.status, self.message = found["status"], found["message"]
        self.gate = found.get("gate", self.gate)
        if "environment" in found:
            self.environments.append(found["environment"])

    @contextmanager
    def turn(self, worker: Worker) -> Iterator[None]:
        """Its turn to do something, which its process may not survive."""
        try:
            yield
        except EndedError as error:
            self.end_with(error.found)
            worker.close()


class Progress(NamedTuple):
    """Where a bench is: what it does, and in which process from 0."""

    doing: str
    process: int


class _Turns:
    """The processes of one round, which are measured in turns."""

    def __init__(
        self, first: Candidate, process: int, workers: Sequence[tuple[Candidate, Worker]]
    ) -> None:
        self._first, self._process, self._workers = first, process, list(workers)

    def _each(self) -> Iterator[tuple[Candidate, Worker]]:
        """Whichever is still measured, one after another."""
        return ((each, worker) for each, worker in self._workers if each.status == "ok")

    def start(self) -> Iterator[Progress]:
        """Wait for the kernels, and check them in the first process."""
        for candidate, worker in self._each():
            yield Progress(f"starting {candidate.target.label}", self._process)
            with candidate.turn(worker):
                worker.connect()
                candidate.target.check_unchanged()  # what it has imported is what was read
        for candidate, worker in self._each() if self._process == 0 else ():
            yield Progress(f"checking {candidate.target.label}", self._process)
            with candidate.turn(worker):
                checked = worker.command("prepare")
                candidate.gate, candidate.metrics = checked["gate"], checked["metrics"]
        for candidate, worker in self._each():
            with candidate.turn(worker):
                worker.command("passes")

    def measure_pass(self, name: str, seconds: float) -> Iterator[Progress]:
        """Time a pass of all implementations in turns, and look at the ratios when it is time."""
        doing = f"measuring the {name.removesuffix('_time')} pass"
        for candidate, worker in self._each():
            yield Progress(f"{doing} of {candidate.target.label}", self._process)
            with candidate.turn(worker):
                worker.command("pass", name=name)
                candidate.batches.setdefault(name, []).append([])
        look_after = LOOK_IN_FIRST * seconds if self._process == 0 else math.inf
        begun, pairs, spent = time.monotonic(), 0, 0.0
        while pairs < MIN_PAIRS or spent < seconds:
            for candidate, worker in self._each():
                with candidate.turn(worker):
                    candidate.batches[name][-1].append(worker.command("batch")["samples"])
            self._workers.reverse()
            pairs, spent = pairs + 1, time.monotonic() - begun
            if not any(self._each()):
                return
            if pairs >= MIN_PAIRS and spent >= look_after:
                look_after = math.inf
                self._look(name)
            yield Progress(doing, self._process)
        self._look(name)

    def _look(self, name: str) -> None:
        """Look at the ratio of each implementation's neighbouring batches to the first one's."""
        for candidate, _ in self._each():
            if candidate is not self._first and self._first.status == "ok":
                look = look_at(pair_ratios(candidate, self._first, name))
                if look is not None:
                    candidate.looks[name] = look

    def end(self) -> None:
        """Let the processes end, and keep what they have to say of their surroundings."""
        for candidate, worker in self._each():
            with candidate.turn(worker):
                found = worker.end()
                candidate.environments.append(found["environment"])
                candidate.warnings.append(found["warnings"])


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

    An implementation that fails keeps its status and is left out from there on.

    Args:
        benchmark: what the runs are of.
        candidates: the implementations, whose values are filled in as the measuring goes on.
        passes: the timed metrics of the passes to measure, in the benchmark's order.
        seconds: how long to measure in all, the starting of processes not counted; it takes
            longer if a batch does.
        variables: environment variables that confine a process to the claimed device.
        patience: how long a process may take.

    Yields:
        What is being done, as often as something changes.

    Raises:
        SavedError: an implementation's file was saved meanwhile.
    """
    first = FIRST_SHARE * seconds
    later = (seconds - first) / (PROCESSES - 1)
    for process in range(PROCESSES):
        measured = [candidate for candidate in candidates if candidate.status == "ok"]
        if not measured:
            return
        with ExitStack() as stack:
            workers = []
            for each in measured:
                kernel = each.target.implementation
                worker = Worker(benchmark, each.run, kernel, variables, patience)
                stack.callback(worker.close)
                workers.append((each, worker))
            turns = _Turns(candidates[0], process, workers)
            yield from turns.start()
            for name in passes:
                share = (later if process else first) / len(passes)
                yield from turns.measure_pass(name, share)
            yield Progress(ENDING, process)
            turns.end()
