"""The choice of an implementation at a setting: a clear lead, a tie, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from planted.experiments import Planter

from flashlab.analysis.choices import cells, ranking
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates

TIME, NAMES = "forward_backward_time", ("Flash2", "Flash3", "Flash4")
SLOW, FAST, LEVEL = (15, 30, 60, 120), (10, 20, 40, 80), (10.1, 20.2, 40.4, 80.8)
Times = tuple[Any, Any, Any]


def table_of(planter: Planter, *settings: Times, **noise: Any) -> pd.DataFrame:
    """The comparisons of the times of `NAMES`, at a batch size for each of `settings`."""
    planted = []
    for batch, times in enumerate(settings, start=1):
        runs = dict(zip(NAMES, times, strict=True))
        options = {"spread": 0.001, "sizes": {"batch_size": batch}, **noise}
        planted.append(planter.experiment(runs, f"of {batch}", **options))
    return comparisons(planted, Estimates(planted))


def behind(factor: float) -> list[float]:
    """Times of one that takes so many times as long as the fast one."""
    return [factor * time for time in FAST]


LEADS, TIES, OTHER = (SLOW, FAST, SLOW), (SLOW, FAST, LEVEL), (SLOW, SLOW, FAST)
WIDE = {"spread": 0.3, "count": 12}
CASES: Mapping[str, tuple[str, list[str], list[Times], dict[str, Any]]] = {
    "one leads": ("clear", ["Flash3"], [LEADS], {}),
    "two are level": ("level", ["Flash3", "Flash4"], [TIES], {}),
    "by 4%": ("level", ["Flash3", "Flash4"], [(SLOW, FAST, behind(1.04))], {}),
    "by 6%": ("clear", ["Flash3"], [(SLOW, FAST, behind(1.06))], {}),
    "what is undecided will do as well": (
        *(
            "level",
            ["Flash3", "Flash4"],
            [(SLOW, FAST, behind(1.06))],
            {"spread": 0.3, "count": 12},
        ),
    ),
    "it leads at one of two settings and is level": ("level", ["Flash3"], [LEADS, TIES], {}),
    "another leads at the other": ("changes", ["Flash3", "Flash4"], [LEADS, OTHER], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_cell_is_one_lead_or_all_that_do_as_well(planter: Planter, case: str) -> None:
    """Whatever the order of names."""
    state, names, settings, noise = CASES[case]
    table = table_of(planter, *settings, **noise)
    ranked = ranking(table, TIME, NAMES)
    found = cells(ranked, ["seq_len", "causal"])
    assert {(row.state, *sorted(row.names)) for row in found.itertuples()} == {(state, *names)}
    pd.testing.assert_frame_equal(ranked, ranking(table, TIME, NAMES[::-1]))
