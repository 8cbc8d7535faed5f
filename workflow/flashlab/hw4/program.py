"""The assignment's program: from an input file to an output file, timed in its parts."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil

from flashlab.files import open_atomically
from flashlab.hw4 import Hw4Error
from flashlab.hw4.format import Array, Sizes, open_input, read_batches
from flashlab.hw4.steps import load_step

CHUNK_BYTES = 32 * 1024 * 1024
"""The most of each of Q, K, V and the output in memory at a time, though at least one batch."""


@dataclass
class Parts:
    """The time of one process by its parts, in seconds.

    `start` is from the start of the process to where its work begins: the interpreter, the imports
    and the device. `buffers` is the allocation of the host's memory, which pinned memory makes
    long. Of a step that overlaps its copies with its kernel, `overlapped` has all three together.
    """

    start: float = 0.0
    compilation: float = 0.0
    buffers: float = 0.0
    file_in: float = 0.0
    copy_in: float = 0.0
    kernel: float = 0.0
    copy_out: float = 0.0
    overlapped: float = 0.0
    file_out: float = 0.0

    @property
    def files(self) -> float:
        """Reading the input and writing the output."""
        return self.file_in + self.file_out

    def __str__(self) -> str:
        named = asdict(self).items()
        return ", ".join(f"{name} {seconds:.3f} s" for name, seconds in named if seconds)


def _seconds_since_start() -> float:
    """The age of this process in seconds, to within 10 ms on Linux and a second elsewhere."""
    if sys.platform != "linux":
        return time.time() - psutil.Process().create_time()
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _timed(parts: Parts, part: str) -> Iterator[None]:
    """Add the time that a block takes to a part."""
    begin = time.perf_counter()
    yield
    setattr(parts, part, getattr(parts, part) + time.perf_counter() - begin)


class Step:
    """A step of the ladder with the device that it runs on; each call ends with its work done."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.library: Any = None
        if module.DEVICE != "cpu":
            from kernels.lib import device  # type: ignore[import-not-found]

            self.library = device
            device.require_gpu()
            device.synchronize()  # the device is opened now

    def host_array(self, shape: tuple[int, ...]) -> Array:
        """An empty array as the step wants it on the host."""
        if hasattr(self.module, "host_array"):
            pinned: Array = self.module.host_array(shape)
            return pinned
        return np.empty(shape, np.float32)

    def compile(self, sizes: Sizes) -> None:
        """Compile everything that arrays of these sizes need."""
        rows = 128 if sizes.seq_len % 128 == 0 else sizes.seq_len % 128
        q, k, v, out = (np.zeros((1, rows, sizes.head_dim), np.float32) for _ in range(4))
        self._compute(q, k, v, out, Parts())

    def _compute(self, q: Array, k: Array, v: Array, out: Array, parts: Parts) -> None:
        library = self.library
        if library is None:
            with _timed(parts, "kernel"):
                self.module.attention(q, k, v, out)
            return
        with _timed(parts, "copy_in"):
            on_device = [library.copy_in(array) for array in (q, k, v)]
            result = library.empty(out.shape)
            library.synchronize()
        with _timed(parts, "kernel"):
            self.module.attention(*on_device, result)
            library.synchronize()
        with _timed(parts, "copy_out"):
            library.copy_out(result, out)
            library.synchronize()

    def compute(self, q: Array, k: Array, v: Array, out: Array, parts: Parts) -> None:
        """Attention of arrays of the host, each (batches, N, d), timed in its parts."""
        if hasattr(self.module, "attention_on_host"):
            with _timed(parts, "overlapped"):
                self.module.attention_on_host(q, k, v, out)
        else:
            self._compute(q, k, v, out, parts)


def run_program(source: Path, target: Path, step_name: str | None) -> Parts:
    """Read an input file, compute attention by a step of the ladder, write the output file.

    The files go through memory some batches at a time. `target` appears once it is complete.

    Raises:
        Hw4Error: the file, the step or the device does not allow it.
        OSError: a file cannot be read or written.
    """
    parts = Parts()
    if target.is_dir():
        raise Hw4Error(f"{target}: is a folder; name the file to write")
    with open_input(source) as (file, sizes):
        try:
            step = Step(load_step(step_name))
            parts.start = _seconds_since_start()
            with _timed(parts, "compilation"):
                step.compile(sizes)
        except NotImplementedError as error:
            raise Hw4Error(f"{error}; --step Sequential runs on the CPU") from error
        chunk = min(sizes.batch_size, max(1, CHUNK_BYTES // sizes.matrix_bytes))
        with _timed(parts, "buffers"):
            arrays = [step.host_array(sizes.shape(chunk)) for _ in range(4)]
        with open_atomically(target, binary=True, durable=False) as output:
            for first in range(0, sizes.batch_size, chunk):
                q, k, v, out = (array[: sizes.batch_size - first] for array in arrays)
                with _timed(parts, "file_in"):
                    read_batches(file, q, k, v)
                step.compute(q, k, v, out, parts)
                with _timed(parts, "file_out"):
                    output.write(out.data.cast("B"))
            begin = time.perf_counter()
        parts.file_out += time.perf_counter() - begin  # closed and renamed
    return parts


def print_program(source: Path, target: Path, step_name: str | None, as_json: bool) -> None:
    """Run the program (`run_program`), and print the seconds of its parts."""
    parts = run_program(source, target, step_name)
    print(json.dumps(asdict(parts)) if as_json else parts)
