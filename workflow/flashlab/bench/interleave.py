"""Measuring in turns: each implementation in a process of its own, and one of them at a time.

A batch of calls of the first implementation is followed by one of the second, and so on; the next
time round the order is reversed. What changes with time, such as clocks, heat and other load, then
changes for all alike, on a GPU and on a CPU.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from flashlab.bench.looks import (
    FIRST_SHARE,
    LOOK_IN_FIRST,
    MIN_PAIRS,
    PROCESSES,
    Ratio,
    ratio_at_look,
)
from flashlab.bench.process import EndedError, Worker
from flashlab.bench.targets import Target
from flashlab.benchmarks.model import Benchmark
from flashlab.runs import Run

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""


@dataclass
class Measured:
    """What is known so far of one implementation.

    `batches` has those of each pass by its timed metric, a list for each process; `ratios` has the
    times over the first implementation's, as they were at the last look. `status` and
    `message` are a record's; `environment` and `warnings` are of each process that has ended.
    """

    target: Target
    run: Run
    status: str = "ok"
    message: str | None = None
    gate: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    batches: dict[str, list[Batches]] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)

    def end_with(self, found: Mapping[str, Any]) -> None:
        """Take on the status of a process that ended before its time; it is measured no more."""
        self.status, self.message = found["status"], found["message"]
        self.gate = found.get("gate", self.gate)
        if "environment" in found:
            self.environments.append(found["environment"])


@dataclass(frozen=True)
class Progress:
    """Where a bench is: what it does, in which process from 0, whether it has looked or measured.

    `looked`: there are new ratios. `measured`: that was the last of this process.
    """

    doing: str
    process: int
    looked: bool = False
    measured: bool = False


Report = Callable[[Progress], None]


class _Turns:
    """The processes of one round, which are measured in turns."""

    def __init__(
        self,
        benchmark: Benchmark,
        measured: Sequence[Measured],
        variables: Mapping[str, str],
        process: int,
        report: Report,
    ) -> None:
        self._measured = [each for each in measured if each.status == "ok"]
        self._first = measured[0]
        self._process, self._report = process, report
        self._workers: dict[int, Worker] = {}
        self._stack = ExitStack()
        try:
            for each in self._measured:
                worker = Worker(benchmark, each.run, each.target.implementation, variables)
                self._stack.callback(worker.close)
                self._workers[id(each)] = worker
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> _Turns:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def _active(self) -> Iterator[tuple[Measured, Worker]]:
        for each in self._measured:
            if each.status == "ok":
                yield each, self._workers[id(each)]

    def _each(self, do: Callable[[Measured, Worker], None], doing: str = "") -> None:
        """Do something with one implementation after another; those that fail are left out.

        What is being done is reported, if `doing` says it.
        """
        for each, worker in self._active():
            if doing:
                self._report(Progress(f"{doing} {each.target.label}", self._process))
            try:
                do(each, worker)
            except EndedError as error:
                each.end_with(error.found)
                worker.close()

    def start(self) -> None:
        """Wait for the kernels, and check them in the first process."""

        def connect(each: Measured, worker: Worker) -> None:
            worker.connect()
            each.target.check_unchanged()  # what it has imported is what was read

        def check(each: Measured, worker: Worker) -> None:
            found = worker.command("prepare")
            each.gate, each.metrics = found["gate"], found["metrics"]

        def begin(each: Measured, worker: Worker) -> None:
            worker.command("passes")

        self._each(connect, "starting")
        if self._process == 0:
            self._each(check, "checking")
        self._each(begin, "starting")

    def measure_pass(self, name: str, seconds: float) -> None:
        """Time a pass of all implementations in turns, and look at the ratios when it is time."""

        def begin(each: Measured, worker: Worker) -> None:
            worker.command("pass", name=name)
            each.batches.setdefault(name, []).append([])

        def measure_batch(each: Measured, worker: Worker) -> None:
            each.batches[name][-1].append(worker.command("batch")["samples"])

        doing = f"measuring the {name.removesuffix('_time')} pass"
        self._each(begin, f"{doing} of")
        look_at = LOOK_IN_FIRST * seconds if self._process == 0 else math.inf
        begun = time.monotonic()
        pairs = 0
        while pairs < MIN_PAIRS or time.monotonic() - begun < seconds:
            self._each(measure_batch)
            self._report(Progress(doing, self._process))
            self._measured.reverse()
            pairs += 1
            if not any(self._active()):
                return
            if pairs >= MIN_PAIRS and time.monotonic() - begun >= look_at:
                look_at = math.inf
                self._look(name, doing)
        self._look(name, doing)

    def _look(self, name: str, doing: str) -> None:
        if self._first.status == "ok":
            for each in self._measured:
                if each.status == "ok" and each is not self._first:
                    ratio = ratio_at_look(pair_ratios(each, self._first, name))
                    if ratio is not None:
                        each.ratios[name] = ratio
        self._report(Progress(doing, self._process, looked=True))

    def end(self) -> None:
        """Let the processes end, and keep what they have to say of their surroundings."""

        def end(each: Measured, worker: Worker) -> None:
            found = worker.end()
            each.environments.append(found["environment"])
            each.warnings.append(found["warnings"])

        self._each(end, "ending")


def pair_ratios(each: Measured, first: Measured, name: str) -> list[list[float]]:
    """The ratios of neighbouring batches' medians, of each process, in order of time."""
    return [
        [
            statistics.median(one) / statistics.median(other)
            for one, other in zip(batches, others, strict=False)
        ]
        for batches, others in zip(each.batches[name], first.batches[name], strict=False)
    ]


def measure_in_turns(
    benchmark: Benchmark,
    measured: Sequence[Measured],
    passes: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    report: Report,
) -> None:
    """Measure implementations of one problem in turns, in several processes each.

    An implementation that fails keeps its status and is left out from there on.

    Args:
        benchmark: what the runs are of.
        measured: a value for each implementation, which is filled in as the measuring goes on.
        passes: the timed metrics of the passes to measure, in the benchmark's order.
        seconds: how long to measure in all, the starting of processes not counted; it takes
            longer if a batch does.
        variables: environment variables that confine a process to the claimed device.
        report: called with what is being done, as often as something changes.

    Raises:
        SavedError: an implementation's file was saved meanwhile.
    """
    first = FIRST_SHARE * seconds
    later = (seconds - first) / (PROCESSES - 1)
    for process in range(PROCESSES):
        if not any(each.status == "ok" for each in measured):
            return
        with _Turns(benchmark, measured, variables, process, report) as turns:
            turns.start()
            for name in passes:
                turns.measure_pass(name, (later if process else first) / len(passes))
            report(Progress("ending", process, looked=True, measured=True))
            turns.end()
