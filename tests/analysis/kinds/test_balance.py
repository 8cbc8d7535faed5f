from __future__ import annotations

import pytest
from analysis.deriving import Plant, keys, the_one

from flashlab.analysis.kinds.balance import BALANCE


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((2.5, 2.53), "as_operations"),
        ((3.0, 2.8), "above"),
        ((1.0, 2.0), "below"),
        ((2.0, 3.0), "mixed"),
    ],
)
def test_backward_is_compared_with_the_forward_by_their_operations(
    sweep: Plant, ratios: tuple[float, ...], verdict: str
) -> None:
    planted = sweep({"A": [(1, ratio) for ratio in ratios]})
    found = the_one(BALANCE, planted, metric="backward_time")
    assert (found.verdict, found.facts["ideal"]) == (verdict, 2.5)
    assert keys(found) == [f"balance.{verdict}"]
    assert found.subject["other_metric"] == "forward_time"
    assert [e["estimate"] for e in found.estimates] == pytest.approx(list(ratios), rel=0.03)
