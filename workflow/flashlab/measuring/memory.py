"""Peak memory of a forward and a backward pass, before anything else in the process takes some."""

from __future__ import annotations

import ctypes
import gc
import importlib
import resource
import sys
from collections.abc import Callable

import torch
from torch.autograd.profiler import (  # type: ignore[attr-defined]
    _disable_profiler,
    profile,
    record_function,
)

from flashlab.measuring.failures import IncorrectError

MIB = 2**20

UNKNOWN_BYTES, UNKNOWN_A_THREAD, UNKNOWN_SHARE = 16 * MIB, 2 * MIB, 0.25
"""By how much a process on a CPU may grow beyond what PyTorch's allocator knows of: in bytes, in
bytes for each thread, and as a share of what it knows. Honest kernels need 10 MiB on two."""

M_MMAP_THRESHOLD, GIVEN_BACK, KEPT = -3, 2**16, 2**30
"""glibc's option; sizes from which on freed memory is given back, and beyond that of any tensor."""

AGAIN = "flashlab::again"
COMPILER = "torch._inductor.codecache"

_usage = resource.getrusage
_fused = torch.nn.functional.scaled_dot_product_attention


def _release_cuda() -> None:
    """Free the memory that earlier work left: tensors, cuBLAS workspaces, the allocator's cache."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()


def _give_back(size: int) -> None:
    """Have freed memory of this size and beyond given back to the system, where that is glibc's."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, size)


def _load_libraries() -> None:
    """Have products, softmax and attention compute once: what each process loads for them.

    That of PyTorch which a library's operator imports, too.
    """
    importlib.import_module("torch._dynamo")
    x = torch.randn(1, 2, 64, 32, requires_grad=True)
    (torch.softmax(x @ x.mT, -1) @ x).sum().backward()
    _fused(x, x, x).sum().backward()


def _grown() -> int:
    """The most bytes that this process has held so far."""
    return _usage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_memory(both_passes: Callable[[], object], device: str) -> int:
    """Peak bytes that the allocator held at once while `both_passes` ran.

    `both_passes` makes its own inputs, so the peak counts from before they exist. It runs twice:
    the first time sets up what is compiled, and what it leaves allocated counts. On CUDA the peak
    is the allocator's own maximum; on the CPU the running sum of the allocator's events, which is
    the same in every run.

    Raises:
        IncorrectError: the process has grown by more than the allocator can account for.
    """
    if device == "cuda":
        _release_cuda()
        held = torch.cuda.memory_allocated()
        both_passes()
        _release_cuda()
        torch.cuda.reset_peak_memory_stats()
        both_passes()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held
    _load_libraries()
    gc.collect()
    _give_back(GIVEN_BACK)
    before, was_compiled = _grown(), COMPILER in sys.modules
    try:
        peak = allocated_on_cpu(both_passes, both_passes)
        grown = _grown() - before
    finally:
        _give_back(KEPT)
    unknown = UNKNOWN_BYTES + UNKNOWN_A_THREAD * torch.get_num_threads() + UNKNOWN_SHARE * peak
    has_compiled = COMPILER in sys.modules and not was_compiled  # which takes memory of its own
    if grown > peak + unknown and sys.platform == "linux" and not has_compiled:
        raise IncorrectError(
            f"takes {grown / MIB:.0f} MiB, of which PyTorch's allocator knows {peak / MIB:.0f}; "
            "allocate with PyTorch, or its memory cannot be compared"
        )
    return peak


def allocated_on_cpu(first: Callable[[], object], then: Callable[[], object]) -> int:
    """The most bytes held at once in the second of two calls, by the allocator's own events.

    What the first one leaves allocated counts.
    """
    profile(use_kineto=True, profile_memory=True).__enter__()
    try:
        first()
        with record_function(AGAIN):
            then()
    finally:
        found = _disable_profiler().events()
    (again,) = (event.start_ns() for event in found if event.name() == AGAIN)
    held = peak = 0
    events = (event for event in found if event.name() == "[memory]")
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # type: ignore[attr-defined]
        peak = max(peak, held) if event.start_ns() >= again else peak
    return peak
