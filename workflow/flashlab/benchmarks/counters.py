"""The counters of a pass that a benchmark declares, by kind of device.

On a GPU its hardware counters, on a CPU the operators that PyTorch's profiler saw. They are samples
of one pass each, measured apart from the times, and so have no interval; no text tells them by
themselves, so that they have no words. The kernels that a pass launches are kept one by one too,
as Nsight Compute saw them (`kernels_cell`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flashlab.benchmarks.model import Counters, Metric, Quantity

KERNEL_COUNTERS = {
    **{"kernels": "1", "busy_time": "ms", "dram_bytes": "B", "matrix_activity": "%"},
    **{"occupancy": "%", "compute_share": "%", "memory_share": "%"},
}
"""Units of those of the kernels of a pass on a GPU; times and bytes are sums over them, shares
their mean weighted by time."""

OPERATOR_COUNTERS = {
    **{"operators": "1", "operator_time": "ms", "allocated_bytes": "B"},
    **{"product_share": "%", "softmax_share": "%", "fused_share": "%", "elementwise_share": "%"},
}
"""Units of those of the operators of a pass on a CPU; shares are of the time in operators, and add
up to 100."""


def counters_of(
    passes: Mapping[str, str], units: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Counters]:
    """The counters of a benchmark's passes on each kind of device.

    `passes` has a pass's name, such as ``forward``, by the timed metric's; `units` the unit of each
    counter, by kind of device.
    """
    return {
        device: {
            timed: tuple(
                Metric(f"{name}_{counter}", Quantity(counter, unit, "lower"))
                for counter, unit in of_device.items()
            )
            for timed, name in passes.items()
        }
        for device, of_device in units.items()
    }


# Kernels

_CLASSES = (
    ("softmax", re.compile(r"softmax|SoftMax(For|Back)ward")),
    ("copy", re.compile(r"copy|CatArray|FillFunctor|[Mm]emcpy|[Mm]emset|triton_poi_\w*zeros")),
    ("reduction", re.compile(r"reduce_kernel|\breduce\b")),
    ("elementwise", re.compile(r"elementwise|triu|tril|index_|triton_poi_")),
    ("product", re.compile(r"gemm|gemv|nvjet|splitK", re.IGNORECASE)),
)
"""The first that a kernel's name matches: matrix products, softmax, copies (packing, another number
format, fills), reductions, and element-wise operations, masks among them. Any other kernel of an
implementation is attention in one kernel or a part of it."""

_TEMPLATE = re.compile(r"^(?:void )?([^<(]*(?:<unnamed>::)?[^<(]*)")

CELL_COUNTERS = ("busy_time", "dram_bytes", "matrix_activity", "compute_share", "memory_share")
"""Milliseconds, bytes, and in percent how much of the time Tensor Cores are active and how near the
busiest unit of the SMs and of the memory system (caches and DRAM) is to its peak."""


def class_of(name: str) -> str:
    """The class of a kernel, by its name with all template arguments."""
    return next((kind for kind, pattern in _CLASSES if pattern.search(name)), "attention")


def short_name(name: str) -> str:
    """A kernel's name without arguments."""
    found = _TEMPLATE.match(name)
    return (found[1].strip() if found else "") or name


def kernels_cell(details: Mapping[str, Any]) -> dict[str, list[list[Any]]] | None:
    """By pass the kernels in order: name, class, and `CELL_COUNTERS`; None where one lacks any.

    It is what the run table keeps of a counters' record.
    """
    passes = details.get("kernels", {})
    if not passes or any(
        name not in kernel for each in passes.values() for kernel in each for name in CELL_COUNTERS
    ):
        return None
    return {
        metric: [
            [short_name(kernel["name"]), class_of(kernel["name"]), *map(kernel.get, CELL_COUNTERS)]
            for kernel in kernels
        ]
        for metric, kernels in passes.items()
    }
