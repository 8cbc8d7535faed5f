"""Runs the ladder's steps in numba's simulator and in Triton's interpreter; prints their errors.

A process of its own, since both must be asked for before numba and Triton are imported.
Usage: python simulated_ladder.py STEP…
"""

from __future__ import annotations

import os

os.environ |= {"NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1"}

import json
import sys

import numpy as np
import torch
from numba import cuda

from flashlab.benchmarks.ladder.gate import reference
from flashlab.hw4.program import find_step
from flashlab.measuring.kernel import load_kernel

SMALL_TILE, SMALL_TILES = 4, {"Unrolled": 8}
"""In place of 32: the simulator has a thread of Python for each thread of a block."""
TENSOR_CORES = ("TensorTF32", "TensorFP16", "SplitKeys")
SIZES = dict.fromkeys(TENSOR_CORES, ((2, 140, 32), (1, 600, 16)))
SIZES |= {"LargerTiles": ((1, 70, 8), (2, 10, 32)), "Streams": ((2, 5, 8),)}
"""Sizes that are no multiple of a step's tile."""


def error(name: str, *shape: int) -> float:
    """The largest error of an element against attention in float64; NaN where it is unwritten."""
    step, random = load_kernel(find_step(name).path), np.random.default_rng(0)
    q, k, v = (random.uniform(-3, 3, shape).astype(np.float32) for _ in range(3))
    out = np.full_like(q, np.nan)
    if name in TENSOR_CORES:
        step.attention(*map(torch.from_numpy, (q, k, v, out)))
    elif name == "Streams":  # from arrays of the host to an array of the host
        step.attention_on_host(q, k, v, out)
    elif step.DEVICE == "cpu":
        step.attention(q, k, v, out)
    else:
        if getattr(step, "TILE", None) == 32:
            step.TILE = SMALL_TILES.get(name, SMALL_TILE)
        *given, found = map(cuda.to_device, (q, k, v, out))
        step.attention(*given, found)
        out = found.copy_to_host()
    expected = reference(*map(torch.from_numpy, (q, k, v))).numpy()
    return float(np.abs(out - expected).max())


if __name__ == "__main__":
    sizes = {name: SIZES.get(name, ((2, 7, 8),)) for name in sys.argv[1:]}
    print(json.dumps({name: [error(name, *size) for size in sizes[name]] for name in sizes}))
