"""The fastest of the fused implementations, and the gain of the project's own kernel."""

from typing import Any

import pandas as pd
import pytest
from planted.experiments import Planter
from story.attention.planting import FAST, along_n, chapter_of, many
from story.reading import told

from flashlab.story.attention import group_front, group_sections, surprises
from flashlab.story.attention.groups import groups_of, stretches, where
from flashlab.story.tables import Tables


def observed(observe: Any, tables: Tables) -> Any:
    return observe(tables, groups_of(tables))


def settings(*places: tuple[int, int]) -> pd.DataFrame:
    return pd.DataFrame(places, columns=["head_dim", "seq_len"])


@pytest.mark.parametrize(
    ("chosen", "d", "n"),
    [
        ([(16, 512)], ("at", 16), ("all", 512)),
        ([(64, 128), (64, 512)], ("at", 64), ("up to", 512)),
        ([(64, 4096)], ("all", 64), ("at", 4096)),  # no other d has it
        ([(64, 512), (128, 512)], ("from", 128), ("at", 512)),
        ([(64, 128), (128, 512)], None, None),  # no stretch
    ],
)
def test_a_stretch_says_no_more_than_it_must(chosen: Any, d: Any, n: Any) -> None:
    every = settings((16, 512), (64, 128), (64, 512), (64, 4096), (128, 512))
    mine = every[[tuple(row) in chosen for row in every.itertuples(index=False)]]
    found = where(mine, every)
    if d is None:
        assert found is None
        return
    assert found is not None
    assert (found["d"]["how"], found["d"]["high"]) == d
    assert (found["N"]["how"], found["N"]["high"]) == n


def test_every_stretch_holds_what_it_says() -> None:
    every = settings((16, 512), (64, 128), (64, 512), (128, 512))
    for words, inside in stretches(every):
        low, high = words["d"]["low"], words["d"]["high"]
        assert inside.head_dim.min() == low and inside.head_dim.max() == high
        assert len(inside) > 0


# The answer


def test_one_that_leads_everywhere_is_told_at_every_setting(planter: Planter) -> None:
    said = told(observed(group_front.answer_leaders, many(planter, along_n())))
    assert "for inference (forward): Flash4 at every setting (20% ahead of the next)" in said["en"]
    assert "推論（前向）：每一組設定 用 Flash4" in said["zh_TW"]


def test_two_stretches_are_told_by_n(planter: Planter) -> None:
    tables = many(planter, along_n(Flash3=(8, 16, 48, 96)))
    said = told(observed(group_front.answer_leaders, tables))
    assert "Flash3 at N ≤ 256 (25% ahead of the next)" in said["en"]
    assert "Flash4 at N ≥ 512 (20% ahead of the next)" in said["en"]


def test_what_is_undecided_is_not_told_apart(planter: Planter) -> None:
    close = many(planter, along_n(Flash3=[1.03 * t for t in FAST]), spread=0.3, count=12)
    observation = observed(group_front.answer_leaders, close)
    clause = observation.facts["uses"]["training"]["clauses"][0]
    assert clause.get("alone", 0) == 0
    assert "not told apart" in told(observation)["en"]


def test_a_tie_names_both(planter: Planter) -> None:
    tables = many(planter, along_n(Flash3=[1.01 * t for t in FAST]))
    said = told(observed(group_front.answer_leaders, tables))
    assert "Flash4 at every setting (not shown faster than Flash3)" in said["en"]


def test_what_departs_decidedly_is_told_beside_two_stretches(planter: Planter) -> None:
    """The leader changes at each length: the largest lead of the others is told, and the rest."""
    tables = many(planter, along_n(Flash2=(9, 30, 36, 120), Flash3=(20, 17, 60, 72)))
    said = told(observed(group_front.answer_leaders, tables))
    assert (
        "For training (forward plus backward): Flash3 at N = 256 (18% ahead of the next); "
        "Flash2 at N = 512 (11% ahead of the next); Flash3 at N = 1024 (11% ahead of the next); "
        "1 other setting is left out here."
    ) in said["en"]
    assert "；其餘 1 組從略。" in said["zh_TW"]
    alike = told(
        observed(group_front.answer_leaders, many(planter, along_n(Flash3=(8, 16, 48, 96))))
    )
    assert "other setting" not in alike["en"] and "其餘" not in alike["zh_TW"]


# The project's own kernel


OWN = tuple(time / 1.2 for time in FAST)


def test_the_own_kernel_is_told_apart_from_the_others(planter: Planter) -> None:
    tables = many(planter, along_n(FlashLab=OWN))
    leaders = told(observed(group_front.answer_leaders, tables))
    assert leaders["en"].startswith("Which of the fused (FlashLab apart)")
    assert "FlashLab at" not in leaders["en"]
    said = told(observed(group_front.answer_own, tables))
    assert "for training it is faster than all others at all 4 settings" in said["en"]
    assert "Nowhere does it lose by more than 5%." in said["en"]
    assert "measurements on NVIDIA H200 and NVIDIA H100 80GB HBM3, not on this device" in said["en"]
    assert "不是在這個裝置上" in said["zh_TW"]


