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
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import machine
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
from flashlab.records import time_out_message
from flashlab.runs import Run

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

PROTOCOL, WORKER = "interleaved", "flashlab.measuring.turns"
"""The name of this protocol, and the module that a process answers commands by."""

END_SECONDS = 10.0
"""Seconds that a process may take to answer after its last command."""


@dataclass
class Candidate:
    """One implementation that is measured, its process, and its results so far.

    `batches` has those of each pass by its timed metric, a list for each process, `looks` the last
    look at the ratio of each pass. `status` and `message` are as a record's; one that is not ok is
    measured no more. `warnings` are of each process that has ended. A step may take `limit_s`.
    """

    target: Target
    run: Run
    limit_s: float
    status: str = "ok"
    message: str | None = None
    peak_memory: float | None = None
    batches: dict[str, list[Batches]] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    warnings: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def start(self, benchmark: Benchmark, variables: Mapping[str, str], stack: ExitStack) -> None:
        """Start a process, which measures only when it is told to; it ends with the stack."""
        kernel, self._oom_kills = self.target.implementation, count_oom_kills()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="flashlab-bench-"))
        self._answer, self._errors = Path(folder, "answer.json"), Path(folder, "errors")
        self._errors.touch()
        order = {
            "run": {**self.run.to_row(), "inputs": kernel.form(benchmark, PROTOCOL)},
            **{"measure": benchmark.measure, "kernel": str(kernel.path), "part": WORKER},
            "preloads": kernel.preloads,
            "surroundings": identified(self.run.device, variables) | machine.surroundings(),
        }
        files = (self._answer, self._errors)
        self._process = start_measuring(server_of(os.getpid()), order, variables, *files)
        stack.callback(self._process.kill)

    def command(self, do: str, **parts: Any) -> dict[str, Any] | None:
        """The reply to a command (`flashlab.measuring.turns`), or to its start where that is empty.

        None where the process has ended or takes too long: it is out.
        """
        if do:
            self._process.say({"do": do, **parts})
        try:
            reply = self._process.answer(self.limit_s + (0.0 if do else START_SECONDS))
        except TimeoutError:
            self.leave(self._timed_out())
            return None
        if reply is None:
            self.leave(self._ending(self.limit_s))
        return reply

    def end(self) -> None:
        """Check once more, and let the process end; its warnings are kept."""
        if self.command("check") is not None:
            self._process.say({"do": "end"})
            reply = self._ending(END_SECONDS)
            self.warnings.append(reply.get("warnings", ()))
            if reply["status"] != "ok":
                self.leave(reply)

    def leave(self, ending: Mapping[str, Any]) -> None:
        """Be measured no more, for this status and its message."""
        self.status, self.message = ending["status"], ending["message"]
        self._process.kill()

    def time_batch(self, name: str) -> None:
        """Time a batch of calls of a pass."""
        begin = time.monotonic()
        if (reply := self.command("batch")) is not None:
            passed, samples = time.monotonic() - begin, reply["samples"]
            self.batches[name][-1].append(samples)
            timed = sum(samples) + reply["besides"]
            self.sections.append(Section(passed, timed, self.run.device == "cpu"))

    def _timed_out(self) -> dict[str, Any]:
        message = f"{time_out_message(self.limit_s)}; --timeout SECONDS allows more"
        return {"status": "error", "message": message}

    def _ending(self, seconds: float) -> dict[str, Any]:
        """The process's last answer, or its end in words if there is none."""
        returncode = self._process.wait(seconds)
        if self._answer.exists():
            return dict(json.loads(self._answer.read_text(encoding="utf-8")))
        if returncode is None:
            return self._timed_out()
        return ended_without_answer(returncode, count_oom_kills() - self._oom_kills, self._errors)


def _measured(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The implementations that are still measured, one after the other."""
    return (candidate for candidate in candidates if candidate.status == "ok")


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
        candidate.command("pass", name=name)
        candidate.batches.setdefault(name, []).append([])
        candidate.sections.clear()
    begun, pairs, spent, in_turn = time.monotonic(), 0, 0.0, [*candidates]
    while any(_measured(candidates)) and (pairs < MIN_PAIRS or spent < seconds):
        for candidate in _measured(in_turn):
            candidate.time_batch(name)
        in_turn.reverse()
        pairs, spent = pairs + 1, time.monotonic() - begun
        if pairs >= MIN_PAIRS and spent >= look_after:
            look_after = math.inf
            _look(candidates, name)
            looked()
    for candidate in _measured(candidates):
        if refusal := refused([together(candidate.sections)]):
            candidate.leave(refusal)
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
    mine, theirs = (
        [[statistics.median(calls) for calls in batches] for batches in each.batches[name]]
        for each in (candidate, first)
    )
    return [
        [one / other for one, other in zip(*both, strict=False)]
        for both in zip(mine, theirs, strict=False)
    ]


def measure_in_turns(
    benchmark: Benchmark,
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    looked: Callable[[], None],
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
        looked: is called as often as more is known.

    Raises:
        SavedError: an implementation's file was saved meanwhile.
    """
    first = FIRST_SHARE * seconds / len(passes)
    later = (seconds / len(passes) - first) / (PROCESSES - 1)
    for process in range(PROCESSES):
        share, look_after = (later, math.inf) if process else (first, LOOK_IN_FIRST * first)
        with ExitStack() as stack:
            for candidate in _measured(candidates):
                candidate.start(benchmark, variables, stack)
            for candidate in _measured(candidates):
                if candidate.command("") is not None:
                    candidate.target.check_unchanged()  # it has imported the files that were read
            for candidate in _measured(candidates):
                if process == 0 and (checked := candidate.command("prepare")):
                    memory = checked["metrics"].get("peak_memory", {})
                    candidate.peak_memory = memory.get("value")
            for candidate in _measured(candidates):
                candidate.command("passes")
            for name in passes if any(_measured(candidates)) else ():
                measure_pass(candidates, name, share, look_after, looked)
            for candidate in _measured(candidates):
                candidate.end()
