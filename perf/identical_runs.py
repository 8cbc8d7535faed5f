"""The spread between processes of identical code on this machine, by repeated measuring.

Measures the runs below in turn, each time in a process of its own, until the time is spent, and
prints for each pass how far the processes' medians lie apart and how many of all pairs the ±5% rule
calls equivalent, undecided or different. Records that are there already count too, so that a
further call adds to them, and ``--seconds 0`` only prints.

Usage: PYTHONPATH=workflow python perf/identical_runs.py FOLDER [--seconds 120] [--device cuda]
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections import Counter
from math import log
from pathlib import Path

from flashlab.analysis.ratios import ratio
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.supervise import measure_run
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import Record, read_record
from flashlab.runs import Run
from flashlab.statistics import estimate_median

PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}
GPU_RUNS = {
    # Bound by their launch, then the lab's own, then long ones, at which the chip caps its power.
    Shape(16, 128, 32, 2048, False): ("Flash2", "SdpaCudnn"),
    Shape(16, 1024, 32, 2048, False): ("Pytorch", "Flash2", "SdpaCudnn"),
    Shape(32, 512, 32, 2048, True): ("Flash2",),
    Shape(1, 16384, 16, 2048, False): ("Flash2", "SdpaCudnn"),
}
CPU_RUNS = {
    Shape(1, 128, 8, 512, False): ("Pytorch", "Flash2"),
    Shape(4, 256, 8, 512, True): ("Pytorch", "Flash2"),
    Shape(1, 1024, 8, 512, False): ("Pytorch", "Flash2"),
}
DTYPES = {"cuda": "float16", "cpu": "float32"}


def compare(run: Run, records: list[Record]) -> None:
    """Print a line for each pass of a run."""
    measured = [record for record in records if record.status == "ok"]
    for metric in ("forward_time", "backward_time"):
        estimates = [estimate_median(record.metrics[metric].samples) for record in measured]
        medians = [estimate.median for estimate in estimates]
        found = Counter(ratio(0, *pair).verdict for pair in itertools.combinations(estimates, 2))
        spread = statistics.stdev(map(log, medians)) if len(medians) > 1 else 0.0
        print(f"{run!s:55} {metric:13} {len(medians):3} processes, {min(medians):.4f} to", end=" ")
        print(f"{max(medians):.4f} ms, sd {spread:.2%}; of the pairs {dict(found)}", flush=True)


def main() -> None:
    """Measure every run once more, in turn, while there is time; then compare what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--device", choices=sorted(DTYPES), default="cuda")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = [
        attention_run(name, shape, DTYPES[given.device], given.device)
        for shape, names in (GPU_RUNS if given.device == "cuda" else CPU_RUNS).items()
        for name in names
    ]
    os.environ[WORKFLOW_PID] = str(os.getpid())  # so that they are forked by one server
    kernels, deadline = find_implementations(), time.monotonic() + given.seconds
    while time.monotonic() < deadline:
        for run in runs:
            count = len([*given.folder.glob(f"{run.slug}-*.json")])
            path = given.folder / f"{run.slug}-{count:03d}.json"
            measure_run(ATTENTION, run, PROTOCOL, kernels[run.implementation], {}, path)
    for run in runs:
        compare(run, [read_record(p, run) for p in sorted(given.folder.glob(f"{run.slug}-*.json"))])


if __name__ == "__main__":
    main()
