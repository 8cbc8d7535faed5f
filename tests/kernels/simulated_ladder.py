"""Runs the ladder's steps in numba's simulator and in Triton's interpreter; prints their errors.

A process of its own, since both must be asked for before numba and Triton are imported.
Usage: python simulated_ladder.py STEP…
"""

from __future__ import annotations

import os

os.environ |= {"NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1"}

import json
import sys
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numba import cuda

from flashlab.hw4.program import find_step
from flashlab.measuring.kernel import load_kernel

SMALL_TILE = 8
"""In place of 32: the simulator has a thread of Python for each thread of a block."""


def inputs(*shape: int) -> list[Any]:
    """Q, K and V, uniform in [-3, 3)."""
    random = np.random.default_rng(0)
    return [random.uniform(-3, 3, shape).astype(np.float32) for _ in range(3)]


def error(out: Any, q: Any, k: Any, v: Any) -> float:
    """The largest error of an element against attention in float64; NaN where it is unwritten."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return float(np.abs(out - weights / weights.sum(-1, keepdims=True) @ v).max())


def simulated(step: ModuleType, *shape: int) -> float:
    """The error of a step in numba's simulator, or on the CPU."""
    q, k, v = inputs(*shape)
    out = np.full_like(q, np.nan)
    if step.DEVICE == "cpu":
        step.attention(q, k, v, out)
        return error(out, q, k, v)
    if getattr(step, "TILE", None) == 32:
        step.TILE = SMALL_TILE
    on_device = [cuda.to_device(array) for array in (q, k, v, out)]
    step.attention(*on_device)
    return error(on_device[3].copy_to_host(), q, k, v)


def interpreted(step: ModuleType, *shape: int) -> float:
    """The error of a step on tensor cores in Triton's interpreter."""
    q, k, v = inputs(*shape)
    out = torch.full(shape, torch.nan)
    step.attention(*map(torch.from_numpy, (q, k, v)), out)
    return error(out.numpy(), q, k, v)


def overlapped(step: ModuleType, *shape: int) -> float:
    """The error of a step from arrays of the host to an array of the host."""
    q, k, v = inputs(*shape)
    out = np.full_like(q, np.nan)
    step.attention_on_host(q, k, v, out)
    return error(out, q, k, v)


def errors(name: str) -> dict[str, float]:
    """The errors of a step at sizes that are no multiple of its tile."""
    step = load_kernel(find_step(name).path)
    if name in ("TensorTF32", "TensorFP16", "SplitKeys"):
        return {
            "2, 140, 32": interpreted(step, 2, 140, 32),
            "1, 600, 16": interpreted(step, 1, 600, 16),
        }
    if name == "LargerTiles":
        return {"1, 70, 8": simulated(step, 1, 70, 8), "2, 10, 32": simulated(step, 2, 10, 32)}
    if name == "Streams":
        return {"2, 5, 8": overlapped(step, 2, 5, 8)}
    return {"2, 11, 8": simulated(step, 2, 11, 8)}


if __name__ == "__main__":
    print(json.dumps({name: errors(name) for name in sys.argv[1:]}))
