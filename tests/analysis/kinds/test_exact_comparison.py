from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.kinds.exact_comparison import EXACT_COMPARISON


def shared(*shares: float) -> dict[Any, Any]:
    """Flash2 with these shares of Pytorch's peak."""
    return {
        "Pytorch": [{"peak": 100.0}] * len(shares),
        "Flash2": [{"peak": 100.0 * share} for share in shares],
    }


@pytest.mark.parametrize(
    ("shares", "sides"),
    [
        ((0.5, 0.25), {"less": ([128, 256], 0.25, 256, 0.5, 128)}),
        ((2.0, 4.0), {"more": ([128, 256], 2.0, 128, 4.0, 256)}),
        ((1.0, 1.0), {"equal": ([128, 256], 1.0, 128, 1.0, 128)}),
        # To the last byte, and printed with as many digits as tell it.
        ((0.9999, 1.0), {"less": ([128], 0.9999, 128, 0.9999, 128),
                         "equal": ([256], 1.0, 256, 1.0, 256)}),
        ((1 + 2**-30,), {"more": ([128], 1.000000001, 128, 1.000000001, 128)}),
        # Each side is a finding of its own.
        ((0.5, 2.0, 3.0), {"less": ([128], 0.5, 128, 0.5, 128),
                           "more": ([256, 512], 2.0, 256, 3.0, 512)}),
        # The greatest is where it is, and not where it first prints alike.
        ((1.9, 1.9981, 1.9989), {"more": ([128, 256, 512], 1.9, 128, 2.0, 512)}),
    ],
)  # fmt: skip
def test_memory_is_compared_to_the_last_byte(
    experiment: Plant, shares: tuple[float, ...], sides: dict[str, Any]
) -> None:
    found = derived(EXACT_COMPARISON, experiment(shared(*shares)))
    names = ("values", "low", "low_at", "high", "high_at")
    assert {f.verdict: tuple(f.facts[name] for name in names) for f in found} == sides
    estimates = sorted(e["estimate"] for f in found for e in f.estimates)
    assert estimates == pytest.approx(sorted(shares), rel=1e-11)
