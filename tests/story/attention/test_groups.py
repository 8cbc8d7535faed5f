"""The groups of three or more implementations: those that store the scores, and the fused."""

from typing import Any

import pytest
from planted.experiments import Planter
from story.attention.planting import FAST, NAIVE, along_n, chapter_of, declared, doubted, many
from story.reading import tables_of, told

from flashlab.story.attention import group_front, group_sections, groups
from flashlab.story.attention.front import footnote_doubts
from flashlab.story.attention.gaps import gaps, odd_points
from flashlab.story.attention.sweep import TOTAL, time_lead
from flashlab.story.tables import Tables


def grouped(tables: Tables) -> groups.Groups:
    found = groups.groups_of(tables)
    assert found is not None
    return found


def test_groups_are_declared_in_the_kernels_files(planter: Planter) -> None:
    found = grouped(many(planter, along_n(FlashLab=FAST)))
    assert (found.naive, found.stored) == ("Pytorch", ("SdpaMath",))
    assert found.fused == ("Flash2", "Flash3", "Flash4", "FlashLab")
    assert found.others == ["Flash2", "Flash3", "Flash4"]
    assert found.mine == "FlashLab"
    assert found.projects == {"FlashLab": ["NVIDIA H200", "NVIDIA H100 80GB HBM3"]}


def test_two_implementations_are_no_groups(planter: Planter) -> None:
    pair = {"Pytorch": NAIVE, "Flash2": FAST}
    assert groups.groups_of(many(planter, pair)) is None


# The answer


def test_any_fused_one_is_to_be_used_where_all_are_faster(planter: Planter) -> None:
    tables = many(planter, along_n())
    said = told(group_front.answer_groups(tables, grouped(tables)))
    assert said["en"].startswith(
        "Switch to any fused implementation: in all 12 comparisons it beats Pytorch, "
        "the naive one, at 15–30 times the speed in total"
    )
    assert "12 次比較全都比直接實作 Pytorch 快" in said["zh_TW"]


@pytest.mark.parametrize(
    ("flash3", "english"),
    [
        # Slower at the last length alone; equal at the first two.
        ((12, 24, 48, 4800), "The exception is Flash3 at N = 1024 (0.50 times)."),
        ((300, 600, 48, 96), "The exception is Flash3 at N ≤ 256 (1.00 times; not shown faster)."),
        ((600, 24, 2400, 96), "The exception is Flash3 at 2 of 4 settings (0.50 times)."),
    ],
)
def test_exceptions_are_named_with_where(planter: Planter, flash3: Any, english: str) -> None:
    tables = many(planter, along_n(Flash3=flash3))
    said = told(group_front.answer_groups(tables, grouped(tables)))
    assert said["en"].startswith("Switch to a fused implementation")
    assert english in said["en"]


def test_fused_ones_that_are_seldom_faster_are_no_safe_gain(planter: Planter) -> None:
    slow = (600, 1200, 2400, 4800)
    tables = many(planter, along_n(Flash2=slow, Flash3=slow))
    said = told(group_front.answer_groups(tables, grouped(tables)))
    assert "no safe gain here: 4 of 12 comparisons are shown faster than Pytorch" in said["en"]
    assert "and 8 slower (0.50–30 times the speed)" in said["en"]
    assert "12 次比較中，合計判定比直接實作 Pytorch 快的有 4 次，判定較慢的有 8 次" in said["zh_TW"]


def test_what_stores_the_scores_and_is_slower_is_told_if_it_is_so_everywhere(
    planter: Planter,
) -> None:
    tables = many(planter, along_n())
    said = told(group_front.answer_stored(tables, grouped(tables)))
    assert "slower still at every setting (0.33 times the speed)" in said["en"]
    once_equal = many(planter, along_n(SdpaMath=(900, 1800, 3600, 2400)))
    assert group_front.answer_stored(once_equal, grouped(once_equal)) is None


