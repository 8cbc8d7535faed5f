"""Triton and PyTorch for the steps on tensor cores, importable where neither is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    MISSING: ImportError | None = error
    tl, constexpr = None, object
else:
    MISSING, constexpr = None, tl.constexpr

LOG2_E = 1.4426950408889634
"""The hardware's exponential is that of 2: exp(x) = 2^(x log2 e)."""


def provider(device: str) -> str:
    """Whose compiler the step's kernel comes from."""
    return f"triton {importlib.metadata.version('triton')}"


def jit(function: Callable[..., Any]) -> Any:
    """`triton.jit`, or the function as it is where Triton is not installed."""
    return function if MISSING else triton.jit(function)


def tensors(*arrays: Any) -> list[Any]:
    """PyTorch's view of arrays: tensors as they are, others on the device without a copy.

    Raises:
        NotImplementedError: Triton, PyTorch or a GPU is missing, or the GPU has no tensor cores
            for tf32 (compute capability 8.0).
    """
    if MISSING:
        raise NotImplementedError(f"Triton or PyTorch is not installed: {MISSING}") from MISSING
    if all(isinstance(array, torch.Tensor) for array in arrays):
        return list(arrays)
    if not torch.cuda.is_available():
        raise NotImplementedError("PyTorch finds no GPU, on which Triton's kernels run")
    if torch.cuda.get_device_capability() < (8, 0):
        raise NotImplementedError(
            f"{torch.cuda.get_device_name()} has no tensor cores for tf32; they came with "
            "compute capability 8.0"
        )
    return [torch.as_tensor(array, device="cuda") for array in arrays]


def on_stream(stream: Any) -> Any:
    """A context in which PyTorch and Triton launch on a stream of numba's; None is the default."""
    if stream is None:
        return nullcontext()
    return torch.cuda.stream(torch.cuda.ExternalStream(int(stream)))


def empty(like: Any, *shape: int) -> Any:
    """A float32 tensor on the device of another one, its content undefined."""
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def empty_half(like: Any) -> Any:
    """A float16 tensor with the shape of another one and on its device, its content undefined."""
    return torch.empty_like(like, dtype=torch.float16)


def multiprocessors(tensor: Any) -> int:
    """The multiprocessors of a tensor's device; a few for Triton's interpreter on a CPU."""
    if not tensor.is_cuda:
        return 16
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)
