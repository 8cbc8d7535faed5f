"""The error of an output file against attention in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from flashlab.hw4 import Hw4Error
from flashlab.hw4.format import open_input, read_batches

_SCORE_BYTES = 1 << 30
"""The most of the score matrix, in float64, that is in memory at a time."""


def worst_error(source: Path, target: Path) -> float:
    """The largest difference of an element of the output from the reference; infinite for NaN.

    Computed on the GPU where there is one.

    Raises:
        Hw4Error: the output has another size than the input asks for.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open_input(source) as (file, sizes), target.open("rb") as results:
        expected = sizes.batch_size * sizes.matrix_bytes
        if target.stat().st_size != expected:
            raise Hw4Error(f"{target}: has {target.stat().st_size} bytes in place of {expected}")
        rows = max(1, min(sizes.seq_len, _SCORE_BYTES // (8 * sizes.seq_len)))
        chunk = max(1, min(sizes.batch_size, _SCORE_BYTES // (8 * sizes.seq_len * rows)))
        worst = 0.0
        for first in range(0, sizes.batch_size, chunk):
            shape = sizes.shape(min(chunk, sizes.batch_size - first))
            host = [np.empty(shape, np.float32) for _ in range(3)]
            read_batches(file, *host)
            out = np.fromfile(results, np.float32, math.prod(shape)).reshape(shape)
            q, k, v = (torch.from_numpy(array).to(device).double() for array in host)
            given = torch.from_numpy(out).to(device)
            for row in range(0, sizes.seq_len, rows):
                part = slice(row, row + rows)
                scores = q[:, part] @ k.transpose(1, 2) / math.sqrt(sizes.head_dim)
                exact = scores.softmax(-1) @ v  # (batches, rows, d)
                difference = (given[:, part] - exact).abs().nan_to_num(nan=math.inf)
                worst = max(worst, difference.max().item())
    return worst