def test_a_pass_that_is_slower_than_the_naive_one_is_the_cost(planter: Planter) -> None:
    slow = tuple((time / 9, 2 * time) for time in NAIVE)
    tables = many(planter, along_n(Flash3=slow))
    said = told(group_front.answer_groups_cost(tables, grouped(tables)))
    assert "at every setting the backward of Flash3 runs at only 0.50 times" in said["en"]
    assert "每一組設定 時 Flash3 的反向只有 Pytorch 的 0.50 倍速" in said["zh_TW"].replace(
        "設定時", "設定 時"
    )
    fine = many(planter, along_n())
    assert group_front.answer_groups_cost(fine, grouped(fine)) is None


def test_every_cost_is_told_or_counted_the_worst_first(planter: Planter) -> None:
    slow = {"Flash2": [(20, 40), (40, 80), (80, 160), (160, 2700)],
            "Flash3": [(12, 600), (24, 80), (48, 96), (96, 192)],
            "Flash4": [(10, 20), (20, 40), (1500, 80), (80, 160)]}  # fmt: skip
    tables = many(planter, along_n(**slow))
    said = told(group_front.answer_groups_cost(tables, grouped(tables)))
    assert said["en"].startswith("The cost: at N = 128 the backward of Flash3 runs at only 0.50")
    assert said["en"].endswith("; less so at 1 more.")
    assert said["zh_TW"].endswith("；另有 1 處較輕。")


# Sections


def test_time_is_told_by_group_with_the_odd_one_apart(planter: Planter) -> None:
    odd = (20, 60, 180, 540)
    said = told(group_sections.groups_time(chapter_of(many(planter, along_n(Flex=odd)))))
    assert "Flex ×27, the others ×8.0" in said["en"]
    assert "Pytorch ×8.0" in said["en"]
    assert "Flex ×27，其餘 ×8.0" in said["zh_TW"]


@pytest.mark.parametrize(("second", "is_told"), [(9.43, True), (10.4, False)])
def test_less_work_that_takes_no_less_time_is_told_if_that_is_shown(
    planter: Planter, second: float, is_told: bool
) -> None:
    """At N = 256 Flash2 takes 6% less time, by more than 5% or not, or 4% more, undecided too."""
    apart = [[0.99 * time, time, 1.01 * time] for time in (10, second, 20, 40)]
    chapter = chapter_of(many(planter, along_n(Flash2=apart)))
    step = chapter.first.step(TOTAL, "Flash2", chapter.main.variant, 256)
    assert step is not None and step.verdict == "undecided"
    said = told(group_sections.groups_time(chapter))
    assert ("Flash2 is no faster at N = 128 than at 256" in said["en"]) is is_told


def test_where_the_naive_one_ends_before_the_others_is_told(planter: Planter) -> None:
    ending = (300, 600, 1200, "oom")
    tables = many(planter, along_n(Pytorch=ending, SdpaMath=ending))
    said = told(group_sections.groups_time(chapter_of(tables)))
    assert said["en"].endswith("; Pytorch ends at N = 512, with 24.0 ms against 0.800–1.60.")
    assert said["zh_TW"].endswith("；Pytorch 只到 N = 512（24.0 對 0.800–1.60 ms）。")


def test_growth_that_all_share_is_told_as_one(planter: Planter) -> None:
    observation = group_sections.groups_time(chapter_of(many(planter, along_n())))
    assert observation is not None
    assert observation.facts["alike"] and observation.facts["turns"] == []
    said = told(observation)
    assert said["en"].startswith("Time: from N = 128 to 1024 all 5 take 8.0 times as long")
    assert "no two of the fused are shown to change places" in said["en"]


def test_two_that_change_places_are_not_said_to_keep_them(planter: Planter) -> None:
    """Growth within 16% for all, while Flash3 is first ahead of Flash4 and then behind."""
    turning = along_n(Flash3=(9.3, 19, 41, 85))
    observation = group_sections.groups_time(chapter_of(many(planter, turning)))
    assert observation is not None
    assert observation.facts["turns"] == [["Flash3", "Flash4"]]
    assert "change places" not in told(observation)["en"]


