"""The spread between processes of identical code on this machine, by repeated measuring.

Measures the runs below in turn, each time in a process of its own, until the time is spent, and
prints for each pass how far the processes' medians lie apart and how many of all pairs the ±5% rule
calls equivalent, undecided or different. Records that are there already count too.

Usage: PYTHONPATH=workflow python perf/identical_runs.py FOLDER [SECONDS]
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections import Counter
from math import log
from pathlib import Path

from flashlab import machine
from flashlab.analysis.ratios import ratio
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.supervise import measure_run
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import read_record
from flashlab.statistics import estimate_median

PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}
RUNS = {
    # Bound by their launch, then the lab's own, then long ones, at which the chip caps its power.
    "cuda": {
        Shape(16, 128, 32, 2048, False): ("Flash2", "SdpaCudnn"),
        Shape(16, 1024, 32, 2048, False): ("Pytorch", "Flash2", "SdpaCudnn"),
        Shape(32, 512, 32, 2048, True): ("Flash2",),
        Shape(1, 16384, 16, 2048, False): ("Flash2", "SdpaCudnn"),
    },
    "cpu": {
        Shape(1, 128, 8, 512, False): ("Pytorch", "Flash2"),
        Shape(4, 256, 8, 512, True): ("Pytorch", "Flash2"),
    },
}


def main(folder: Path, seconds: float) -> None:
    """Measure every run once more, in turn, while there is time; then compare what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    device = machine.detect_device("auto")
    own = [(name, shape) for shape, names in RUNS[device].items() for name in names]
    runs = [attention_run(name, shape, ATTENTION.dtypes[device], device) for name, shape in own]
    os.environ[WORKFLOW_PID] = str(os.getpid())  # so that they are forked by one server
    kernels, deadline = find_implementations(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        for run in runs:
            path = folder / f"{run.slug}-{len([*folder.glob(f'{run.slug}-*.json')]):03d}.json"
            measure_run(ATTENTION, run, PROTOCOL, kernels[run.implementation], {}, path)
    for run, metric in itertools.product(runs, ("forward_time", "backward_time")):
        records = [read_record(path, run) for path in sorted(folder.glob(f"{run.slug}-*.json"))]
        measured = [record.metrics[metric] for record in records if record.status == "ok"]
        estimates = [estimate_median(each.samples) for each in measured]
        logs = [log(estimate.median) for estimate in estimates]
        found = Counter(ratio(0, *pair).verdict for pair in itertools.combinations(estimates, 2))
        spread = f"{statistics.stdev(logs):.2%}" if len(logs) > 1 else "unknown"
        print(f"{run} {metric}: {len(logs)} processes, sd {spread}; of the pairs {dict(found)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float([*sys.argv[2:], 120][0]))