def test_what_was_tuned_here_is_said_to_be(planter: Planter) -> None:
    on_h200 = {"environment": {"device_name": "NVIDIA H200", "packages": {}}}
    runs = {
        name: [{"forward": time, **on_h200} for time in row]
        for name, row in along_n(FlashLab=OWN).items()
    }
    said = told(observed(group_front.answer_own, many(planter, runs)))
    assert "its tile sizes were chosen by measurements on this very device" in said["en"]


@pytest.mark.parametrize(
    ("last", "english"),
    [
        (88.0, "It loses forward to Flash4 at N = 1024 (0.91 times the speed)"),
        (82.0, "Nowhere does it lose by more than 5%."),
    ],
)
def test_a_loss_of_the_own_kernel_is_told_with_where(
    planter: Planter, last: float, english: str
) -> None:
    tables = many(planter, along_n(FlashLab=(*OWN[:3], last)))
    assert english in told(observed(group_front.answer_own, tables))["en"]


def test_without_an_own_kernel_nothing_is_said_of_it(planter: Planter) -> None:
    assert observed(group_front.answer_own, many(planter, along_n())) is None


# A section


def test_a_section_says_who_leads_each_pass_by_how_much(planter: Planter) -> None:
    runs = along_n(
        Flash3=[(time, 1.3 * time) for time in FAST], Flash4=[(1.3 * t, t) for t in FAST]
    )
    said = told(group_sections.leaders_section(chapter_of(many(planter, runs))))
    assert "forward Flash3 at every N (30% ahead of the next)" in said["en"]
    assert "backward Flash4 at every N (30% ahead of the next)" in said["en"]
    assert "前向在每個 N 都是 Flash3（領先下一名 30%）" in said["zh_TW"]


def test_leaders_that_change_are_told_by_their_values(planter: Planter) -> None:
    runs = along_n(Flash3=(8, 16, 40, 96), FlashLab=(8, 14, 36, 100))
    said = told(group_sections.leaders_section(chapter_of(many(planter, runs))))
    assert (
        "forward Flash3 at N = 128, 256 (25% ahead of the next); "
        "Flash3 and Flash4 at N = 512 (within 5% of the fastest); "
        "Flash4 at N = 1024 (20% ahead of the next)"
    ) in said["en"]
    assert (
        "FlashLab against the best of them: forward 0.80–1.14 times, faster at N = 256, 512, "
        "slower at N = 1024"
    ) in said["en"]


def test_a_fourth_leader_along_a_sweep_is_told_as_the_others(planter: Planter) -> None:
    runs = along_n(Flash2=(8, 40, 36, 160), Flash3=(12, 16, 48, 64))
    said = told(group_sections.leaders_section(chapter_of(many(planter, runs))))
    assert "; Flash3 at N = 1024 (25% ahead of the next); backward" in said["en"]
    assert "N = 1024 是 Flash3（領先下一名 25%）；反向" in said["zh_TW"]


# Surprises: at most one, in their order


def test_a_pass_that_loses_to_the_naive_one_comes_first(planter: Planter) -> None:
    slow = [(10, 900), (20, 40), (40, 80), (80, 160)]
    observation = surprises.surprise(chapter_of(many(planter, along_n(Flash3=slow))))
    said = told(observation)
    assert "at N = 128 the backward of Flash3 loses to that of Pytorch (9.0" in said["en"]
    assert "at N = 256 it recovers" in said["en"]
    assert "N = 256 就恢復" in said["zh_TW"]


@pytest.mark.parametrize(
    ("flash3", "name"),
    [
        # 2.2 times the rate where the others keep theirs, and past Flash2 by it.
        ((30, 60, 54.5, 109), "surprise_jump"),
        # As much, but ahead of the others before as well, or behind them still.
        ((9, 18, 16.2, 32.4), None),
        ((300, 299, 270, 540), None),
    ],
)
def test_a_jump_of_the_rate_is_told_where_it_overtakes(
    planter: Planter, flash3: Any, name: str | None
) -> None:
    runs = along_n(Flash3=flash3, Flash4=FAST)
    observation = surprises.surprise_jump(chapter_of(many(planter, runs)))
    assert (observation and observation.name) == name
    if observation is not None:
        said = told(observation)
        assert "up to N = 256 Flash3 loses to Flash2 forward (at 256" in said["en"]
        assert "only at 512, where its rate jumps" in said["en"]


@pytest.mark.parametrize(("last", "is_told"), [(1.2, True), (1.08, False)])
def test_a_first_that_is_far_behind_at_the_end_is_a_surprise(
    planter: Planter, last: float, is_told: bool
) -> None:
    runs = along_n(Flash3=(8, 18, 41, 80 * last))
    observation = surprises.surprise_order(chapter_of(many(planter, runs)))
    assert (observation is not None) is is_told
    if is_told:
        said = told(observation)
        assert "Flash3, the fastest forward at N = 128, takes 20% longer than Flash4" in said["en"]
        assert "短序列的贏家不是長序列的贏家" in said["zh_TW"]
