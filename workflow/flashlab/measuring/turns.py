"""A process of a bench: it times a batch of calls at each command, and keeps still in between.

So two implementations are measured in turns, each in a warm process of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from flashlab.forks import receive, send
from flashlab.measuring import environment, protocols
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.protocols import Pass, Sampler

BATCH_SECONDS = 0.02
"""Approximate seconds of a batch of calls: short, so that a drift affects all implementations."""


class _Turns:
    """A pass that is timed in turns with those of other processes."""

    def __init__(self, timed: Pass, device: str) -> None:
        """Warm up, and set the number of calls of a batch."""
        protocols.warm_up(timed, device)
        self._calls = round(BATCH_SECONDS / max(timed.seconds, 1e-7))
        self._timed, self._device = timed, device
        self._sample, self._slowest = Sampler(timed, device), 0.0

    def batch(self) -> dict[str, Any]:
        """The times of a turn's calls, and what they were prepared for, in seconds."""
        self._sample.begin()
        samples = self._sample()
        while len(samples) < self._calls:
            samples += self._sample()
        self._slowest = max(self._slowest, statistics.median(samples))
        return {"samples": samples, "besides": self._sample.besides}

    def end(self) -> int:
        """Check fresh numbers; returns the number of calls. IncorrectError if one is wrong."""
        for _ in range(protocols.SURE_TIMINGS):
            if not (doubt := protocols.kept(self._sample, self._slowest)):
                break
            self.batch()  # a busy machine may be slower by now than in all turns
        if doubt:
            raise IncorrectError(doubt)
        protocols.check_held(self._timed, self._device)
        return self._timed.calls


def count(benchmark: ModuleType, kernel: ModuleType, order: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the commands that arrive on the order's channel until ``end``, or until it closes.

    Commands and replies are JSON, one a line; an empty reply says that the kernel is imported and
    the device is set up. ``prepare`` checks the kernel and measures its memory; ``pass`` goes on to
    a pass by the name of its timed metric, once the last result of the one before is checked;
    ``batch`` times a batch of its calls; ``check`` checks the last one's, and fresh inputs. The
    answer holds what `prepare` gave, and warnings that the state of the device gives.
    """
    run, channel, device = order["run"], order["channel"], order["run"]["device"]
    torch.empty(1, device=device)  # sets it up, while the other processes do so too
    states = environment.gpu_states(device)
    passes: Iterator[tuple[str, Pass]] = iter(())
    prepared, reply, turns, calls = dict[str, Any](), dict[str, Any](), None, 0
    while True:
        send(channel, reply)
        command, reply = receive(channel) or {"do": "end"}, {}
        if command["do"] in ("pass", "check") and turns:
            calls += turns.end()
            turns = None  # with the tensors of its pass
        match command["do"]:
            case "prepare":
                reply = prepared = benchmark.prepare(kernel, run)
            case "passes":
                passes = benchmark.passes(kernel, run)
            case "pass":
                turns = _Turns(next(p for name, p in passes if name == command["name"]), device)
            case "batch" if turns:
                reply = turns.batch()
            case "check":
                passes = iter(())
                reply = benchmark.check_again(kernel, run, calls)
            case "end":
                break
    states += environment.gpu_states(device)
    # The other processes on the device are the bench's own.
    alone = [{**state, "other_processes": 0} for state in states]
    return {**prepared, "warnings": environment.state_warnings(0.0, alone)}
