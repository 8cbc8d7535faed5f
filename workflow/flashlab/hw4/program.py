"""The assignment's program: from an input file to an output file, timed in its parts.

The files are binary. Input: B, N, d as little-endian int32, then for each batch Q, K and V, each
N·d float32, row major. Output: B·N·d float32. Source: the assignment's statement (docs/ladder.md).
"""

from __future__ import annotations

import difflib
import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import numpy as np
import psutil

from flashlab.benchmarks.implementations import KERNELS, Implementation, find_implementations
from flashlab.benchmarks.ladder.cases import PARTS, Sizes
from flashlab.benchmarks.ladder.step import Array, Step
from flashlab.files import open_atomically
from flashlab.hw4 import Hw4Error
from flashlab.measuring.kernel import load_kernel

LADDER = KERNELS / "ladder"

HEADER = struct.Struct("<iii")

PIECE_BYTES = 32 * 1024 * 1024
"""The most of each of Q, K, V and the output in memory at a time, though at least one batch."""


def pieces(sizes: Sizes, *arrays: Array) -> Iterator[list[Array]]:
    """Arrays of `piece_shape` for each piece of a file; cut where fewer batches are left."""
    for first in range(0, sizes.batch_size, len(arrays[0])):
        yield [array[: sizes.batch_size - first] for array in arrays]


def piece_shape(sizes: Sizes) -> Sizes:
    """The shape of arrays with as many batches as may be in memory."""
    batches = max(1, PIECE_BYTES // sizes.matrix_bytes)
    return sizes._replace(batch_size=min(sizes.batch_size, batches))


@contextmanager
def open_input(path: Path) -> Iterator[tuple[BufferedReader, Sizes]]:
    """Open an input file behind its header; Hw4Error where it is not as long as that says."""
    with path.open("rb") as file:
        size, header = os.fstat(file.fileno()).st_size, file.read(HEADER.size)
        if len(header) < HEADER.size:
            raise Hw4Error(
                f"{path}: has {size} bytes, fewer than the {HEADER.size} of B, N and d (int32)"
            )
        sizes = Sizes(*HEADER.unpack(header))
        if min(sizes) < 1:
            fault = "B, N and d must be positive; is the file little-endian?"
            raise Hw4Error(f"{path}: {sizes}: {fault}")
        if sizes.head_dim not in (32, 64):
            raise Hw4Error(f"{path}: {sizes}: d must be 32 or 64")
        expected = HEADER.size + 3 * sizes.batch_size * sizes.matrix_bytes
        if size != expected:
            fault = "is truncated" if size < expected else "is too long"
            remedy = f"{size} bytes, where {sizes} take {expected}; write the file again"
            raise Hw4Error(f"{path}: {fault}: {remedy}")
        yield file, sizes


def read_batches(file: BufferedReader, q: Array, k: Array, v: Array) -> None:
    """Read the next batches into q, k and v, each (batches, N, d)."""
    for batch in zip(q, k, v, strict=True):
        for matrix in batch:
            if file.readinto(matrix.data.cast("B")) < matrix.nbytes:
                raise Hw4Error(f"{file.name}: was truncated while it was read")


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

    if target.exists() and not target.is_file():
        raise Hw4Error(f"{target}: is no regular file; name the file to write")
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
