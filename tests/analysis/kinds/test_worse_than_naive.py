from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from analysis.deriving import Plant, derived, keys, the_one

from flashlab.analysis.kinds.worse_than_naive import WORSE_THAN_NAIVE


def against_naive(sweep: Plant, multiples: tuple[float, ...]) -> Any:
    """Another implementation takes these multiples of the naive one's time."""
    return sweep({"Pytorch": [1] * len(multiples), "Flex": list(multiples)})


@pytest.mark.parametrize(
    ("multiples", "key", "places", "ends"),
    [
        ((2.0, 1.25, 0.5), ["worse_than_naive.worse"], [128, 256], (0.5, 0.8)),
        ((2.0, 1.25, 1.5), ["worse_than_naive.worse.everywhere"], [], (0.5, 0.8)),
        ((0.5, 0.2), [], [], None),
        ((1.0, 1.01), [], [], None),
    ],
)
def test_it_is_stated_where_it_is_worse_and_by_how_much(
    sweep: Plant,
    multiples: tuple[float, ...],
    key: list[str],
    places: list[int],
    ends: tuple[float, float] | None,
) -> None:
    found = the_one(WORSE_THAN_NAIVE, against_naive(sweep, multiples))
    assert (found.verdict, keys(found)) == ("worse" if key else "none", key)
    assert (found.facts["count"], found.facts["of"]) == (
        sum(multiple > 1.05 for multiple in multiples),
        len(multiples),
    )
    expected = [{"implementation": "Flex", "seq_len": size} for size in places]
    assert [reason.run for reason in found.reasons] == expected
    if ends:
        assert (found.facts["low"], found.facts["high"]) == pytest.approx(ends, rel=0.03)


def test_another_baseline_is_not_the_naive_one(sweep: Plant) -> None:
    planted = against_naive(sweep, (2.0,))
    other = replace(planted, plan={**planted.plan, "baseline": "Flex"})
    assert derived(WORSE_THAN_NAIVE, other) == []
