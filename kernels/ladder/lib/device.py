"""The contract of the ladder's steps, and the functions that they share.

The problem: single-head attention in float32, out = softmax(q kᵀ / √d) v over arrays (B, N, d),
each batch by itself, without a mask. B batch_size, N seq_len, d head_dim.

A step is one file beside this folder. It declares, as literals that are read without importing it:

- ``NAME``, ``LABEL``, ``PACKAGES`` as every kernel does;
- ``PREVIOUS``: the NAME of the step that it improves on, None for the first;
- ``IDEA``: its one idea as a sentence in each language;
- ``DEVICE``: ``"cpu"`` or ``"cuda"``, where its arrays are.

It defines ``attention(q, k, v, out, stream=None)``:

- q, k, v, out: (B, N, d), float32, C-contiguous; d is 32 or 64, as in the assignment (but for the
  steps on tensor cores, also 8 or 16); N need not be a multiple of any tile. Numpy arrays where
  ``DEVICE`` is ``"cpu"``; on a GPU, numba's device arrays (`copy_in`, `empty`), or whatever else
  has ``__cuda_array_interface__``.
- It fills `out` and returns nothing. On a GPU it only launches: the caller waits (`synchronize`).
- stream: a stream of numba-cuda; None is the default stream. The caller's arrays must live until
  the stream has come to them.
- The first call compiles, once for a d and for N a multiple of 128 or not: a call on arrays of one
  batch and 128 rows is enough.
- NotImplementedError, with the reason, where the GPU or a package is missing.

From `Streams` on, a step also defines how arrays of the host go through it, with copies that
overlap the kernel; callers find out with ``hasattr``:

- ``host_array(shape)``: an empty float32 array of the host, in pinned memory;
- ``attention_on_host(q, k, v, out)``: four such arrays (B, N, d); finished on return.

For the other steps `copy_in`, ``attention`` and `copy_out` follow one another.
"""

from __future__ import annotations

import importlib.metadata
import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

MAX_HEAD_DIM = 64

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
"""Whether the CUDA kernels run in numba's simulator, on the CPU; read when numba is imported."""

Array = npt.NDArray[np.float32]

# A small case has few blocks; numba would warn of each.
warnings.filterwarnings("ignore", message=".*Grid size .* under-utilization")


ALIGNMENT = None if SIMULATED else 16
"""Bytes: of shared arrays from which four floats are loaded at once; the simulator knows none."""


def jit(**options: Any) -> Any:
    """`cuda.jit`; without the options that the simulator does not know."""
    if SIMULATED:
        options.pop("max_registers", None)
    return cuda.jit(**options)


def provider(device: str) -> str:
    """Whose code runs a step on this kind of device: numba-cuda's, or that of its simulator."""
    version = importlib.metadata.version("numba-cuda")
    return f"numba-cuda {version}{' (simulator)' if device == 'cpu' else ''}"


def require_gpu() -> None:
    """NotImplementedError, with what to do, where CUDA kernels have nothing to run on."""
    if not SIMULATED and not cuda.is_available():
        raise NotImplementedError(
            "numba-cuda finds no NVIDIA GPU with its driver and CUDA libraries; "
            "NUMBA_ENABLE_CUDASIM=1 runs steps up to Streams in numba's simulator, for small sizes"
        )


def host_array(shape: tuple[int, ...]) -> Array:
    """An empty array in pinned memory, which the GPU reads and writes by itself."""
    require_gpu()
    return cuda.pinned_array(shape, np.float32)


def copy_in(array: Array, stream: Any = 0) -> Any:
    """A device array with a host array's content; asynchronous from pinned memory."""
    require_gpu()
    return cuda.to_device(array, stream=stream)


def empty(shape: tuple[int, ...], stream: Any = 0) -> Any:
    """A float32 device array of this shape, its content undefined."""
    require_gpu()
    return cuda.device_array(shape, np.float32, stream=stream)


def copy_out(array: Any, out: Array, stream: Any = 0) -> None:
    """Copy a device array into a host array; asynchronous into pinned memory."""
    array.copy_to_host(out, stream=stream)


def synchronize() -> None:
    """Wait for everything that was launched."""
    cuda.synchronize()
