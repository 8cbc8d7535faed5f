"""Peak memory of a forward and a backward pass, before anything else in the process takes some."""

from __future__ import annotations

import ctypes
import gc
import importlib
import resource
import sys
from collections.abc import Callable

import torch
from torch._C._autograd import _disable_profiler
from torch.autograd.profiler import profile, record_function

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


def peak_memory(both_passes: Callable[[], object], device: str) -> int:
    """Peak bytes that the allocator held at once while `both_passes` ran.

    `both_passes` makes its own inputs, so the peak counts from before they exist. It runs twice:
    the first time sets up what is compiled, and what it leaves allocated counts. On CUDA the peak
    is the allocator's own maximum; on the CPU the running sum of the allocator's events, which is
    the same in every run. IncorrectError where a process on a CPU has grown by more than the
    allocator can account for.
    """
    gc.collect()
    if device == "cpu":
        return _on_cpu(both_passes)
    held = torch.cuda.memory_allocated()
    both_passes()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    both_passes()
    return torch.cuda.max_memory_allocated() - held


def _on_cpu(both_passes: Callable[[], object]) -> int:
    # Products, softmax and attention compute once: each process loads libraries for them. That of
    # PyTorch which a library's operator imports, too.
    importlib.import_module("torch._dynamo")
    x = torch.randn(1, 2, 64, 32, requires_grad=True)
    (torch.softmax(x @ x.mT, -1) @ x).sum().backward()
    _fused(x, x, x).sum().backward()
    _give_back(GIVEN_BACK)
    before, was_compiled = _usage(resource.RUSAGE_SELF).ru_maxrss, COMPILER in sys.modules
    try:
        peak, most = _allocated(both_passes)
    finally:
        _give_back(KEPT)
    grown = (most - before) * 1024
    unknown = UNKNOWN_BYTES + UNKNOWN_A_THREAD * torch.get_num_threads() + UNKNOWN_SHARE * peak
    has_compiled = COMPILER in sys.modules and not was_compiled  # which takes memory of its own
    if grown > peak + unknown and sys.platform == "linux" and not has_compiled:
        raise IncorrectError(
            f"takes {grown / MIB:.0f} MiB, of which PyTorch's allocator knows {peak / MIB:.0f}; "
            "allocate with PyTorch, or its memory cannot be compared"
        )
    return peak


def _give_back(size: int) -> None:
    """Have freed memory of this size and beyond given back to the system, where that is glibc's."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, size)


def _allocated(both_passes: Callable[[], object]) -> tuple[int, int]:
    """The most bytes held at once in the second of two calls, and the process's KiB by then."""
    profile(use_kineto=True, profile_memory=True).__enter__()
    try:
        both_passes()
        with record_function(AGAIN):
            both_passes()
    finally:
        most = _usage(resource.RUSAGE_SELF).ru_maxrss  # reading takes 1 KiB for each event
        found = sorted(_disable_profiler().events(), key=lambda event: event.start_ns())
    held, peak, again = 0, 0, False
    for event in found:
        again |= event.name() == AGAIN
        if event.name() == "[memory]":
            held += event.nbytes()  # type: ignore[attr-defined]
            peak = max(peak, held) if again else peak
    return peak, most
