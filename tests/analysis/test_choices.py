"""The choice of an implementation at a setting: a clear lead, a tie, or neither."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from analysis.deriving import Plant

from flashlab.analysis.choices import cells, ranking
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates

TIME = "forward_backward_time"
NAMES = ("Flash2", "Flash3", "Flash4")

SLOW, FAST = (15, 30, 60, 120), (10, 20, 40, 80)
LEVEL = (10.1, 20.2, 40.4, 80.8)


def table_of(*experiments: Any) -> pd.DataFrame:
    return comparisons(experiments, Estimates(experiments))


def times(flash2: Any, flash3: Any, flash4: Any) -> dict[str, Any]:
    return dict(zip(NAMES, (flash2, flash3, flash4), strict=True))


def test_every_implementation_is_held_against_the_best(experiment: Plant) -> None:
    planted = experiment(times(SLOW, FAST, LEVEL), spread=0.001)
    first = ranking(table_of(planted), TIME, NAMES).query("seq_len == 128")
    assert [*first.name] == ["Flash3", "Flash4", "Flash2"]
    assert [*first.verdict] == ["best", "equal", "slower"]
    assert first.behind.round(2).tolist() == [1, 1.01, 1.5]
    assert set(first.best) == {"Flash3"}


def test_only_those_asked_for_are_ranked(experiment: Plant) -> None:
    table = table_of(experiment(times(SLOW, FAST, LEVEL), spread=0.001))
    assert set(ranking(table, TIME, ["Flash2", "Flash4"]).best) == {"Flash4"}
    assert ranking(table, TIME, ["Flash2"]).empty


@pytest.mark.parametrize(
    ("planted", "state", "names"),
    [
        (times(SLOW, FAST, SLOW), "clear", ["Flash3"]),
        (times(SLOW, FAST, LEVEL), "level", ["Flash3", "Flash4"]),
        # 4% ahead is no lead, 6% is one.
        (times(SLOW, FAST, [t * 1.04 for t in FAST]), "level", ["Flash3", "Flash4"]),
        (times(SLOW, FAST, [t * 1.06 for t in FAST]), "clear", ["Flash3"]),
    ],
)
def test_a_cell_is_one_lead_or_all_that_do_as_well(
    experiment: Plant, planted: Any, state: str, names: Sequence[str]
) -> None:
    ranked = ranking(table_of(experiment(planted, spread=0.001)), TIME, NAMES)
    (found,) = {
        (row.state, *row.names) for row in cells(ranked, ["seq_len", "causal"]).itertuples()
    }
    assert found == (state, *names)


def test_a_lead_is_that_over_the_next(experiment: Plant) -> None:
    planted = experiment(times(SLOW, FAST, [t * 1.2 for t in FAST]), spread=0.001)
    found = cells(ranking(table_of(planted), TIME, NAMES), ["seq_len", "causal"])
    assert all(1.19 < end < 1.21 for lead in found.lead for end in lead)


def test_what_is_undecided_will_do_as_well(experiment: Plant) -> None:
    planted = experiment(times(SLOW, FAST, [t * 1.06 for t in FAST]), spread=0.3, count=12)
    found = cells(ranking(table_of(planted), TIME, NAMES), ["seq_len", "causal"])
    assert set(found.state) == {"level"}


def test_a_cell_of_several_settings_holds_at_each_of_them(experiment: Plant) -> None:
    """Flash3 leads at one batch size and is level at the other; or another one leads there."""
    first = experiment(times(SLOW, FAST, SLOW), spread=0.001)
    for other, state, names in (
        (times(SLOW, FAST, LEVEL), "level", ["Flash3"]),
        (times(SLOW, SLOW, FAST), "changes", ["Flash3", "Flash4"]),
    ):
        sizes = {"batch_size": 7}
        second = experiment(
            other, "batches", spread=0.001, sizes=lambda n, more=sizes: {"seq_len": n, **more}
        )
        ranked = ranking(table_of(first, second), TIME, NAMES)
        found = cells(ranked, ["seq_len", "causal"])
        assert set(found.state) == {state}
        assert {tuple(sorted(each)) for each in found.names} == {tuple(names)}


def test_the_order_of_names_decides_nothing(experiment: Plant) -> None:
    table = table_of(experiment(times(SLOW, FAST, LEVEL), spread=0.001))
    one, other = (ranking(table, TIME, names) for names in (NAMES, NAMES[::-1]))
    pd.testing.assert_frame_equal(one, other)
