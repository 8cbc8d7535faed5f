"""Causes on a CPU, of planted operators and of what was measured on one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.operator_causes import CountedOperators

FEWEST = 4.19e6
"""Bytes that any implementation must move at B 1, N 512, H 8, E 512, causal."""


def counted(
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
    ("operators", "expected"),
    [
        # Measured on an AMD EPYC, 2 CPUs
        (counted(6, 10.4, 36.7e6, 64.8, 7.2, milliseconds=10.4), "products"),
        (counted(1, 7.6, 1.36e6, 0, 0, 100, milliseconds=7.6), "fused"),
        (counted(3, 16.3, 9.96e6, 0, 0, 87.7, milliseconds=16.3), "fused"),
        (counted(8, 9.8, 25.2e6, 86.7, 6.5, milliseconds=9.8), "products"),
        # Planted
        (counted(product=30), "unfused"),
        (counted(product=30, allocated=4e6), "elementwise"),
        (counted(1, product=30), "elementwise"),
        (counted(product=80, softmax=10), "products"),
        (counted(product=30, busy_ms=0.7), "launch_bound"),
        (counted(20, 0.5, fused=90, product=5, softmax=5), "launch_bound"),
        # In the dead zones: half, more than half, fused and not, allocated
        (counted(product=50), "none"),
        (counted(product=42, softmax=0), "none"),
        (counted(product=5, softmax=45, fused=50), "none"),
        (counted(product=30, allocated=1.75 * FEWEST), "none"),
        # Calling an operator takes no 0.15 ms, and none runs half as long again when profiled.
        (counted(product=80, softmax=10, busy_ms=0.1), "none"),
        (counted(product=80, softmax=10, busy_ms=1.6), "none"),
    ],
)
def test_the_first_rule_that_holds_clearly_is_the_cause(
    operators: CountedOperators, expected: str
) -> None:
    assert operators.verdict == expected


TRUTHS = {"products": (62.0, 20.0, 0.0), "unfused": (38.0, 32.0, 0.0), "fused": (20.0, 10.0, 62.0)}


@given(st.sampled_from(sorted(TRUTHS)), st.lists(st.floats(0.85, 1.15), min_size=4, max_size=4))
def test_shares_that_are_off_by_some_percent_give_no_contrary_cause(
    expected: str, off: list[float]
) -> None:
    shares = (*TRUTHS[expected], 100 - sum(TRUTHS[expected]))
    times = [share * factor for share, factor in zip(shares, off, strict=True)]
    product, softmax, fused, _ = (100 * time / sum(times) for time in times)
    found = counted(product=product, softmax=softmax, fused=fused)
    assert found.verdict in {expected, "none"}
