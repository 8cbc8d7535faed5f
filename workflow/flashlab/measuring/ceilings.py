"""The machine's ceilings: matrix-product rate of each dtype and copy bandwidth, on random data.

They are timed from the first call on: before a GPU meets its power limit, and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flashlab.measuring.environment import environment
from flashlab.measuring.protocols import Pass, sampled

PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5}
MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}
COPY_BYTES = {"cuda": 2**32, "cpu": 2**28}
DTYPES = {"cuda": ("float16", "bfloat16", "float32"), "cpu": ("float32",)}


def _timed(call: Callable[[], object], device: str) -> dict[str, Any]:
    """Seconds of a call with its samples, as they are kept."""
    timing = sampled(Pass(call), PROTOCOL, device, settled=False)
    return {"time(s)": timing.seconds, "samples": [*timing.samples], "stopped": timing.stopped}


def _matrix_product(dtype: str, device: str) -> dict[str, Any]:
    """C = A·B of n × n random matrices: 2·n³ operations."""
    n = MATRIX_SIZE[device]
    a, b = (torch.randn(n, n, dtype=getattr(torch, dtype), device=device) for _ in range(2))
    out = torch.empty_like(a)
    timed = _timed(lambda: torch.matmul(a, b, out=out), device)
    return {**timed, "size": n, "rate(TFLOPs/s)": 2 * n**3 / timed["time(s)"] / 1e12}


def _copy(device: str) -> dict[str, Any]:
    """One large buffer to another: each byte is read once and written once."""
    size = COPY_BYTES[device]
    source = torch.randint(-128, 127, (size,), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    timed = _timed(lambda: target.copy_(source), device)
    return {**timed, "bytes": size, "bandwidth(GB/s)": 2 * size / timed["time(s)"] / 1e9}


def measure(device: str) -> dict[str, Any]:
    """The ceilings of the device that this process sees, and its environment.

    float32 products are computed in float32, not in TF32 (torch's default).
    """
    return {
        "matrix_product": {dtype: _matrix_product(dtype, device) for dtype in DTYPES[device]},
        "copy": _copy(device),
        "environment": environment(device),
    }