@pytest.mark.parametrize(("flash3", "is_told"), [(12, True), (9, False)])
def test_the_batch_size_does_not_matter_where_one_is_best_throughout(
    planter: Planter, flash3: float, is_told: bool
) -> None:
    """Flash4 is the fastest at every B, or at the last alone is 10% behind Flash3."""
    batches = {"sizes": lambda b: {"batch_size": b}, "values": (1, 2), "spread": 0.001}
    runs = {"Pytorch": (100, 200), "Flash3": (12, 2 * flash3), "Flash4": (10, 20)}
    experiment = planter.experiment(runs, "batches", "batch_size", **batches)
    lesson = group_sections.groups_take(chapter_of(tables_of(declared(experiment))))
    assert (lesson is not None and lesson.facts["lesson"] == "batch") is is_told
    if is_told:
        assert told(lesson)["en"].endswith("the batch size does not affect the choice.")
        assert told(lesson)["zh_TW"].endswith("批次大小不影響選擇。")


@pytest.mark.parametrize(
    ("numbers", "odd"),
    [
        ({"a": 15, "b": 17, "c": 21, "d": 43}, "d"),
        ({"a": 15, "b": 17, "c": 30, "d": 43}, None),  # no gap
        ({"a": 15, "b": 17, "c": 43}, None),  # too few
        ({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.1}, None),  # no wide range
    ],
)
def test_one_lies_apart_from_at_least_three_alike(numbers: Any, odd: str | None) -> None:
    assert groups.apart(numbers) == odd


def test_the_mask_is_told_by_group(planter: Planter) -> None:
    masked = {
        ("Pytorch", True): [1.3 * time for time in NAIVE],
        ("SdpaMath", True): [3.6 * time for time in NAIVE],
        ("Flash2", True): (20, 36, 60, 100),
        ("Flash3", True): (12, 20, 32, 60),
        ("Flash4", True): (10, 16, 26, 44),
    }
    chapter = chapter_of(many(planter, {**along_n(), **masked}))
    said = told(group_sections.groups_switch(chapter))
    assert "N = 1024, the fused run at 1.60–1.82 times the speed, Flash4 gains most" in said["en"]
    assert "at N = 128 none is shown faster" in said["en"]
    assert "Those that store the scores get slower: Pytorch runs at 0.77 times" in said["en"]
    assert "N = 128 時沒有一種判定變快" in said["zh_TW"]
    assert group_sections.groups_time(chapter) is None
    lesson = told(group_sections.groups_take(chapter))
    assert lesson["en"] == (
        "Take: the mask widens the lead of the fused over Pytorch from 15–30 to 31–71 times "
        "(N = 1024)."
    )


def test_the_chapter_of_a_mask_that_changes_little_teaches_nothing(planter: Planter) -> None:
    """The lead grows by 8%, less than two margins."""
    masked = {(name, True): [t / 1.08 for t in row] for name, row in along_n().items()}
    masked |= {(name, True): along_n()[name] for name in ("Pytorch", "SdpaMath")}
    chapter = chapter_of(many(planter, {**along_n(), **masked}))
    assert group_sections.groups_take(chapter) is None


def along_h(**changes: Any) -> dict[str, Any]:
    return {
        "Pytorch": (100, 160, 280, 500),
        "Flash2": (12, 10, 11, 16),
        "Flash3": (13, 10, 12, 22),
        "Flash4": (14, 12, 10, 19),
        **changes,
    }


def test_the_head_dimension_at_equal_operations(planter: Planter) -> None:
    """E is 64, so H from 2 to 16 makes d from 32 to 4."""
    planted = planter.experiment(
        along_h(),
        "num_heads",
        "num_heads",
        values=(2, 4, 8, 16),
        sizes=lambda value: {"num_heads": value},
        spread=0.001,
    )
    chapter = chapter_of(tables_of(declared(planted)))
    said = told(group_sections.groups_head_dim(chapter))
    assert "2 of the 3 fused have their lowest median at d = 16, Flash4 at d = 8" in said["en"]
    assert "takes 1.6–2.2 times as long, least with Flash2 and most with Flash3" in said["en"]
    assert "Pytorch takes 5.0 times as long at H = 16 as at 2." in said["en"]
    assert group_sections.groups_growth(chapter) is None
    take = told(group_sections.groups_take(chapter))
    assert "take d = 8 or 16 (by the medians within 21% of each one's best)" in take["en"]


