from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.kinds.crossover import CROSSOVER

Change = tuple[int, int, str, str]


@pytest.mark.parametrize(
    ("speeds", "changes"),
    [
        ((0.5, 0.8, 1.0, 2.0), [(256, 1024, "Pytorch", "Flash2")]),
        (
            (0.5, 2.0, 0.5, 0.5),
            [(128, 256, "Pytorch", "Flash2"), (256, 512, "Flash2", "Pytorch")],
        ),
        ((2.0, 1.0), []),
        ((0.5, 1.0), []),
        ((1.0, 1.01), []),
    ],
)
def test_each_change_of_the_better_one_lies_between_two_measured_values(
    experiment: Plant, speeds: tuple[float, ...], changes: list[Change]
) -> None:
    planted = experiment({"Pytorch": [9] * len(speeds), "Flash2": [9 / speed for speed in speeds]})
    found = derived(CROSSOVER, planted, metric="forward_time")
    assert [f.verdict for f in found] == (["crosses"] * len(changes) or ["none_in_range"])
    names = ("low_at", "high_at", "before", "after")
    crossing = [f.facts for f in found if f.verdict == "crosses"]
    assert [tuple(facts[name] for name in names) for facts in crossing] == changes


def test_the_pairs_that_do_not_change_places_stand_together(experiment: Plant) -> None:
    planted = experiment({"Flash2": (1, 1), "Pytorch": (9, 9), "SdpaMath": (10, 0.5)})
    found = derived(CROSSOVER, planted, metric="forward_time")
    assert [(f.verdict, len(f.implementations)) for f in found] == [
        *[("crosses", 2)] * 2,
        ("none_in_range", 0),
    ]
    assert found[-1].facts["pairs"] == [["Flash2", "Pytorch"]]


def test_noise_that_allows_either_to_be_better_decides_nothing(experiment: Plant) -> None:
    planted = experiment({"Pytorch": (9, 9), "Flash2": (9, 8.9)}, count=12, spread=0.3)
    assert {f.verdict for f in derived(CROSSOVER, planted)} == {"inconclusive"}
    planted = experiment({"Pytorch": (9, "oom"), "Flash2": (9, 8.9)})
    assert {f.verdict for f in derived(CROSSOVER, planted)} == {"inconclusive"}
