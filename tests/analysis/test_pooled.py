"""A ratio over several settings together: what it is, and how often it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from flashlab.analysis.pairing import Processes
from flashlab.analysis.pooled import PooledRatio, pooled_ratio
from flashlab.statistics import DRAWS, Estimate, Floats

Side = Sequence[Sequence[float]]
"""The medians of each process at each setting."""


def pooled(ones: Side, others: Side, calls: Floats | None = None) -> PooledRatio | None:
    """The ratio of two sides; `calls` spread the calls of each process around its median."""

    def processes(medians: Sequence[float]) -> Processes:
        return Processes([Estimate(m, 100, calls) for m in medians], [None] * len(medians))

    return pooled_ratio(list(map(processes, ones)), list(map(processes, others)))


def test_it_is_the_geometric_mean_and_the_inverse_of_the_inverse() -> None:
    ones, others = [[2.0, 2.1, 1.9], [8.0, 8.1, 8.3]], [[1.0, 1.01, 0.99], [1.0, 1.0, 1.02]]
    found, inverse = pooled(ones, others), pooled(others, ones)
    assert found and inverse and found.low and inverse.high
    assert found.ratio == pytest.approx(math.exp(np.log(np.array(ones) / others).mean()))
    assert (found.value, found.pairs, found.verdict) == (2, 3, "above")
    assert (inverse.verdict, 1 / inverse.ratio) == ("below", pytest.approx(found.ratio))
    assert 1 / inverse.high == pytest.approx(found.low)


@pytest.mark.parametrize(
    ("count", "rounds"), [(2, 0.0), (3, 0.0), (3, 0.01), (3, 0.03), (5, 0.0), (5, 0.03)]
)
def test_its_interval_holds_the_truth(count: int, rounds: float) -> None:
    """Processes differ by 2%, and whole rounds, which three tell, by so much more."""
    random, held, tries = np.random.default_rng(1), 0, 1000
    for _ in range(tries):
        of_round = random.normal(0, rounds, count)
        sides = np.exp(random.normal(0, 0.02, (2, 4, count)))
        sides[0] *= 1.3 * np.exp(of_round)
        found = pooled(sides[0].tolist(), sides[1].tolist())
        assert found and found.low and found.high
        held += found.low <= 1.3 <= found.high
    assert held / tries >= 0.92


def test_it_is_no_surer_than_the_calls_within_processes() -> None:
    """Processes whose medians agree by chance, each known to 20% alone."""
    side = [[1.0, 1.0]] * 2
    found = pooled(side, side, np.exp(np.linspace(-0.2, 0.2, DRAWS)))
    assert found and found.low and found.high
    deviation = 0.2 / math.sqrt(3) * math.sqrt(8) / 4  # of a mean of four uniform differences
    assert math.log(found.high) == pytest.approx(1.96 * deviation, rel=0.1)
    assert found.low * found.high == pytest.approx(1)