@pytest.mark.parametrize(
    ("second", "lesson"),
    [(FAST, "batch"), ((10, 20, 60, 160), "groups")],
)
def test_the_batch_size_does_not_matter_where_none_change_places(
    planter: Planter, second: Any, lesson: str
) -> None:
    planted = planter.experiment(
        along_n(Flash4=second),
        "batch_size",
        "batch_size",
        values=(4, 8, 16, 32),
        sizes=lambda value: {"batch_size": value},
        spread=0.001,
    )
    observation = group_sections.groups_take(chapter_of(tables_of(declared(planted))))
    assert observation is not None and observation.facts["lesson"] == lesson


# What is missing


def test_what_has_no_numbers_is_told_with_why(planter: Planter) -> None:
    gate = {"errors": {"out": 0.001, "dqkv": 0.47}, "tolerance": 0.005}
    runs = along_n(
        Pytorch=(300, 600, 1200, "oom"), Flash3=({"status": "incorrect", "gate": gate},) * 4
    )
    tables = many(planter, runs)
    said = told(gaps(tables.sections))
    assert "Pytorch has no numbers at N = 1024: out of memory." in said["en"]
    assert (
        "Flash3 has no numbers at N = 128, 256, 512, 1024: its gradient is wrong "
        "(relative error 0.47, limit 0.005)." in said["en"]
    )
    assert "Pytorch 在 N = 1024 沒有數據：記憶體不足。" in said["zh_TW"]
    assert gaps(many(planter, along_n()).sections) is None


def test_tensors_that_would_fit_are_told_of_what_ran_out_of_memory(planter: Planter) -> None:
    """By the exact model: float16 on an H100, where one sequence of 16384 takes 64.4 GiB."""
    run = {"status": "oom", "environment": {"device_name": "NVIDIA H100 80GB HBM3", "packages": {}}}
    sizes = {"batch_size": 1, "num_heads": 32, "emb_dim": 2048}
    tables = many(
        planter,
        along_n(Pytorch=(300, 600, 1200, run)),
        **{"values": (2048, 4096, 8192, 16384), "dtype": "float16", "device": "cuda"},
        sizes=lambda n: {"seq_len": n, **sizes},
    )
    said = told(gaps(tables.sections))
    assert said["en"] == (
        "Pytorch has no numbers at N = 16384: out of memory, though by the exact model its tensors "
        "take 64 GiB of 79.2."
    )
    assert "但依精確模型，它的張量只要 64 GiB（本裝置 79.2 GiB）。" in said["zh_TW"]


def test_what_fails_with_one_mask_alone_is_told_with_it(planter: Planter) -> None:
    runs = {(name, mask): row for name, row in along_n().items() for mask in (False, True)}
    runs["Flash3", True] = ("unsupported",) * 4
    said = told(gaps(many(planter, runs).sections))
    assert (
        "Flash3 has no numbers at N = 128, 256, 512, 1024 with the mask: unsupported." in said["en"]
    )
    assert "Flash3 加遮罩時在 N = 128、256、512、1024 沒有數據：不支援。" in said["zh_TW"]
    runs["Flash3", False] = ("unsupported",) * 4
    said = told(gaps(many(planter, runs).sections))
    assert "at N = 128, 256, 512, 1024: unsupported." in said["en"]


