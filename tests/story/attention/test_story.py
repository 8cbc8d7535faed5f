"""The whole story of odd data: every observation that is made can be told in every language."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from planted.experiments import SIZES, Planter
from story.attention.planting import FAST, along_n, declared, many
from story.reading import tables_of, told

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


SIZES_OF: Mapping[str, Callable[[int], Mapping[str, int]]] = {
    "seq_len": lambda value: {"seq_len": value},
    "emb_dim": lambda value: {"seq_len": 128, "emb_dim": value},
    "num_heads": lambda value: {"emb_dim": 1024, "num_heads": value // 64},
    "batch_size": lambda value: {"batch_size": value // 64},
}
FEW, ALL = ("Pytorch", "Flash2"), tuple(along_n(SdpaCudnn=FAST, FlashLab=FAST))


def failing(random: np.random.Generator, names: Sequence[str], share: float) -> dict[Any, Any]:
    """Times along a sweep of which a share of the runs, any of them, has failed."""

    def cell(time: float, value: int) -> Any:
        if random.random() < share:
            return str(random.choice(["oom", "error", "incorrect", "unsupported"]))
        return {"forward": time * value, "backward": 2 * time * value, "peak": float(value)}

    masks = ((False,), (True,), (False, True))[random.integers(3)]
    runs = {
        (name, causal): {value: cell(float(random.uniform(0.04, 0.4)), value) for value in SIZES}
        for name in names
        for causal in masks
    }
    runs[names[0], masks[0]][SIZES[0]] = 10  # one has numbers
    return runs


@pytest.mark.parametrize("seed", range(48))
def test_failures_of_any_runs_stop_no_story(planter: Planter, seed: int) -> None:
    random = np.random.default_rng(seed)
    names = (FEW, ALL[:3], ALL)[seed % 3]
    sweeps = [str(each) for each in random.choice([*SIZES_OF], 1 + seed % 2, replace=False)]
    planted = [
        declared(
            planter.experiment(
                failing(random, names, float(random.choice([0.1, 0.3, 0.6, 0.9]))),
                *(sweep, sweep),
                sizes=SIZES_OF[sweep],
                **{"device": "cuda", "dtype": "float16", "processes": 1 + seed % 4},
            )
        )
        for sweep in sweeps
    ]
    for observation in story(tables_of(*planted)):
        assert all(told(observation).values())


def test_the_order_of_a_chapter_is_that_of_its_list(planter: Planter) -> None:
    names = [each.name for each in story(many(planter, along_n(FlashLab=FAST))) if each.section]
    assert names[0] == "varies" and names[-1] == "groups_take"
    assert names.index("groups_time") < names.index("leaders_section") < names.index("groups_rate")
