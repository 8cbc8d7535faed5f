"""The assignment's binary files, read some batches at a time.

Input: B, N, d as little-endian int32, then for each batch Q, K and V, each N·d float32, row major.
Output: B·N·d float32. Source: the assignment's statement (docs/ladder.md).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from flashlab.benchmarks.ladder.cases import Sizes
from flashlab.benchmarks.ladder.step import Array
from flashlab.hw4 import Hw4Error

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
