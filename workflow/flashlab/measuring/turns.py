"""What a process of a bench does: times batches of calls whenever it is told to.

It answers to commands on a socket, one at a time, and keeps still in between: so two
implementations are measured in turns, each in a warm process of its own.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from flashlab.measuring import environment
from flashlab.measuring.protocols import BATCH, sampler, synchronize, warm_up

BATCH_SECONDS = 0.02
"""About how long a batch of calls takes: short, so that what changes with time changes for all."""


def _batches(call: Callable[[], object], device: str) -> Iterator[list[float]]:
    """The times of one batch of calls after another, in seconds; warms up before the first."""
    warm_up(call, device)
    begin = time.perf_counter()
    call()
    synchronize(device)
    seconds = max(time.perf_counter() - begin, 1e-7)
    calls = max(1, min(BATCH, int(BATCH_SECONDS / seconds)))
    rounds = max(1, round(BATCH_SECONDS / (calls * seconds)))
    sample = sampler(call, device, calls)
    while True:
        yield list(itertools.chain.from_iterable(sample() for _ in range(rounds)))


def count(benchmark: ModuleType, kernel: ModuleType, order: dict[str, Any]) -> dict[str, Any]:
    """Follow the commands that arrive on the order's socket until ``end``, or until it closes.

    Commands and replies are JSON, one a line; an empty reply says that the kernel is imported and
    the device is set up.

    ``prepare`` checks the kernel and measures its memory; ``pass`` goes on to a pass by the name of
    its timed metric; ``batch`` times a batch of that pass. The answer holds what `prepare` gave and
    the warnings that the state of the device gives.
    """
    run = order["run"]
    device = run["device"]
    found: dict[str, Any] = {}
    torch.empty(1, device=device)  # sets up the device, while the other processes do so too
    states = environment.gpu_states(device)
    passes: Iterator[tuple[str, Callable[[], object]]] = iter(())
    batches: Iterator[list[float]] = iter(())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(order["socket"])
        commands = connection.makefile("r", encoding="utf-8")
        reply: dict[str, Any] = {}
        while True:
            connection.sendall(json.dumps(reply).encode() + b"\n")
            command = json.loads(commands.readline() or '{"do": "end"}')
            reply = {}
            match command["do"]:
                case "prepare":
                    reply = found = benchmark.prepare(kernel, run)
                case "passes":
                    passes = benchmark.passes(kernel, run)
                case "pass":
                    name = command["name"]
                    call = next(call for reached, call in passes if reached == name)
                    batches = _batches(call, device)
                    next(batches)  # for warming up
                case "batch":
                    reply = {"samples": next(batches)}
                case "end":
                    break
    states += environment.gpu_states(device)
    # The other processes on the device are the bench's own.
    alone = [{**state, "other_processes": 0} for state in states]
    return {**found, "warnings": environment.state_warnings(0.0, alone)}
