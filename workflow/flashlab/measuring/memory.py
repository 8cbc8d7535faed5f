"""Peak memory of a forward and a backward pass, in a pass of its own with nothing else held."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def _release_cuda() -> None:
    """Free the memory that earlier work left: tensors, cuBLAS workspaces, the allocator's cache."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()


def peak_memory(both_passes: Callable[[], None], device: str) -> int:
    """Peak bytes that the allocator held at once while `both_passes` ran.

    `both_passes` makes its own inputs, so the peak counts from before they exist. On CUDA it is
    the allocator's own maximum; on the CPU the running sum of the allocator's events, which is
    the same in every run.
    """
    if device == "cuda":
        _release_cuda()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        both_passes()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        both_passes()
    results = profiler.profiler.kineto_results
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
