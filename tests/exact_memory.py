"""Peak memory in MiB by the exact model of an implementation."""

from __future__ import annotations

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import memory_parts
from flashlab.benchmarks.attention.shape import Shape
from flashlab.runs import Run


def exact_peak_memory(run: Run, provider: str | None, device_name: str | None) -> float | None:
    """None outside the range in which `costs` is exact."""
    parts, is_flash2 = memory_parts(run, provider, device_name), run.implementation == "Flash2"
    is_exact = costs.flash2_memory_is_exact if is_flash2 else costs.naive_memory_is_exact
    return sum(parts.values()) if parts and is_exact(Shape.of(run)) else None
