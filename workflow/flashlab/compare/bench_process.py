"""A measuring process of a bench as its parent controls it: its start, its commands, its end.

Nothing here imports torch.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.forks import START_SECONDS
from flashlab.measuring.supervise import (
    count_oom_kills,
    ended_without_answer,
    server_of,
    start_measuring,
)
from flashlab.records import INTERLEAVED, time_out_message
from flashlab.runs import Run

WORKER = "flashlab.measuring.turns"

LEAST_SECONDS = 60.0
"""The least time limit of a step in seconds: some kernels are compiled in it."""

TIMES_OTHERS = 10
"""The time limit of a step as a multiple of the slowest of the others, if that is more."""

END_SECONDS = 10.0
"""Seconds that a process may take to answer after its last command."""


class Patience:
    """The time limit of each step: the one asked for, or a multiple of what the others took."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._longest: dict[str, float] = {}

    def limit(self, step: str) -> float:
        """The seconds that a step may take."""
        return self._seconds or max(LEAST_SECONDS, TIMES_OTHERS * self._longest.get(step, 0.0))

    def note(self, step: str, seconds: float) -> None:
        """Note the seconds that a step took."""
        self._longest[step] = max(seconds, self._longest.get(step, 0.0))


class EndedError(Exception):
    """A process that ended before its time; `ending` holds its status and its message."""

    def __init__(self, ending: Mapping[str, Any]) -> None:
        super().__init__(ending["message"])
        self.ending = ending


def _timed_out(seconds: float) -> dict[str, Any]:
    message = f"{time_out_message(seconds)}; --timeout SECONDS allows more"
    return {"status": "error", "message": message}


class Worker(ExitStack):
    """A process with one implementation in it, which measures only when it is told to.

    To close it ends the process, if it still runs, and removes what belongs to it.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        run: Run,
        implementation: Implementation,
        variables: Mapping[str, str],
        patience: Patience,
    ) -> None:
        super().__init__()
        self._patience = patience
        folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="flashlab-bench-")))
        self._answer, self._errors = folder / "answer.json", folder / "errors"
        self._errors.touch()
        self._oom_kills = count_oom_kills()
        order = {
            "run": {**run.to_row(), "inputs": implementation.form(benchmark, INTERLEAVED)},
            "measure": benchmark.measure,
            "kernel": str(implementation.path),
            "preloads": implementation.preloads,
            "part": WORKER,
        }
        server = server_of(os.getpid())
        self._process = start_measuring(server, order, variables, self._answer, self._errors)
        self.callback(self._process.kill)

    def connect(self) -> None:
        """Wait until the kernel is imported. Raises EndedError if it cannot be."""
        self._reply(self._patience.limit("import"), START_SECONDS)

    def command(self, do: str, **parts: Any) -> dict[str, Any]:
        """Its reply to a command (`flashlab.measuring.turns`). Raises EndedError if it ended."""
        limit, begun = self._patience.limit(do), time.monotonic()
        self._process.say({"do": do, **parts})
        reply = self._reply(limit)
        self._patience.note(do, time.monotonic() - begun)
        return reply

    def _reply(self, limit: float, to_start: float = 0.0) -> dict[str, Any]:
        try:
            reply = self._process.answer(to_start + limit)
        except TimeoutError as error:
            raise EndedError(_timed_out(limit)) from error
        if reply is None:
            raise EndedError(self._ending(limit))
        return reply

    def _ending(self, limit: float) -> dict[str, Any]:
        """The process's last answer, or its end in words if there is none."""
        returncode = self._process.wait(END_SECONDS)
        if self._answer.exists():
            reply: dict[str, Any] = json.loads(self._answer.read_text(encoding="utf-8"))
            reply["environment"]["started_warm"] = self._process.is_warm
            return reply
        if returncode is None:
            return _timed_out(limit)
        return ended_without_answer(returncode, count_oom_kills() - self._oom_kills, self._errors)

    def end(self) -> dict[str, Any]:
        """Tell it to end; its answer. Raises EndedError if it gave none."""
        self._process.say({"do": "end"})
        reply = self._ending(END_SECONDS)
        if reply["status"] != "ok":
            raise EndedError(reply)
        return reply
