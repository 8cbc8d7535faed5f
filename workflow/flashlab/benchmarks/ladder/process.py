"""The whole process of the assignment's program: timed from outside, and in its parts."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flashlab.benchmarks.ladder.step import Array
from flashlab.hw4.program import HEADER  # whose edit measures again

PROGRAM = (sys.executable, "-m", "flashlab", "hw4")


class ProgramError(Exception):
    """The program did not succeed."""


def run_program(step: str, source: Path, target: Path) -> dict[str, float]:
    """Run the program once as a user does: seconds of the whole, `time`, and the parts it states.

    Raises:
        ProgramError: it failed, with what it said.
    """
    command = [*PROGRAM, str(source), str(target), "--step", step, "--json"]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    if done.returncode:
        raise ProgramError(f"hw4 --step {step}: {done.stderr.strip().removeprefix('error: ')}")
    return {"time": whole, **json.loads(done.stdout)}


def time_process(step: str, q: Array, k: Array, v: Array, times: int) -> dict[str, Any]:
    """Run the program on these arrays by a step of the ladder, so many times; ms, by metric.

    A metric has the median of its samples, one for each time. Parts that the program does not have
    are left out. ProgramError as of `run_program`.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-hw4-") as folder:
        source, target = Path(folder, "in.bin"), Path(folder, "out.bin")
        with source.open("wb") as file:
            file.write(HEADER.pack(*q.shape))
            for batch in zip(q, k, v, strict=True):
                file.writelines(matrix.tobytes() for matrix in batch)
        runs = [run_program(step, source, target) for _ in range(times)]
    samples = {name: [1e3 * run[name] for run in runs] for name in runs[0]}
    return {
        f"process_{name}": {
            "unit": "ms",
            "value": statistics.median(of_part),
            "samples": of_part,
            "stopped": "count",
        }
        for name, of_part in samples.items()
        if min(of_part) > 0
    }
