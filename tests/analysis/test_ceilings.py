"""The states of a ceiling: what a device did before it lowered its clocks, and after."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from planted.experiments import noisy

from flashlab.analysis.ceilings import Ceiling, read_ceilings


def ceiling_of(samples: list[float]) -> Ceiling:
    """The copy's ceiling of calls that took so long."""
    timed = {"samples": samples, "time(s)": 1e-3, "bytes": 2**30}
    document = {"device": "cuda", "matrix_product": {}, "copy": timed, "environment": {}}
    found = read_ceilings(document)
    return found.copy


def calls(factors: list[float]) -> list[float]:
    """Calls of 1 ms, 5% of them slow, each made longer by a factor."""
    samples = noisy(1e-3, count=len(factors), spread=0.002)
    return [factor * sample for factor, sample in zip(factors, samples, strict=True)]


@pytest.mark.parametrize(
    ("factors", "state"),
    [
        ([1.0] * 40, "measured"),
        ([1.0] * 14 + [1.08] * 36, "initial"),  # the H200's float16
        ([1.0] * 40 + [1.08] * 12, "initial"),
        ([1.0] * 20 + [1.04] * 20, "measured"),  # within the margin
        ([1.08] * 20 + [1.0] * 20, "measured"),  # it became faster
        ([1 + 0.2 * i / 60 for i in range(60)], "measured"),  # steadily, without a step
        ([1 + 0.2 * i / 1000 for i in range(1000)], "measured"),
    ],
)
def test_a_ceiling_that_fell_has_two_states(factors: list[float], state: str) -> None:
    ceiling = ceiling_of(calls(factors))
    assert ceiling.state == state
    if state == "initial":
        assert ceiling.time.median == pytest.approx(1.0, rel=0.01)
        assert ceiling.sustained_rate == pytest.approx(ceiling.rate / 1.08, rel=0.01)
        assert ceiling.time.count == factors.count(1.0)


def test_initial_are_the_calls_before_the_first_of_several_falls() -> None:
    """As the H200's float16: 16 calls at 772 TFLOP/s, 27 at 734, the rest at about 670."""
    falling = [1.0] * 16 + [1.054] * 27 + [1.16 + 0.02 * math.sin(i / 100) for i in range(1000)]
    ceiling = ceiling_of(calls(falling))
    assert ceiling.state == "initial"
    assert ceiling.time.count == 16
    assert ceiling.sustained is not None
    assert ceiling.sustained.count == pytest.approx(1000, abs=5)


@pytest.mark.parametrize(("size", "draws"), [(50, 20), (500, 2)])
def test_steady_calls_have_one_state_whatever_their_noise(size: int, draws: int) -> None:
    random = np.random.default_rng(12)
    for spread, slow in itertools.product((0.001, 0.01, 0.05), (0.0, 0.05, 0.2)):
        for _ in range(draws):
            drawn = random.lognormal(sigma=spread, size=size)
            samples = drawn * np.where(random.random(size) < slow, 1.2, 1.0) * 1e-3
            assert ceiling_of(samples.tolist()).state == "measured"
