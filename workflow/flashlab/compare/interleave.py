"""Measuring in turns: each implementation in a process of its own, and one of them at a time.

A batch of calls of the first implementation is followed by one of the second, and so on; the next
time round the order is reversed. What changes with time, such as clocks, heat and other load, then
changes for all alike. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.compare.looks import FIRST_SHARE, LOOK_IN_FIRST, MIN_PAIRS, PROCESSES, Look, look_at
from flashlab.compare.targets import Target
from flashlab.forks import START_SECONDS
from flashlab.measuring.supervise import (
    count_oom_kills,
    ended_without_answer,
    identified,
    server_of,
    start_measuring,
)
from flashlab.measuring.supervised import Section, refused, together
from flashlab.records import INTERLEAVED, time_out_message
from flashlab.runs import Run

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

WORKER = "flashlab.measuring.turns"

END_SECONDS = 10.0
"""Seconds that a process may take to answer after its last command."""


class EndedError(Exception):
    """A process that ended before its time; `ending` holds its status and its message."""

    def __init__(self, ending: Mapping[str, Any]) -> None:
        super().__init__(ending["message"])
        self.ending = ending


class Worker(ExitStack):
    """A process with one implementation in it, which measures only when it is told to.

    Each step may take `limit_s`. To close it ends the process, if it still runs.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        run: Run,
        implementation: Implementation,
        variables: Mapping[str, str],
        limit_s: float,
    ) -> None:
        super().__init__()
        self._limit_s, self._oom_kills = limit_s, count_oom_kills()
        folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="flashlab-bench-")))
        self._answer, self._errors = folder / "answer.json", folder / "errors"
        self._errors.touch()
        order = {
            "run": {**run.to_row(), "inputs": implementation.form(benchmark, INTERLEAVED)},
            "measure": benchmark.measure,
            "kernel": str(implementation.path),
            "preloads": implementation.preloads,
            "part": WORKER,
            "surroundings": identified(run.device, variables) | machine.surroundings(),
        }
        server = server_of(os.getpid())
        self._process = start_measuring(server, order, variables, self._answer, self._errors)
        self.callback(self._process.kill)

    def reply(self, to_start: float = 0.0) -> dict[str, Any]:
        """Its reply to the last command, or to its start. Raises EndedError if it ended."""
        try:
            reply = self._process.answer(to_start + self._limit_s)
        except TimeoutError as error:
            raise EndedError(self._timed_out()) from error
        if reply is None:
            raise EndedError(self._ending(self._limit_s))
        return reply

    def command(self, do: str, **parts: Any) -> dict[str, Any]:
        """Its reply to a command (`flashlab.measuring.turns`). Raises EndedError if it ended."""
        self._process.say({"do": do, **parts})
        return self.reply()

    def end(self) -> dict[str, Any]:
        """Tell it to end; its answer. Raises EndedError if it gave none."""
        self._process.say({"do": "end"})
        reply = self._ending(END_SECONDS)
        if reply["status"] != "ok":
            raise EndedError(reply)
        return reply

    def _timed_out(self) -> dict[str, Any]:
        message = f"{time_out_message(self._limit_s)}; --timeout SECONDS allows more"
        return {"status": "error", "message": message}

    def _ending(self, seconds: float) -> dict[str, Any]:
        """The process's last answer, or its end in words if there is none."""
        returncode = self._process.wait(seconds)
        if self._answer.exists():
            reply: dict[str, Any] = json.loads(self._answer.read_text(encoding="utf-8"))
            reply["environment"]["started_warm"] = self._process.is_warm
            return reply
        if returncode is None:
            return self._timed_out()
        return ended_without_answer(returncode, count_oom_kills() - self._oom_kills, self._errors)


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

    @contextmanager
    def turn(self) -> Iterator[Worker]:
        """A block in which it acts; if its process ends there, it is measured no more."""
        try:
            yield self.worker
        except EndedError as error:
            self.status, self.message = error.ending["status"], error.ending["message"]
            self.gate = error.ending.get("gate", self.gate)
            self.environments += filter(None, [error.ending.get("environment")])
            self.worker.close()


Saying = Callable[[str], None]
"""Takes what is being done, in words."""


