"""Causes on a GPU, of planted counters and of what was measured on an H200."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.kernel_causes import CountedKernels
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

NAIVE, FUSED, SHORT = (
    Shape(16, 1024, 32, 2048, False),
    Shape(1, 16384, 16, 2048, False),
    Shape(16, 128, 32, 2048, False),
)
COPY = 4.273e9
"""Bytes that an H200 copies in a millisecond."""


def counted(
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


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        # Measured
        (counted(6, 1.78, 4.87e9, 8.2, 1.83), "neither"),
        (counted(9, 3.47, 11.9e9, 8.7, 3.48), "unfused"),
        (counted(1, 5.85, 0.318e9, 63, 5.87, FUSED), "neither"),
        (counted(3, 17.2, 1.40e9, 51, 17.39, FUSED), "neither"),
        (counted(1, 3.6, 0.268e9, 80.7, 3.67, FUSED), "matrix_bound"),
        (counted(5, 10.5, 2.1e9, 67, 11.03, FUSED), "neither"),
        (counted(1, 0.018, 0.03e9, 22, 0.0228, SHORT), "neither"),
        # Planted
        (counted(10, busy_ms=0.5), "launch_bound"),
        (counted(10, busy_ms=0.5, matrix=90), "launch_bound"),
        (counted(10, busy_ms=0.7), "neither"),
        (counted(100, 0.95), "neither"),
        (counted(matrix=88), "matrix_bound"),
        (counted(matrix=85, moved=4e9), "memory_bound"),
        (counted(moved=3.5e9), "memory_bound"),
        (counted(5, moved=3.5e9), "unfused"),
        (counted(), "neither"),
        (counted(matrix=45), "neither"),
        (counted(matrix=79), "neither"),
        (counted(moved=0.79 * COPY), "neither"),
        # No launch takes half a millisecond; no cold cache makes a kernel half as slow again.
        (counted(busy_ms=0.5, matrix=90), "none"),
        (counted(busy_ms=1.6, matrix=90), "none"),
    ],
)
def test_the_first_rule_that_holds_clearly_is_the_cause(
    kernels: CountedKernels, expected: str
) -> None:
    assert kernels.verdict == expected


def test_excess_and_traffic_are_those_of_the_pass() -> None:
    kernels = counted(6, 1.78, 4.87e9, 8.2, 1.83)
    assert kernels.excess == pytest.approx(18.1, rel=0.01)
    assert kernels.memory == pytest.approx(64, rel=0.01)


TRUTHS: dict[str, dict[str, Any]] = {
    "matrix_bound": {"matrix": 84.0},
    "unfused": {"parts": 5, "moved": 0.84 * COPY},
    "launch_bound": {"parts": 40, "busy_ms": 0.4},
}
WAVERING = ("busy_ms", "moved", "matrix")


@given(st.sampled_from(sorted(TRUTHS)), st.lists(st.floats(0.9, 1.1), min_size=3, max_size=3))
def test_counters_that_are_off_by_a_tenth_give_no_contrary_cause(
    expected: str, off: list[float]
) -> None:
    usual = {"busy_ms": 1.0, "moved": 1e8, "matrix": 20.0}
    drawn = usual | TRUTHS[expected]
    drawn |= {name: drawn[name] * factor for name, factor in zip(WAVERING, off, strict=True)}
    drawn["busy_ms"] = min(drawn["busy_ms"], 1.0)
    assert counted(**drawn).verdict in {expected, "neither", "none"}
