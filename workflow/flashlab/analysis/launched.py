"""The kernels that a pass launches, as Nsight Compute saw them: each one's class and share.

`kernels_cell` makes of a counters' record what the run table keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flashlab.telling.codes import by_code

CLASS_LABELS = by_code(
    *("kernel.attention", "kernel.product", "kernel.softmax", "kernel.copy", "kernel.reduction"),
    "kernel.elementwise",
)
"""Attention in one kernel or a part of it, matrix products, softmax, copies (packing, another
number format, fills), reductions, and element-wise operations, masks among them."""

CLASSES = tuple(CLASS_LABELS)

_CLASSES = (
    ("softmax", re.compile(r"softmax|SoftMax(For|Back)ward")),
    ("copy", re.compile(r"copy|CatArray|FillFunctor|[Mm]emcpy|[Mm]emset|triton_poi_\w*zeros")),
    ("reduction", re.compile(r"reduce_kernel|\breduce\b")),
    ("elementwise", re.compile(r"elementwise|triu|tril|index_|triton_poi_")),
    ("product", re.compile(r"gemm|gemv|nvjet|splitK", re.IGNORECASE)),
)
"""The first that a kernel's name matches; any other kernel of an implementation is attention."""

_TEMPLATE = re.compile(r"^(?:void )?([^<(]*(?:<unnamed>::)?[^<(]*)")

COUNTERS = ("busy_time", "dram_bytes", "matrix_activity", "compute_share", "memory_share")
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
    """By pass the kernels in order: name, class, and `COUNTERS`; None where one lacks any."""
    passes = details.get("kernels", {})
    if not passes or any(
        name not in kernel for each in passes.values() for kernel in each for name in COUNTERS
    ):
        return None
    return {
        metric: [
            [short_name(kernel["name"]), class_of(kernel["name"]), *map(kernel.get, COUNTERS)]
            for kernel in kernels
        ]
        for metric, kernels in passes.items()
    }
