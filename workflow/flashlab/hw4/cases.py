"""The assignment's 30 cases t01 to t30, written from a seed.

The assignment's own inputs are not public; these have its sizes and its range of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flashlab.benchmarks.ladder.cases import ASSIGNMENT
from flashlab.files import open_atomically
from flashlab.hw4 import Hw4Error
from flashlab.hw4.format import Sizes, write_header

CASES = {f"t{number:02}": Sizes(*sizes) for number, sizes in ASSIGNMENT.items()}

_CHUNK_BYTES = 64 * 1024 * 1024


def chosen_cases(names: Sequence[str]) -> list[str]:
    """The cases of these names, or all where there are none; Hw4Error for an unknown one."""
    for name in names:
        if name not in CASES:
            raise Hw4Error(f"unknown case {name}; the cases are t01 to t30")
    return list(names or CASES)


def write_case(path: Path, name: str, seed: int) -> None:
    """Write a case's input file: float32, uniform in [-3, 3), the same for the same seed."""
    sizes = CASES[name]
    random = np.random.default_rng([seed, int(name[1:])])
    chunk = max(1, _CHUNK_BYTES // (3 * sizes.matrix_bytes))
    with open_atomically(path, binary=True, durable=False) as file:
        write_header(file, sizes)
        for first in range(0, sizes.batch_size, chunk):
            batches = min(chunk, sizes.batch_size - first)
            shape = (batches, 3, sizes.seq_len, sizes.head_dim)
            values = random.random(shape, dtype=np.float32)
            values -= np.float32(0.5)
            values *= np.float32(6)
            file.write(values.data.cast("B"))


def write_cases(folder: Path, names: Sequence[str], seed: int) -> None:
    """Write the input files of some cases, or of all, into a folder, as ``t01.bin`` and so on."""
    for name in chosen_cases(names):
        write_case(folder / f"{name}.bin", name, seed)
        print(f"{folder / name}.bin: {CASES[name]}, {CASES[name].input_bytes / 1e6:.0f} MB")
