"""The section on two implementations: rules that hold, and that just do not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from planted.experiments import Planter
from story.reading import section_of, told

from flashlab.story.attention import sweep
from flashlab.story.tables import Section

Planted = Callable[..., Section]

NAIVE = (30, 60, 120, 240)


@pytest.fixture
def planted(planter: Planter) -> Planted:
    """A section of Pytorch and Flash2 along N; times in units of 10 µs, with 0.1% of noise."""

    def section(flash2: Any, naive: Any = NAIVE, **more: Any) -> Section:
        masked = {(name, True): row for name, row in more.pop("masked", {}).items()}
        runs = {"Pytorch": naive, "Flash2": flash2, **masked}
        return section_of(planter.experiment(runs, **{"spread": 0.001, **more}))

    return section


def test_what_varies_is_said_first(planted: Planted) -> None:
    facts = sweep.varies(planted((10, 20, 40, 80))).facts
    assert (facts["p"], facts["values"], facts["factor"]) == ("N", [128, 256, 512, 1024], 8)
    assert facts["operations"] == 64
    said = told(sweep.varies(planted((10, 20, 40, 80))))
    assert said["en"].endswith("full attention. Operations ×64, as N².")
    assert said["zh_TW"].endswith("無遮罩。運算量 ×64（與 N² 成正比）。")


def test_of_the_mask_what_is_necessary_is_said_by_its_lengths(planted: Planted) -> None:
    """At N = 128 65 of 128 keys remain on average, 50.8%: more than half."""
    said = told(sweep.varies(planted((10, 20, 40, 80), masked={"Flash2": (10, 20, 40, 80)})))
    assert "leaves (N + 1)/2N of the operations necessary, 50.4% to 50.0%;" in said["en"]
    assert "只剩 (N + 1)/2N，即 50.4% 到 50.0%；" in said["zh_TW"]
    assert [sweep.necessary(n) for n in (1, 4)] == [1.0, 0.625]


def test_growth_names_both_ends_and_the_operations(planted: Planted) -> None:
    said = told(sweep.time_growth(planted((10, 20, 40, 80))))
    assert "from N = 128 to 1024 the forward pass takes 8.0 times as long (Pytorch)" in said["en"]
    assert "The last step takes 2.0× the time in both (operations 4×)." in said["en"]
    assert "stays below the 64× of the operations" in said["en"]
    assert "整段不到運算量的 ×64" in said["zh_TW"]


@pytest.mark.parametrize(("last", "is_below"), [(1500, False), (400, True)])
def test_what_is_known_coarsely_is_below_the_operations_with_its_interval(
    planted: Planted, last: float, is_below: bool
) -> None:
    """Processes from 0.8 to 1.25 of their mean: ×50 may be ×64, ×13 may not."""
    coarse = tuple([0.8 * t, t, 1.25 * t] for t in (30, 60, 120, last))
    said = told(sweep.time_growth(planted(coarse, coarse)))["en"]
    assert ("stays below the 64× of the operations" in said) is is_below


@pytest.mark.parametrize(
    ("flash2", "english", "chinese"),
    [
        ((10, 20, 40, 80), "3.0 times as fast in total, hardly changing with N", "不隨 N 改變"),
        ((20, 32, 50, 80), "it grows with N: 1.5 → 3.0 times as fast", "隨 N 擴大"),
        ((10, 25, 65, 160), "it shrinks with N: 3.0 → 1.5 times as fast", "隨 N 縮小"),
        ((20, 20, 80, 160), "largest at N = 256 (3.0 times as fast in total)", "N = 256 最大"),
        ((30, 60, 120, 240), "none: the totals are within 5% of each other", "都相差不到 5%"),
    ],
)
def test_the_lead_is_told_by_how_it_changes(
    planted: Planted, flash2: Any, english: str, chinese: str
) -> None:
    section = planted(flash2)
    said = told(sweep.time_lead(section))
    assert english in said["en"]
    assert chinese in said["zh_TW"]
    assert sweep.time_passes(section) is None


def test_an_undecided_lead_is_no_difference_of_none(planted: Planted) -> None:
    """With 30% of noise nothing is decided, and the sentence says so, with all values together."""
    noisy = planted((28, 57, 115, 230), spread=0.3, count=12)
    observation = sweep.time_lead(noisy)
    assert observation is not None
    assert observation.facts["verdict"] == "undecided"
    said = told(observation)
    assert "in total undecided at every N" in said["en"]
    assert "都無法判定" in said["zh_TW"]


def test_passes_that_go_opposite_ways_are_told_apart(planted: Planted) -> None:
    """Forward three times as fast, backward at half the speed: the lead in total is not told."""
    section = planted(tuple((n / 3, 2 * n) for n in NAIVE))
    assert sweep.time_lead(section) is None
    said = told(sweep.time_passes(section))
    assert "forward faster at every N (3.0); backward slower at every N (0.50)" in said["en"]
    assert "前向在每個 N 都較快（3.0 倍）；反向在每個 N 都較慢（0.50 倍）" in said["zh_TW"]


def test_passes_that_go_the_same_way_are_not(planted: Planted) -> None:
    section = planted(tuple((n / 3, n / 1.1) for n in NAIVE))
    assert sweep.time_passes(section) is None
    assert sweep.time_lead(section) is not None


def test_the_mask_is_judged_by_pass_at_both_ends(planted: Planted) -> None:
    """The other one is the same at the first length and gains beyond; the baseline loses."""
    masked = {"Pytorch": (33, 72, 156, 336), "Flash2": (10, 17, 29, 50)}
    section = planted((10, 20, 40, 80), masked=masked)
    said = told(sweep.time_switch(section))
    assert (
        "the forward of Flash2 is no different at N = 128 and ever faster beyond: "
        "1.60 times the speed at 1024" in said["en"]
    )
    assert "The forward of Pytorch gets slower: 10% more time at N = 128, 40% more" in said["en"]
    assert "在 N = 128 相差不到 5%，之後越來越快：1024 為 1.60 倍速" in said["zh_TW"]
    assert sweep.time_growth(section) is None


def test_rates_that_fall_with_the_mask_fall_by_definition(planted: Planted) -> None:
    masked = {"Pytorch": (33, 72, 156, 336), "Flash2": (10, 17, 29, 50)}
    said = told(sweep.rate_definition(planted((10, 20, 40, 80), masked=masked)))
    assert "Flash2 takes less time (1.60 times the speed)" in said["en"]
    assert "Pytorch really gets slower (0.71 times)" in said["en"]
    assert "Flash2 的時間變短（1.60 倍速）；Pytorch 真的變慢（0.71 倍速）" in said["zh_TW"]


def peaks(*sizes: float) -> list[Mapping[str, Any]]:
    return [{"forward": 10.0, "peak": size} for size in sizes]


def test_memory_is_told_by_how_it_grows(planted: Planted) -> None:
    section = planted(peaks(80, 160, 320, 640), naive=peaks(200, 464, 1376, 4736))
    said = told(sweep.memory_growth(section))
    assert "Pytorch 200 → 4,736 MiB (×24; the last step ×3.4, approaching quadratic)" in said["en"]
    assert "Flash2 80 → 640 MiB (×8: proportional)" in said["en"]
    assert "Flash2 只要 Pytorch 的 40% → 14%。" in said["zh_TW"]


@pytest.mark.parametrize(("excess", "is_equal"), [(1.019, True), (1.021, False)])
def test_the_mask_changes_no_memory_within_two_percent(
    planted: Planted, excess: float, is_equal: bool
) -> None:
    off = peaks(100, 200, 400, 800)
    on = peaks(100, 200, 400, 800 * excess)
    masked = {"Pytorch": off, "Flash2": on}
    found = sweep.memory_equal(planted(off, naive=off, masked=masked))
    assert (found is not None) == is_equal
