"""A ratio over several settings together: what it is, and how often it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from analysis.deriving import Plant, rows_of

from flashlab.analysis.pairing import Processes
from flashlab.analysis.pooled import PooledRatio, pooled_ratio
from flashlab.statistics import DRAWS, Estimate

SETTINGS, ROUNDS = 4, 3


def processes(medians: Sequence[float]) -> Processes:
    return Processes([Estimate(median, 100, None) for median in medians], [None] * len(medians))


def pooled(ones: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> PooledRatio:
    found = pooled_ratio(list(map(processes, ones)), list(map(processes, others)))
    assert found
    return found


def test_it_is_the_geometric_mean_and_the_inverse_of_the_inverse() -> None:
    ones, others = [[2.0, 2.1, 1.9], [8.0, 8.1, 8.3]], [[1.0, 1.01, 0.99], [1.0, 1.0, 1.02]]
    found, inverse = pooled(ones, others), pooled(others, ones)
    assert found.ratio == pytest.approx(math.exp(np.log(np.array(ones) / others).mean()))
    assert (found.value, found.pairs, found.verdict) == (2, 3, "above")
    assert inverse.verdict == "below"
    assert 1 / inverse.ratio == pytest.approx(found.ratio)
    assert found.low and inverse.high and 1 / inverse.high == pytest.approx(found.low)


@pytest.mark.parametrize(
    ("ones", "others"),
    [
        ([[1.0, 1.1, 1.2]], [[1.0, 1.1, 1.2]]),  # one setting is no mean of several
        ([[1.0], [1.0]], [[1.0], [1.0]]),  # one process tells nothing about others
        ([[1.0, 1.1], [1.0]], [[1.0, 1.1], [1.0]]),
        ([], []),
    ],
)
def test_too_little_has_none(ones: list[list[float]], others: list[list[float]]) -> None:
    assert pooled_ratio(list(map(processes, ones)), list(map(processes, others))) is None


@pytest.mark.parametrize(
    ("count", "rounds"), [(2, 0.0), (3, 0.0), (3, 0.01), (3, 0.03), (5, 0.0), (5, 0.03)]
)
def test_its_interval_holds_the_truth(count: int, rounds: float) -> None:
    """Processes differ by 2%, and whole rounds, which three tell, by so much more."""
    random, held, tries = np.random.default_rng(1), 0, 1000
    for _ in range(tries):
        of_round = random.normal(0, rounds, count)
        sides = np.exp(random.normal(0, 0.02, (2, SETTINGS, count)))
        sides[0] *= 1.3 * np.exp(of_round)
        found = pooled(sides[0].tolist(), sides[1].tolist())
        assert found.low and found.high
        held += found.low <= 1.3 <= found.high
    assert held / tries >= 0.92


def test_it_is_no_surer_than_the_calls_within_processes() -> None:
    """Processes whose medians agree by chance, each known to 20% alone."""
    wide = np.exp(np.linspace(-0.2, 0.2, DRAWS))
    side = [Processes([Estimate(1.0, 100, wide) for _ in range(2)], [None] * 2) for _ in range(4)]
    found = pooled_ratio(side[:2], side[2:])
    assert found and found.low and found.high
    deviation = 0.2 / math.sqrt(3) * math.sqrt(8) / 4  # of a mean of four uniform differences
    assert math.log(found.high) == pytest.approx(1.96 * deviation, rel=0.1)
    assert found.low * found.high == pytest.approx(1)


def test_what_single_settings_leave_open_has_a_row_of_all_together(experiment: Plant) -> None:
    """Each is 7% faster, with processes that differ by 2%: more than one setting tells."""
    factors = (0.98, 1.0, 1.02)
    runs = {
        "Pytorch": [[1.07 * f for f in np.roll(factors, i)] for i in range(SETTINGS)],
        "Flash2": [[*np.roll(factors, 2 * i)] for i in range(SETTINGS)],
    }
    planted = experiment(runs, spread=0.001)
    assert {row["verdict"] for row in rows_of(planted)} == {"inconclusive"}
    (found,) = rows_of(planted, pooled=True)
    assert (found["settings"], found["pairs"]) == (SETTINGS, ROUNDS)
    assert found["ratio"] == pytest.approx(1 / 1.07, rel=1e-3)


def test_of_two_rounds_it_is_as_wide_as_the_assumed_spread() -> None:
    """A round that all settings share is in no setting's processes: 1.0564 to 1.0600 was false."""
    found = pooled([[1.058, 1.0582]] * SETTINGS, [[1.0, 1.0]] * SETTINGS)
    assert found.low is not None and found.high is not None
    assert found.low < 1 < 1.1 < found.high
    assert found.verdict == "inconclusive"
