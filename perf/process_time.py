"""Where the time of a measuring process goes: each step of it, in forks as the server's.

Measures runs of the causal experiment by protocol `sampled`, one process each, and prints the mean
seconds of each step by implementation, by Python's own profiler. `prepare` holds
`check_correctness` and `peak_memory`; what the whole has beyond its steps is renewed inputs, and
the end of the process with its context.

Usage: PYTHONPATH=workflow python perf/process_time.py [IMPLEMENTATION ...]
"""

from __future__ import annotations

import contextlib
import cProfile
import importlib
import multiprocessing
import pstats
import statistics
import sys
import time
from collections import defaultdict
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, find_implementations
from flashlab.config import read_layer
from flashlab.measuring import child
from flashlab.measuring.supervise import LAZY

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
STEPS = (
    *("environment.environment", "measure.prepare", "measure.peak_memory", "measure.check_again"),
    *("gate.check_correctness", "protocols.warm_up", "protocols.settle", "protocols._sample"),
    *("protocols.kept", "protocols.check_held", "process_time.open_device"),
)
"""Functions by their module: each pass's and each comparison's."""

SIZES = {"cuda": (16, (128, 256, 512, 1024), 32, 2048), "cpu": (2, (64, 128), 4, 256)}
"""batch_size, the values of seq_len, num_heads, emb_dim."""


def open_device(device: str) -> None:
    """Make the context of a device with a first product."""
    (torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)).sum().item()


def measure_one(kernel: Implementation, shape: Shape, device: str, told: Connection) -> None:
    """Measure a run in this process; tells its status and the seconds of its steps."""
    sampled, profile = read_layer(CONFIG).keys["measure"]["sampled"], cProfile.Profile()
    run = attention_run(kernel.name, shape, ATTENTION.dtypes[device], device).to_row()
    seconds = sampled["max_seconds"][device]
    profile.runcall(open_device, device)
    reply = profile.runcall(
        child.measure,
        {
            "run": {**run, "inputs": kernel.form(ATTENTION, "sampled")},
            "protocol": {**sampled, "name": "sampled", "max_seconds": seconds},
            "measure": ATTENTION.measure,
            "kernel": str(kernel.path),
        },
    )
    found = pstats.Stats(profile).stats.items()
    spent = {f"{Path(file).stem}.{name}": total for (file, _, name), (*_, total, _) in found}
    told.send({"status": reply["status"], **{step: spent.get(step, 0) for step in STEPS}})


def main(names: list[str]) -> None:
    """Measure each run in a fork, and print."""
    device, fork = machine.detect_device("auto"), multiprocessing.get_context("fork")
    known, found = find_implementations(), defaultdict(list)
    batch_size, seq_lens, *block = SIZES[device]
    for module in (*LAZY, *(each for name in names for each in known[name].preloads)):
        with contextlib.suppress(ImportError):  # what a GPU alone has
            importlib.import_module(module)
    for name, seq_len, causal in product(names, seq_lens, (False, True)):
        shape = Shape(batch_size, seq_len, *block, causal=causal)
        (here, there), begin = fork.Pipe(duplex=False), time.perf_counter()
        process = fork.Process(target=measure_one, args=(known[name], shape, device, there))
        process.start()
        steps = here.recv()
        process.join()
        steps["whole process"] = time.perf_counter() - begin
        print(f"{name} {shape}: {steps.pop('status')}, {steps['whole process']:.2f} s", flush=True)
        found[name].append(steps)
    for name, runs in found.items():
        means = {step: statistics.fmean(run.get(step, 0) for run in runs) for step in runs[0]}
        print(f"{name}: {', '.join(f'{step} {mean:.2f} s' for step, mean in means.items())}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["Flash2", "Pytorch"])
