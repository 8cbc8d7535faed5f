"""What every step of the ladder shares, and the contract that its callers rely on.

The problem: single-head attention in float32, out = softmax(q kᵀ / √d) v over arrays (B, N, d),
each batch by itself, without a mask. B batch_size, N seq_len, d head_dim.

A step is one file beside this folder. It declares, as literals that are read without importing it:

- ``NAME``, ``LABEL``, ``PACKAGES`` as every kernel does;
- ``PREVIOUS``: the NAME of the step that it improves on, None for the first;
- ``IDEA``: its one idea as a sentence in each language;
- ``DEVICE``: ``"cpu"`` or ``"cuda"``, where its arrays are.

It defines ``attention(q, k, v, out, stream=None)``:

- q, k, v, out: (B, N, d), float32, C-contiguous; d is at most `MAX_HEAD_DIM` and a multiple of 8;
  N need not be a multiple of any tile. Numpy arrays where ``DEVICE`` is ``"cpu"``; on a GPU,
  numba's device arrays (`copy_in`, `empty`), or whatever else has ``__cuda_array_interface__``.
- It fills `out` and returns nothing. On a GPU it only launches: the caller waits (`synchronize`).
- stream: a stream of numba-cuda; None is the default stream. The caller's arrays must live until
  the stream has come to them.
- The first call for a d compiles; a call on tiny arrays of that d is enough.
- NotImplementedError, with the reason, where the GPU or a package is missing.

A step may also define how arrays of the host go through it (from `Streams` on, copies overlap the
kernel). Callers find these with ``getattr``, and take this module's own where a step has none:

- ``host_array(shape)``: an empty float32 array of the host that copies well; default `numpy.empty`;
- ``attention_on_host(q, k, v, out)``: host arrays in, host array out, finished on return.

`copy_in` and `copy_out` with the kernel between them are the parts whose times are worth knowing
of a step that does not overlap them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

MAX_HEAD_DIM = 64
"""What the shared-memory tiles have room for: the assignment has d 32 and 64."""

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
"""Whether the CUDA kernels run in numba's simulator, on the CPU; read when numba is imported."""

Array = npt.NDArray[np.float32]


def require_gpu() -> None:
    """NotImplementedError, with what to do, where CUDA kernels have nothing to run on."""
    if not SIMULATED and not cuda.is_available():
        raise NotImplementedError(
            "numba-cuda finds no NVIDIA GPU with its driver and CUDA libraries; "
            "NUMBA_ENABLE_CUDASIM=1 runs this step in numba's simulator, for small sizes"
        )


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
