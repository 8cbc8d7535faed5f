"""The assignment's binary files, read and written some batches at a time.

Input: B, N, d as little-endian int32, then for each batch Q, K and V, each N·d float32, row major.
Output: B·N·d float32. Source: the assignment's statement (docs/ladder.md).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from flashlab.hw4 import Hw4Error

Array = npt.NDArray[np.float32]

_HEADER = struct.Struct("<iii")
HEAD_DIMS = (32, 64)


@dataclass(frozen=True)
class Sizes:
    """B batch_size, N seq_len and d head_dim of a file."""

    batch_size: int
    seq_len: int
    head_dim: int

    @property
    def matrix_bytes(self) -> int:
        """Bytes of one batch of Q, K, V or the output."""
        return 4 * self.seq_len * self.head_dim

    @property
    def input_bytes(self) -> int:
        """Bytes of the whole input file."""
        return _HEADER.size + 3 * self.batch_size * self.matrix_bytes

    def shape(self, batches: int) -> tuple[int, int, int]:
        """The shape of an array of some batches: (batches, N, d)."""
        return batches, self.seq_len, self.head_dim

    def __str__(self) -> str:
        return f"B {self.batch_size}, N {self.seq_len}, d {self.head_dim}"


def write_header(file: IO[bytes], sizes: Sizes) -> None:
    file.write(_HEADER.pack(sizes.batch_size, sizes.seq_len, sizes.head_dim))


def _sizes_in(header: bytes, path: Path) -> Sizes:
    if len(header) < _HEADER.size:
        raise Hw4Error(
            f"{path}: has {len(header)} bytes, fewer than the {_HEADER.size} of B, N and d (int32)"
        )
    sizes = Sizes(*_HEADER.unpack(header))
    if min(sizes.batch_size, sizes.seq_len, sizes.head_dim) < 1:
        raise Hw4Error(f"{path}: {sizes}: B, N and d must be positive; is the file little-endian?")
    if sizes.head_dim not in HEAD_DIMS:
        raise Hw4Error(f"{path}: {sizes}: d must be 32 or 64")
    return sizes


@contextmanager
def open_input(path: Path) -> Iterator[tuple[BufferedReader, Sizes]]:
    """Open an input file, checked to be as long as its header says, and positioned behind that.

    Raises:
        Hw4Error: no file of the format.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        sizes = _sizes_in(file.read(_HEADER.size), path)
        size = os.fstat(file.fileno()).st_size
        if size != sizes.input_bytes:
            fault = "is truncated" if size < sizes.input_bytes else "is too long"
            raise Hw4Error(
                f"{path}: {fault}: {size} bytes, where {sizes} take {sizes.input_bytes}; "
                "write the file again"
            )
        yield file, sizes


def read_batches(file: BufferedReader, q: Array, k: Array, v: Array) -> None:
    """Read the next batches into q, k and v, each (batches, N, d)."""
    for batch in zip(q, k, v, strict=True):
        for matrix in batch:
            if file.readinto(matrix.data.cast("B")) < matrix.nbytes:
                raise Hw4Error(f"{file.name}: was truncated while it was read")
