"""The whole story of odd data: every observation that is made can be told in every language."""

from typing import Any

import pytest
from planted.experiments import Planter
from story.attention.planting import FAST, along_n, many
from story.reading import told

from flashlab.story.attention import story
from flashlab.story.observation import as_json

FAILED = ("oom",) * 4

ODD: dict[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "single processes": (along_n(FlashLab=FAST), {"processes": 1}),
    "means alone": (
        {n: [{"forward": t * 1e-5, "means": True} for t in row] for n, row in along_n().items()},
        {},
    ),
    "noise": (along_n(FlashLab=FAST), {"spread": 0.3, "count": 12}),
    "one length": ({name: row[:1] for name, row in along_n(FlashLab=FAST).items()}, {}),
    "a fused one fails": (along_n(Flash3=FAILED), {}),
    "all but one fused fail": (along_n(Flash3=FAILED, Flash4=FAILED), {}),
    "the naive one fails": (along_n(Pytorch=FAILED), {}),
    "nothing has numbers": (dict.fromkeys(along_n(), FAILED), {}),
    "no naive one": ({n: row for n, row in along_n().items() if n not in ("Pytorch",)}, {}),
    "no two at the same length": (
        along_n(Flash2=(20, *FAILED[1:]), Flash3=("oom", 24, "oom", "oom"), Flash4=FAILED),
        {},
    ),
    "a mask at some lengths": (
        {**along_n(), ("Pytorch", True): (300, 600), ("Flash4", True): (9, 18)},
        {},
    ),
    "a mask of all": (
        {**along_n(), **{(name, True): row for name, row in along_n(Flash4=FAILED).items()}},
        {},
    ),
    "three": ({"Pytorch": (300, 600), "Flash2": (300, 600), "Flash4": (310, 700)}, {}),
}


@pytest.mark.parametrize(("runs", "options"), ODD.values(), ids=ODD)
def test_odd_data_has_a_story_that_can_be_told(
    planter: Planter, runs: Any, options: dict[str, Any]
) -> None:
    for observation in story(many(planter, runs, **options)):
        as_json(observation.facts)
        for text in told(observation).values():
            assert text and "None" not in text and "nan" not in text


def test_the_order_of_a_chapter_is_that_of_its_list(planter: Planter) -> None:
    names = [each.name for each in story(many(planter, along_n(FlashLab=FAST))) if each.section]
    assert names[0] == "varies" and names[-1] == "groups_take"
    assert names.index("groups_time") < names.index("leaders_section") < names.index("groups_rate")