def _measured(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The implementations that are still measured, one after the other."""
    return (candidate for candidate in candidates if candidate.status == "ok")


def _start(candidates: Sequence[Candidate], is_first: bool, say: Saying) -> None:
    """Wait for the kernels, and check them in the first process."""
    for candidate in _measured(candidates):
        say(f"starting {candidate.target.label}")
        with candidate.turn() as worker:
            worker.reply(START_SECONDS)
            candidate.target.check_unchanged()  # it has imported the files that were read
    for candidate in _measured(candidates):
        with candidate.turn() as worker:
            if is_first:
                say(f"checking {candidate.target.label}")
                checked = worker.command("prepare")
                candidate.gate, candidate.metrics = checked["gate"], checked["metrics"]
            worker.command("passes")


def measure_pass(
    candidates: Sequence[Candidate],
    name: str,
    seconds: float,
    look_after: float,
    looked: Callable[[], None],
) -> None:
    """Time a pass of all in turns, and compute the ratios after so many seconds and at the end.

    `name` is the pass's timed metric; `looked` is called after each look.
    """
    for candidate in _measured(candidates):
        with candidate.turn() as worker:
            worker.command("pass", name=name)
            candidate.batches.setdefault(name, []).append([])
            candidate.sections.clear()
    begun, pairs, spent, in_turn = time.monotonic(), 0, 0.0, [*candidates]
    while any(_measured(candidates)) and (pairs < MIN_PAIRS or spent < seconds):
        for candidate in _measured(in_turn):
            with candidate.turn() as worker:
                begin = time.monotonic()
                reply = worker.command("batch")
                passed, is_filled = time.monotonic() - begin, candidate.run.device == "cpu"
                samples = reply["samples"]
                candidate.batches[name][-1].append(samples)
                timed = sum(samples) + reply["besides"]
                candidate.sections.append(Section(passed, timed, is_filled))
        in_turn.reverse()
        pairs, spent = pairs + 1, time.monotonic() - begun
        if pairs >= MIN_PAIRS and spent >= look_after:
            look_after = math.inf
            _look(candidates, name)
            looked()
    for candidate in _measured(candidates):
        with candidate.turn():
            if refusal := refused([together(candidate.sections)]):
                raise EndedError(refusal)
    _look(candidates, name)
    looked()


def _look(candidates: Sequence[Candidate], name: str) -> None:
    """Compute the ratio of each implementation's neighbouring batches to the first one's."""
    first, *others = candidates
    for candidate in _measured(others) if first.status == "ok" else ():
        if look := look_at(pair_ratios(candidate, first, name)):
            candidate.looks[name] = look


def pair_ratios(candidate: Candidate, first: Candidate, name: str) -> list[list[float]]:
    """The ratios of neighbouring batches' medians, of each process, in order of time."""
    return [
        [
            statistics.median(one) / statistics.median(other)
            for one, other in zip(batches, others, strict=False)
        ]
        for batches, others in zip(candidate.batches[name], first.batches[name], strict=False)
    ]


def _end(candidates: Sequence[Candidate]) -> None:
    """Check each once more and let it end; its environment and warnings are kept."""
    for candidate in _measured(candidates):
        with candidate.turn() as worker:
            candidate.gate = {**(candidate.gate or {}), **worker.command("check")}
            reply = worker.end()
            candidate.environments.append(reply["environment"])
            candidate.warnings.append(reply["warnings"])


def measure_in_turns(
    benchmark: Benchmark,
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    limit_s: float,
    say: Saying,
) -> None:
    """Measure implementations of one problem in turns, in several processes each.

    What is known of the candidates is filled in as the measuring goes on; one that fails keeps its
    status and is left out from there on.

    Args:
        benchmark: of the problem.
        candidates: the first of which the others are compared with.
        passes: timed metrics in the benchmark's order.
        seconds: for all of them, without what processes take to start; it takes longer if a batch
            does.
        variables: of the environment; they confine a process to the claimed device.
        limit_s: seconds that a step of a process may take.
        say: is called as often as something else is done or known.

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
                candidate.worker = Worker(benchmark, candidate.run, kernel, variables, limit_s)
                stack.enter_context(candidate.worker)
            if not any(_measured(candidates)):
                return
            _start(candidates, process == 0, say)
            for name in passes:
                which = f"process {process + 1} of {PROCESSES}"
                doing = partial(say, f"measuring the {name.removesuffix('_time')} pass, {which}")
                doing()
                measure_pass(candidates, name, share, look_after, doing)
            say("ending")
            _end(candidates)
