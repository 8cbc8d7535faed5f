"""The runs that a result's numbers allow.

A result names neither implementation nor shape, but its FLOPs (rate × time) are 4·B·H·N²·d, half
of that when causal, and its peak memory in float16 on CUDA is known to the byte (`costs`). So
every shape with these FLOPs is tried against the memory of both implementations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from math import isclose, isqrt

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import known_devices
from flashlab.lab5.results import EXACT, Result
from flashlab.lab5.words import FLASH2, NAIVE

Option = tuple[str, Shape]
"""A run that a result can be: implementation and shape."""

MOST, MAX_LENGTH = 5000, 2**17
"""Most sequence lengths of a head's size that are tried (numbers that allow more tell nothing), and
the longest."""

COARSE = 0.02
"""Relative rounding above which numbers determine no run."""


@cache
def known_workspaces() -> frozenset[int]:
    """The bytes of the two cuBLAS workspaces on known devices."""
    return frozenset(d.cublas_workspaces for d in known_devices() if d.cublas_workspaces)


def workspaces_of(shape: Shape, memory: int) -> int:
    """The bytes of the cuBLAS workspaces if the naive implementation took `memory` at a shape."""
    return memory - costs.naive_peak_memory(shape, 0)


def _takers(shape: Shape, memory: int) -> Iterator[str]:
    """The implementations that take these bytes at a shape."""
    if costs.has_memory_model(shape):
        if costs.flash2_peak_memory(shape) == memory:
            yield FLASH2
        if workspaces_of(shape, memory) in known_workspaces():
            yield NAIVE


@lru_cache(65536)
def _of_product(product: float, error: float, memory: int, causal: bool) -> tuple[Option, ...]:
    """Every run with B·H·N²·d = `product`, within a relative error, that takes `memory` bytes."""
    import numpy as np  # calls that import no folder do not wait for it

    found: list[Option] = []
    for d in costs.HEAD_DIMS:
        quotient = product / d
        # Every run has at least q, k, v and three outputs: 12 bytes for each of B·N·E elements.
        least_length = max(2 * d, int(12 * product / memory))
        lengths = np.arange(least_length, min(isqrt(int(quotient)), MAX_LENGTH) + 2)
        squares = lengths.astype(float) ** 2
        many = np.rint(quotient / squares)
        fits = (many > 0) & (np.abs(many * squares - quotient) <= error * quotient)
        if np.count_nonzero(fits) > MOST:
            return ()
        for n, groups in zip(lengths[fits].tolist(), many[fits].astype(int).tolist(), strict=True):
            least = next((f for f in range(2, isqrt(groups) + 1) if groups % f == 0), groups)
            # How B·H splits matters only in that the naive one copies where both are above 1.
            probes = [Shape(groups // h, n, h, h * d, causal) for h in {1, least}]
            if any(who for probe in probes for who in _takers(probe, memory)):
                splits = (h for h in range(1, groups + 1) if groups % h == 0)
                shapes = (Shape(groups // h, n, h, h * d, causal) for h in splits)
                found += [(who, shape) for shape in shapes for who in _takers(shape, memory)]
    return tuple(found)


def possible_runs(result: Result) -> list[Option]:
    """Every run that takes the FLOPs, within rounding, and the memory of a result, to the byte."""
    memory, options = result.peak_mib * costs.MIB, list[Option]()
    flops = result.forward_flops
    if memory % 1 or flops < 32 or result.error > COARSE:
        return []
    for causal, operations in ((False, 4), (True, 2)):
        product = flops / operations
        if result.error <= EXACT:  # a whole multiple of 8, as d is
            product = round(product / 8) * 8.0
        if isclose(product * operations, flops, rel_tol=EXACT):
            options += _of_product(product, result.error, int(memory), causal)
    return options


def has_flops(result: Result, shape: Shape) -> bool:
    """True if a result has the operations of a shape, within its rounding."""
    return isclose(result.forward_flops, costs.forward_flops(shape), rel_tol=result.error)
