"""Causes on a GPU and on a CPU, of planted counters and of what was measured."""

from __future__ import annotations

import pytest

from flashlab.analysis.counted_passes import CountedKernels, CountedOperators, CountedPass
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

NAIVE, FUSED, SHORT = (
    Shape(16, 1024, 32, 2048, False),
    Shape(1, 16384, 16, 2048, False),
    Shape(16, 128, 32, 2048, False),
)
COPY = 4.273e9
"""Bytes that an H200 copies in a millisecond."""


def kernels(
    parts: int = 1,
    busy_ms: float = 1.0,
    moved: float = 1e8,
    matrix: float = 20.0,
    milliseconds: float = 1.0,
    shape: Shape = NAIVE,
) -> CountedKernels:
    compulsory = costs.compulsory_bytes(shape, "float16")["forward"]
    return CountedKernels(
        shape.seq_len, milliseconds, parts, busy_ms, moved, compulsory, matrix, COPY
    )


FEWEST = 4.19e6
"""Bytes that any implementation must move at B 1, N 512, H 8, E 512, causal."""


def operators(
    parts: int = 6,
    busy_ms: float = 1.0,
    allocated: float = 36.7e6,
    product: float = 50.0,
    softmax: float = 30.0,
    fused: float = 0.0,
    milliseconds: float = 1.0,
) -> CountedOperators:
    rest = 100 - product - softmax - fused
    return CountedOperators(
        512, milliseconds, parts, busy_ms, allocated, FEWEST, product, softmax, fused, rest
    )


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        # Measured on an H200
        (kernels(6, 1.78, 4.87e9, 8.2, 1.83), "neither"),
        (kernels(9, 3.47, 11.9e9, 8.7, 3.48), "unfused"),
        (kernels(1, 5.85, 0.318e9, 63, 5.87, FUSED), "neither"),
        (kernels(3, 17.2, 1.40e9, 51, 17.39, FUSED), "neither"),
        (kernels(1, 3.6, 0.268e9, 80.7, 3.67, FUSED), "matrix_bound"),
        (kernels(5, 10.5, 2.1e9, 67, 11.03, FUSED), "neither"),
        (kernels(1, 0.018, 0.03e9, 22, 0.0228, SHORT), "neither"),
        # Planted
        (kernels(10, busy_ms=0.5), "launch_bound"),
        (kernels(10, busy_ms=0.5, matrix=90), "launch_bound"),
        (kernels(10, busy_ms=0.7), "neither"),
        (kernels(100, 0.95), "neither"),
        (kernels(matrix=88), "matrix_bound"),
        (kernels(matrix=85, moved=4e9), "memory_bound"),
        (kernels(moved=3.5e9), "memory_bound"),
        (kernels(5, moved=3.5e9), "unfused"),
        (kernels(), "neither"),
        (kernels(matrix=45), "neither"),
        (kernels(matrix=79), "neither"),
        (kernels(moved=0.79 * COPY), "neither"),
        # No launch takes half a millisecond; no cold cache makes a kernel half as slow again.
        (kernels(busy_ms=0.5, matrix=90), "none"),
        (kernels(busy_ms=1.6, matrix=90), "none"),
        # Measured on an AMD EPYC, 2 CPUs
        (operators(6, 10.4, 36.7e6, 64.8, 7.2, milliseconds=10.4), "products"),
        (operators(1, 7.6, 1.36e6, 0, 0, 100, milliseconds=7.6), "fused"),
        (operators(3, 16.3, 9.96e6, 0, 0, 87.7, milliseconds=16.3), "fused"),
        (operators(8, 9.8, 25.2e6, 86.7, 6.5, milliseconds=9.8), "products"),
        # Planted
        (operators(product=30), "unfused"),
        (operators(product=30, allocated=4e6), "elementwise"),
        (operators(1, product=30), "elementwise"),
        (operators(product=80, softmax=10), "products"),
        (operators(product=30, busy_ms=0.7), "launch_bound"),
        (operators(20, 0.5, fused=90, product=5, softmax=5), "launch_bound"),
        # In the dead zones: half, more than half, fused and not, allocated
        (operators(product=50), "none"),
        (operators(product=42, softmax=0), "none"),
        (operators(product=5, softmax=45, fused=50), "none"),
        (operators(product=30, allocated=1.75 * FEWEST), "none"),
        # Calling an operator takes no 0.15 ms, and none runs half as long again when profiled.
        (operators(product=80, softmax=10, busy_ms=0.1), "none"),
        (operators(product=80, softmax=10, busy_ms=1.6), "none"),
    ],
)
def test_the_first_rule_that_holds_clearly_is_the_cause(
    counted: CountedPass, expected: str
) -> None:
    assert counted.verdict == expected


def test_excess_and_traffic_are_those_of_the_pass() -> None:
    found = kernels(6, 1.78, 4.87e9, 8.2, 1.83)
    assert found.excess == pytest.approx(18.1, rel=0.01)
    assert found.memory == pytest.approx(64, rel=0.01)
