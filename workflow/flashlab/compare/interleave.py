"""Measuring in turns: each implementation in a process of its own, and one of them at a time.

A batch of calls of the first implementation is followed by one of the second, and so on; the next
time round the order is reversed. What changes with time, such as clocks, heat and other load, then
changes for all alike. Nothing here imports torch.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks import implementations
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import Implementation, ImplementationError
from flashlab.files import read_json
from flashlab.forks import START_SECONDS
from flashlab.measuring import supervise
from flashlab.measuring.supervised import Section, refused, together
from flashlab.records import time_out_message
from flashlab.runs import Run
from flashlab.statistics import MIN_SAMPLES

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

PROCESSES = 4
"""The processes of each implementation: the first, and three restarts."""

FIRST_SHARE = 1 / 16
"""Share of the time for which the first process is measured, so that there is soon a verdict; the
others share the rest equally."""

AT_ONCE, END_SECONDS = 0.01, 10.0
"""Seconds that a process may take to end without a reply, and after its last command."""


class SavedError(Exception):
    """A file that was saved while it was measured, so that its processes ran different code."""


class _LeftError(Exception):
    """What ends the measuring of an implementation: status and message, as in a record."""


@dataclass
class Candidate:
    """One implementation that is measured, its process, and its results so far.

    `batches` has those of each pass by its timed metric, a list for each process. `status` and
    `message` are as a record's; one that is not ok is measured no more. `warnings` are the codes
    of each process that has ended. A step may take `limit_s`.
    """

    label: str
    implementation: Implementation
    run: Run
    limit_s: float
    status: str = "ok"
    message: str | None = None
    batches: dict[str, list[Batches]] = field(default_factory=dict)
    warnings: list[list[str]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def start(self, variables: Mapping[str, str], stack: ExitStack) -> None:
        """Start a process, which measures only when it is told to; it ends with the stack."""
        kernel, self._oom_kills = self.implementation, supervise.count_oom_kills()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="flashlab-bench-"))
        self._answer, self._errors = files = Path(folder, "answer.json"), Path(folder, "errors")
        self._errors.touch()
        known = supervise.identified(self.run.device, variables) | machine.surroundings()
        order = {
            "run": {**self.run.to_row(), "inputs": kernel.form(ATTENTION, "interleaved")},
            **{"measure": ATTENTION.measure, "kernel": str(kernel.path), "surroundings": known},
            **{"part": "flashlab.measuring.turns", "preloads": kernel.preloads},
        }
        server = supervise.server_of(os.getpid())
        self._process = supervise.start_measuring(server, order, variables, *files)
        stack.callback(self._process.kill)

    def imported(self) -> None:
        """Wait until the kernel is imported; SavedError where its files are others by now."""
        self.command(more_s=START_SECONDS)
        with suppress(ImplementationError, OSError):
            now = implementations.read_kernel_file(self.implementation.path)
            if now.digest == self.implementation.digest:
                return
        raise SavedError(f"{self.label} was saved while it was measured; measure it again")

    def command(self, do: str = "", more_s: float = 0.0, **parts: Any) -> dict[str, Any]:
        """The reply to a command (`measuring.turns`) or to none; _LeftError without one in time."""
        if do:
            self._process.say({"do": do, **parts})
        with suppress(TimeoutError):
            if (reply := self._process.answer(self.limit_s + more_s)) is not None:
                return reply
        raise _LeftError(self._ending(AT_ONCE))

    def begin(self, name: str) -> None:
        """Go on to a pass, by its timed metric."""
        self.sections.clear()
        self.batches.setdefault(name, []).append([])
        self.command("pass", name=name)

    def time_batch(self, name: str) -> None:
        """Time a batch of calls of a pass."""
        begin = time.monotonic()
        reply = self.command("batch")
        timed = sum(reply["samples"]) + reply["besides"]
        self.sections.append(Section(time.monotonic() - begin, timed, self.run.device == "cpu"))
        self.batches[name][-1].append(reply["samples"])

    def judge(self) -> None:
        """Refuse times that do not add up to what passed by this process's clock.

        On a busy machine, both processes wait for a core: the half of the batches that waited less
        decides.
        """
        by_wait = sorted(self.sections, key=lambda each: each.samples / each.seconds)
        if found := refused([together(by_wait[len(by_wait) // 2 :])]):
            raise _LeftError(found)

    def end(self) -> None:
        """Check once more, and let the process end; its warnings are kept."""
        self.command("check")
        self._process.say({"do": "end"})
        reply = self._ending(END_SECONDS)
        self.warnings.append(sorted({each["code"] for each in reply.get("warnings", ())}))
        if reply["status"] != "ok":
            raise _LeftError(reply)

    def _ending(self, seconds: float) -> dict[str, Any]:
        """The process's last answer, or its end in words if there is none within some seconds."""
        returncode = self._process.wait(seconds)
        if self._answer.exists():
            return dict(read_json(self._answer))
        if returncode is None:
            message = f"{time_out_message(self.limit_s)}; --timeout SECONDS allows more"
            return {"status": "error", "message": message}
        return supervise.ended_without_answer(
            returncode, supervise.count_oom_kills() - self._oom_kills, self._errors
        )


def _each(candidates: Sequence[Candidate], act: Callable[..., object], *arguments: Any) -> bool:
    """Have each that is still measured do something, in order; whether any is then."""
    for candidate in (each for each in candidates if each.status == "ok"):
        try:
            act(candidate, *arguments)
        except _LeftError as error:
            candidate.status, candidate.message = error.args[0]["status"], error.args[0]["message"]
            candidate._process.kill()
    return any(candidate.status == "ok" for candidate in candidates)


def measure_in_turns(
    candidates: Sequence[Candidate], passes: Sequence[str], seconds: float, env: Mapping[str, str]
) -> Iterator[None]:
    """Measure implementations in turns, in several processes each, and pause for each look.

    What is known of them is filled in as the measuring goes on (`compare.bench`). One that fails
    keeps its status, and is left out then. `passes` are timed metrics in the benchmark's order, for
    all of which it takes so many seconds, and what processes take to start; longer if a batch does.
    `env` confines a process to the claimed device. SavedError where an implementation's file
    was saved meanwhile.
    """
    first = FIRST_SHARE * seconds / len(passes)
    later = (seconds / len(passes) - first) / (PROCESSES - 1)
    for process in range(PROCESSES):
        with ExitStack() as stack:
            _each(candidates, Candidate.start, env, stack)
            _each(candidates, Candidate.imported)
            for command in ("passes",) if process else ("prepare", "passes"):
                _each(candidates, Candidate.command, command)
            for name in passes:
                goes_on, in_turn = _each(candidates, Candidate.begin, name), [*candidates]
                begun, pairs, limit = time.monotonic(), 0, later if process else first
                while goes_on and (pairs < MIN_SAMPLES or time.monotonic() - begun < limit):
                    goes_on = _each(in_turn, Candidate.time_batch, name)
                    in_turn.reverse()
                    pairs += 1
                _each(candidates, Candidate.judge)
                yield
            _each(candidates, Candidate.end)