def test_a_point_that_its_neighbours_leave_no_room_for_is_told_as_odd(planter: Planter) -> None:
    """Times that grow as the operations, but at 512, where Flash2 alone takes twice as long."""
    steady = {"Pytorch": (10, 40, 160, 640), "Flash3": (2, 8, 32, 128)}
    tables = many(planter, {**steady, "Flash2": (1, 4, 32, 64)})
    said = told(odd_points(doubted(tables).sections))
    assert said["en"].startswith("Odd: Flash2 at N = 512 is slower than the sizes on both sides")
    assert said["zh_TW"].startswith("異常點：Flash2 在 N = 512，比前後")
    assert odd_points(many(planter, {**steady, "Flash2": (1, 4, 16, 64)}).sections) is None


def test_a_lead_does_not_rest_on_an_odd_point(planter: Planter) -> None:
    """Flash2 is 10 times as fast, but at N = 512, where it takes twice as long."""
    runs = {"Pytorch": (10, 40, 160, 640), "Flash2": (1, 4, 32, 64)}
    plain = tables_of(planter.experiment(runs, spread=0.001))
    tables = doubted(plain)
    lead = told(time_lead(tables.sections[0]))
    assert lead["en"].startswith("Lead, without the odd N = 512: 10 times as fast in total, hardly")
    assert lead["zh_TW"].startswith("差距（異常的 N = 512 不計）：合計 10 倍速，幾乎不隨 N 改變")
    assert "smallest at 512" in told(time_lead(plain.sections[0]))["en"]
    note = told(footnote_doubts(tables))
    assert "Odd is Flash2 at N = 512; no lead rests on it." in note["en"]


def test_experiments_with_and_without_the_mask_are_told_once(planter: Planter) -> None:
    masked = {(name, True): row for name, row in along_n().items()}
    tables = many(planter, along_n(), masked)
    chapter = chapter_of(tables)
    assert [section.name for section in chapter.sections] == ["seq_len", "second"]
    assert "full attention, then causal" in told(group_sections.groups_varies(chapter))["en"]


def test_the_half_with_the_mask_is_told_after_the_one_without(planter: Planter) -> None:
    masked = {(name, True): row for name, row in along_n(Flash3=(8, 16, 32, 64)).items()}
    (half,) = chapter_of(many(planter, along_n(), masked)).halves
    growth = told(group_sections.groups_growth(half))
    assert growth["en"].startswith("Time with the mask: from N = 128 to 1024 all 5 take 8.0")
    assert growth["zh_TW"].startswith("加上遮罩的時間：")
    leaders = told(group_sections.leaders_section(half))
    assert leaders["en"].startswith("Leaders with the mask: forward Flash3 at every N (25% ahead")
    alone = chapter_of(many(planter, along_n()))
    assert alone.halves == []
    assert told(group_sections.groups_growth(alone))["en"].startswith("Time: from N = 128")


@pytest.mark.parametrize(
    ("flash3", "english"),
    [
        ((12, 24, 48, 96), "use Flash4; with the mask too."),
        ((8, 16, 32, 64), "use Flash4; with the mask from N = 4096 Flash3."),
    ],
)
def test_long_sequences_teach_whom_to_use_with_the_mask_too(
    planter: Planter, flash3: Any, english: str
) -> None:
    long = {"values": (1024, 4096, 8192, 16384), "sizes": lambda n: {"seq_len": n, "batch_size": 1}}
    masked = {(name, True): row for name, row in along_n(Flash3=flash3).items()}
    chapter = chapter_of(many(planter, along_n(), masked, **long))
    assert english in told(group_sections.groups_take(chapter))["en"]


@pytest.mark.parametrize(
    ("factor", "english"),
    [
        (1.2, "Flash2 is shown slower forward at N = 128 (0.83)"),
        (1.01, "8 are equal and 0 undecided; none is shown faster or slower."),
    ],
)
def test_packed_inputs_are_compared_with_their_twins(
    planter: Planter, factor: float, english: str
) -> None:
    runs = {"Flash2": FAST, "Flash2Packed": [factor * time for time in FAST]}
    chapter = chapter_of(many(planter, {**runs, "Flash3": FAST, "Flash4": FAST}))
    assert english in told(group_sections.packed(chapter))["en"]
