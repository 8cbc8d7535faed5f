from __future__ import annotations

import pytest
from analysis.deriving import Plant, keys, quoted, the_one

from flashlab.analysis.kinds.launch_bound import LAUNCH_BOUND


@pytest.mark.parametrize(
    ("times", "until"),
    [
        ((1, 1.01, 4, 16), 256),
        ((1, 1.01, 0.99, 16), 512),
        ((1, 4, 16, 64), None),
        ((1, 1.2, 1.21, 16), None),  # level later, but not at the small end
    ],
)
def test_a_time_that_is_level_while_the_operations_grow_is_found_at_the_small_end(
    experiment: Plant, times: tuple[float, ...], until: int | None
) -> None:
    found = the_one(LAUNCH_BOUND, experiment({"A": times}))
    assert found.facts["times_work"] == ((until or 128) / 128) ** 2
    if until is None:
        assert (found.verdict, keys(found)) == ("none", [])
    else:
        assert (found.verdict, quoted(found)["until"]) == ("level", until)


def test_a_level_time_at_level_operations_means_nothing(experiment: Plant) -> None:
    runs = {"A": {1: 1, 2: 1, 4: 1}}
    planted = experiment(runs, "heads", "num_heads", sizes=lambda h: {"num_heads": h})
    assert the_one(LAUNCH_BOUND, planted).verdict == "none"
