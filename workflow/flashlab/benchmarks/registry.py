"""The benchmarks that there are, by name."""

from __future__ import annotations

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Benchmark, UnknownNameError

BENCHMARKS: dict[str, Benchmark] = {ATTENTION.name: ATTENTION}

DEFAULT = ATTENTION
"""The benchmark of a call, or of an older file, that names none."""


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; UnknownNameError listing those that there are."""
    if name not in BENCHMARKS:
        known = ", ".join(BENCHMARKS)
        raise UnknownNameError(f"unknown benchmark {name}; there are {known}")
    return BENCHMARKS[name]
