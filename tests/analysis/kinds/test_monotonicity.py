from __future__ import annotations

import pytest
from analysis.deriving import Plant, keys, quoted, the_one

from flashlab.analysis.kinds.monotonicity import MONOTONICITY

Way = tuple[int, int, float]


@pytest.mark.parametrize(
    ("times", "fall", "rise"),
    [
        ([1.0, 2.0, 2.02, 4.0], None, None),
        ([4.0, 3.0, 2.0, 1.99], None, None),
        ([1.0, 1.01, 0.99, 1.0], None, None),
        ([1.0, 2.0, 1.8, 1.5, 4.0], (256, 1024, 0.75), (128, 2048, 4.0)),
        ([4.0, 1.0, 1.3], (128, 256, 0.25), (256, 512, 1.3)),
        ([1.0, 0.4, 1.2, 0.7], (128, 256, 0.4), (256, 512, 3.0)),  # it ends below its beginning
        ([1.0, 2.0, 1.92, 1.84, 1.77], (256, 2048, 0.885), (128, 256, 2.0)),  # small falls add up
    ],
)
def test_of_what_goes_both_ways_the_deepest_fall_and_the_highest_rise_are_named(
    experiment: Plant, times: list[float], fall: Way | None, rise: Way | None
) -> None:
    found = the_one(
        MONOTONICITY, experiment({"Flash2": times}, values=[128 * 2**i for i in range(5)])
    )
    if fall is None or rise is None:
        assert (found.verdict, found.statements) == ("monotone", [])
        return
    assert (found.verdict, keys(found)) == ("broken", ["monotonicity.broken"])
    told = quoted(found)
    for name, (start, end, ratio) in (("fall", fall), ("rise", rise)):
        assert (told[f"{name}_from"], told[f"{name}_to"]) == (start, end)
        assert told[f"{name}_ratio"] == pytest.approx(ratio, rel=0.03)


def test_memory_is_exact_so_that_any_printed_digit_counts(experiment: Plant) -> None:
    runs = {"Flash2": [{"peak": peak} for peak in (100.0, 103.0, 102.0)]}
    found = the_one(MONOTONICITY, experiment(runs), metric="peak_memory")
    assert (found.verdict, quoted(found)["fall_ratio"]) == ("broken", 0.99)
