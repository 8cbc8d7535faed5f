"""The assignment's program as a process of its own, timed from outside, and in its parts."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

PROGRAM = (sys.executable, "-m", "flashlab", "hw4")


class ProgramError(Exception):
    """The program did not succeed."""


def _write_input(file: IO[bytes], q: Array, k: Array, v: Array) -> None:
    """B, N and d, then q, k and v batch by batch."""
    file.write(struct.pack("<iii", *q.shape))
    for batch in range(q.shape[0]):
        for array in (q, k, v):
            file.write(np.ascontiguousarray(array[batch]).data.cast("B"))


def _run(step: str, source: Path, target: Path) -> dict[str, float]:
    """Run the program once: the whole as timed from outside, and the parts that it states, in s."""
    command = [*PROGRAM, str(source), str(target), "--step", step, "--json"]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    if done.returncode:
        raise ProgramError(f"hw4 --step {step}: {done.stderr.strip()}")
    return {"time": whole, **json.loads(done.stdout)}


def time_process(step: str, q: Array, k: Array, v: Array, times: int) -> dict[str, Any]:
    """Run the program on these arrays by a step of the ladder, so many times; ms, by metric.

    A metric has the median of its samples, one for each time. Parts that the program does not have
    are left out.

    Raises:
        ProgramError: it failed, with what it said.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-hw4-") as folder:
        source, target = Path(folder, "in.bin"), Path(folder, "out.bin")
        with source.open("wb") as file:
            _write_input(file, q, k, v)
        seconds = [_run(step, source, target) for _ in range(times)]
    metrics = {}
    for name in seconds[0]:
        samples = [timing[name] * 1e3 for timing in seconds]
        if min(samples) > 0:
            metrics[f"process_{name}"] = {
                "unit": "ms",
                "value": float(np.median(samples)),
                "samples": samples,
                "stopped": "count",
            }
    return metrics
