"""The states of a ceiling: what a device did before it lowered its clocks, and after."""

from __future__ import annotations

import math

import numpy as np
import pytest
from planted.experiments import noisy

from flashlab.analysis.ceilings import read_ceilings

STEADY = [1.0] * 20
FALLING = [1.0] * 16 + [1.054] * 27 + [1.16 + 0.02 * math.sin(i / 100) for i in range(1000)]
"""As the H200's float16: 16 calls at 772 TFLOP/s, 27 at 734, the rest at about 670."""


@pytest.mark.parametrize(
    ("factors", "initial", "sustained"),
    [
        pytest.param(STEADY * 2, None, None, id="steady"),
        pytest.param([1.0] * 14 + [1.08] * 36, 14, 1.08, id="an H200's float16"),
        pytest.param([1.0] * 40 + [1.08] * 12, 40, 1.08, id="late"),
        pytest.param(FALLING, 16, 1.16, id="several falls"),
        pytest.param([*STEADY, *[1.04] * 20], None, None, id="within the margin"),
        pytest.param([1.08] * 20 + STEADY, None, None, id="it became faster"),
        pytest.param([1 + i / 300 for i in range(60)], None, None, id="without a step"),
        pytest.param([1 + i / 5000 for i in range(1000)], None, None, id="long, without a step"),
    ],
)
def test_a_ceiling_that_fell_has_two_states(
    factors: list[float], initial: int | None, sustained: float | None
) -> None:
    """Calls of 1 ms, each made longer by a factor; how many are initial, and how slow the rest."""
    calls = np.array(factors) * noisy(1e-3, count=len(factors), spread=0.002)
    timed = {"samples": calls.tolist(), "time(s)": 1e-3, "bytes": 2**30}
    document = {"device": "cuda", "matrix_product": {}, "copy": timed, "environment": {}}
    ceiling = read_ceilings(document).copy
    assert ceiling.state == ("initial" if initial else "measured")
    if initial and sustained:
        assert ceiling.time.count == initial
        assert ceiling.time.median == pytest.approx(1.0, rel=0.01)
        assert ceiling.sustained_rate == pytest.approx(ceiling.rate / sustained, rel=0.02)
