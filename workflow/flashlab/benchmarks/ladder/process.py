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


def time_process(step: str, q: Array, k: Array, v: Array) -> dict[str, Any]:
    """Run the program on these arrays by a step of the ladder; times in ms, by metric.

    The whole is timed from outside; the parts are those that the program states, without those that
    it does not have.

    Raises:
        ProgramError: it failed, with what it said.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-hw4-") as folder:
        source, target = Path(folder, "in.bin"), Path(folder, "out.bin")
        with source.open("wb") as file:
            _write_input(file, q, k, v)
        command = [*PROGRAM, str(source), str(target), "--step", step, "--json"]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        whole = time.perf_counter() - begin
    if done.returncode:
        raise ProgramError(f"hw4 --step {step}: {done.stderr.strip()}")
    seconds = {"time": whole, **json.loads(done.stdout)}
    return {
        f"process_{name}": {"unit": "ms", "value": part * 1e3}
        for name, part in seconds.items()
        if part > 0
    }
