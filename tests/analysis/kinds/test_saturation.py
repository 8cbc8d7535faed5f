from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived, keys, the_one

from flashlab.analysis.kinds.saturation import SATURATION


@pytest.mark.parametrize(
    ("rates", "verdict", "start"),
    [
        ((1, 2, 2.01, 2), "reached", 256),
        ((2, 2, 2.01, 2), "reached", 128),
        ((1, 2, 3, 4), "rising", None),
        ((1, 4, 4, 3), "falls", None),
        ((1, 4, 3, 4), "uneven", None),
        ((1, 1, 1, 2), "rising", None),
    ],
)
def test_it_is_where_the_rate_stays_at_its_highest(
    sweep: Plant, rates: tuple[float, ...], verdict: str, start: int | None
) -> None:
    times = [4**i / rate for i, rate in enumerate(rates)]  # the operations grow as N²
    found = the_one(SATURATION, sweep({"A": times}))
    assert (found.verdict, found.facts["from"]) == (verdict, start)
    told = [f"saturation.{verdict}"] if verdict in ("reached", "falls") else []
    assert keys(found) == told


def test_few_sizes_and_means_alone_decide_nothing(sweep: Plant) -> None:
    assert derived(SATURATION, sweep({"A": (1, 2)})) == []
    planted = sweep({"A": [{"forward": [1.0], "means": True}] * 4})
    assert the_one(SATURATION, planted).verdict == "inconclusive"
