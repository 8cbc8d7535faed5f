"""The map of what to use."""

from planted.experiments import Planter
from story.attention.planting import FAST, along_n, many
from story.reading import told

from flashlab.story.attention.group_front import map_
from flashlab.story.attention.groups import groups_of
from flashlab.story.observation import Observation
from flashlab.story.tables import Tables


def map_of(tables: Tables) -> Observation:
    groups = groups_of(tables)
    assert groups is not None
    found = map_(tables, groups)
    assert found is not None
    return found


def test_the_map_has_a_row_for_each_d_and_n_and_a_column_for_each_mask(planter: Planter) -> None:
    masked = {(name, True): row[:2] for name, row in along_n().items()}
    facts = map_of(many(planter, along_n(), masked)).facts
    assert facts["masks"] == [False, True]
    assert [chart["use"] for chart in facts["charts"]] == ["inference", "training"]
    rows = facts["charts"][0]["rows"]
    assert [(row["d"], row["N"]) for row in rows] == [(16, n) for n in (128, 256, 512, 1024)]
    assert [row["cells"][1] is None for row in rows] == [False, False, True, True]
    assert facts["gaps"] and not facts["changes"]


def test_the_projects_kernel_is_a_candidate_and_the_naive_one_is_none(planter: Planter) -> None:
    own = tuple(time / 1.2 for time in FAST)
    facts = map_of(many(planter, along_n(FlashLab=own, Pytorch=(1, 1, 1, 1)))).facts
    cells = [row["cells"][0] for row in facts["charts"][1]["rows"]]
    assert {(*cell["names"], cell["state"]) for cell in cells} == {("FlashLab", "clear")}
    assert all(1.19 < cell["lead"][0] < 1.21 for cell in cells)


def test_the_note_says_what_the_signs_of_this_map_mean(planter: Planter) -> None:
    whole = told(map_of(many(planter, along_n())))
    assert "dot" not in whole["en"] and "/" not in whole["en"]
    masked = {(name, True): row[:2] for name, row in along_n().items()}
    said = told(map_of(many(planter, along_n(), masked)))
    assert said["en"].endswith("A dot was not measured.")
    assert said["zh_TW"].endswith("「·」表示沒有量測。")
