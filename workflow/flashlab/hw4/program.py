"""The assignment's program: from an input file to an output file, timed in its parts."""

from __future__ import annotations

import difflib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from flashlab.benchmarks.implementations import KERNELS, Implementation, find_implementations
from flashlab.benchmarks.ladder.declaration import PARTS
from flashlab.benchmarks.ladder.step import Step
from flashlab.files import open_atomically
from flashlab.hw4 import Hw4Error
from flashlab.hw4.format import open_input, piece_shape, pieces, read_batches
from flashlab.measuring.kernel import load_kernel

LADDER = KERNELS / "ladder"


def steps() -> dict[str, Implementation]:
    """The steps of the ladder by name, the first one first."""
    after = {step.previous: step for step in find_implementations(LADDER).values()}
    ordered, step = dict[str, Implementation](), after.get(None)
    while step:
        ordered[step.name] = step
        step = after.get(step.name)
    return ordered


def find_step(name: str | None) -> Implementation:
    """The step of a name, in capitals or not; the last one without a name. Hw4Error for none."""
    known = {step.casefold(): of_step for step, of_step in steps().items()}
    wanted = [*known][-1] if name is None else name.casefold()
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=1)
        meant = f" (did you mean {known[close[0]].name}?)" if close else ""
        names = ", ".join(step.name for step in known.values())
        raise Hw4Error(f"unknown step {name}{meant}; the steps are {names}")
    return known[wanted]


def _seconds_since_start() -> float:
    """The age of this process in seconds, to within 10 ms on Linux and a second elsewhere."""
    if sys.platform != "linux":
        return time.time() - psutil.Process().create_time()
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def run_program(source: Path, target: Path, step_name: str | None) -> dict[str, float]:
    """Read an input file, compute attention by a step of the ladder, write the output file.

    The files go through memory some batches at a time. `target` appears once it is complete.
    Returns the seconds of each of `PARTS`: `start` is from the start of the process to where its
    work begins; `buffers` allocates the host's memory, long where it is pinned; `overlapped` is
    copies and kernel of a step that overlaps them. Hw4Error where file, step or device forbid it.
    """
    spent = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        spent[part] += time.perf_counter() - begin

    if target.is_dir():
        raise Hw4Error(f"{target}: is a folder; name the file to write")
    with open_input(source) as (file, sizes):
        found = find_step(step_name)
        try:
            step = Step(load_kernel(found.path))
            spent["start"] = _seconds_since_start()
            with timed("compilation"):
                rows = 128 if sizes.seq_len % 128 == 0 else sizes.seq_len % 128
                small = (np.zeros((1, rows, sizes.head_dim), np.float32) for _ in range(4))
                step.copy_and_run(*small)
        except ImportError as error:
            raise Hw4Error(f"the step {found.name} cannot be imported: {error}") from error
        except NotImplementedError as error:
            raise Hw4Error(f"{error}; --step Sequential runs on the CPU") from error
        with timed("buffers"):
            arrays = [step.host_array(piece_shape(sizes)) for _ in range(4)]
        with open_atomically(target, binary=True, durable=False) as output:
            for q, k, v, out in pieces(sizes, *arrays):
                with timed("file_in"):
                    read_batches(file, q, k, v)
                step.compute(q, k, v, out, timed=timed)
                with timed("file_out"):
                    output.write(out.data.cast("B"))
            begin = time.perf_counter()
        spent["file_out"] += time.perf_counter() - begin  # closed and renamed
    return spent


def print_program(source: Path, target: Path, step_name: str | None, as_json: bool) -> None:
    """Run the program (`run_program`), and print the seconds of its parts."""
    parts = run_program(source, target, step_name)
    told = ", ".join(f"{part} {seconds:.3f} s" for part, seconds in parts.items() if seconds)
    print(json.dumps(parts) if as_json else told)
