"""The benchmarks that there are, by name."""

from __future__ import annotations

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.benchmarks.model import Benchmark, UnknownNameError
from flashlab.benchmarks.training.declaration import TRAINING

BENCHMARKS: dict[str, Benchmark] = {b.name: b for b in (ATTENTION, LADDER, TRAINING)}

DEFAULT = ATTENTION
"""The benchmark of a call, or of an older file, that names none."""


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; UnknownNameError listing those that there are."""
    if name not in BENCHMARKS:
        raise UnknownNameError(f"unknown benchmark {name}; there are {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
