"""Page one of two implementations: what to use is what every setting bears out."""

from collections.abc import Callable
from typing import Any

import pytest
from planted.experiments import Planter
from story.reading import section_of, tables_of, told

from flashlab.story.attention import front
from flashlab.story.tables import Tables

NAIVE = (30, 60, 120, 240)

Planted = Callable[..., Tables]


@pytest.fixture
def planted(planter: Planter) -> Planted:
    """Tables of two sweeps, along N and along B, of Pytorch and Flash2."""

    def tables(flash2: Any, other: Any = None, **more: Any) -> Tables:
        noise = {"spread": 0.001, **more}
        along_n = planter.experiment({"Pytorch": NAIVE, "Flash2": flash2}, **noise)
        along_b = planter.experiment(
            {"Pytorch": NAIVE, "Flash2": other or flash2},
            "batch_size",
            "batch_size",
            values=(4, 8, 16, 32),
            sizes=lambda value: {"batch_size": value},
            **noise,
        )
        return tables_of(along_n, along_b)

    return tables


def test_what_is_faster_everywhere_is_to_be_used(planted: Planted) -> None:
    said = told(front.answer_use(planted((10, 20, 40, 80))))
    assert said["en"].startswith("Use Flash2. It is faster at all 8 settings: 3.0 times the speed")
    assert said["zh_TW"].startswith("用 Flash2。8 組設定全部較快")


def test_what_is_slower_everywhere_is_not(planted: Planted) -> None:
    said = told(front.answer_use(planted((60, 120, 240, 480))))
    assert said["en"].startswith("Use Pytorch. It is faster at all 8 settings: 2.0 times the speed")


def test_one_decided_loss_makes_it_a_matter_of_the_setting(planted: Planted) -> None:
    """Three times as fast at seven settings, but slower at one: nobody is simply to be used."""
    observation = front.answer_use(planted((10, 20, 40, 80), (10, 20, 40, 480)))
    assert observation is not None
    assert observation.facts["choice"] == "mixed"
    assert told(observation)["en"].startswith(
        "Choose by the setting: Flash2 is faster at 7 of 8 settings and slower at 1"
    )
    assert front.answer_cost(planted((10, 20, 40, 80), (10, 20, 40, 480))) is None


def test_times_that_are_alike_give_no_reason(planted: Planted) -> None:
    said = told(front.answer_use(planted(NAIVE)))
    assert "within 5% of each other at all 8 settings" in said["en"]
    assert "都相差不到 5%" in said["zh_TW"]


def test_each_pass_is_told_alone_only_where_the_total_is_undecided(planted: Planted) -> None:
    """Noise leaves open whether 5% is gained; at the last size it is three times as fast."""
    assert front.answer_by_pass(planted((10, 20, 40, 80))) is None
    open_ = planted((28.6, 57, 114, 80), spread=0.03, count=12)
    said = told(front.answer_by_pass(open_))
    assert said["en"].startswith("By pass: forward shown faster at ")
    assert "together it runs at " in said["en"] and "合起來是" in said["zh_TW"]
    assert "(forward" not in told(front.answer_use(open_))["en"]


def test_passes_on_opposite_sides_are_the_answer(planted: Planted) -> None:
    opposite = tuple((n / 2, 1.5 * n) for n in NAIVE)
    tables = planted(opposite)
    said = told(front.answer_passes(tables))
    assert said["en"].startswith(
        "Flash2 is faster forward and slower backward: forward it is shown"
    )
    assert said["zh_TW"].startswith("Flash2 前向較快、反向較慢")
    assert told(front.answer_use(tables))["en"].startswith("So use it for inference.")


def test_passes_on_the_same_side_are_not(planted: Planted) -> None:
    assert front.answer_passes(planted(tuple((n / 2, n / 1.02) for n in NAIVE))) is None


def test_the_sweep_that_moves_the_lead_most_is_named(planted: Planted) -> None:
    """Along N from 1.5 to 3, along B no change: N alone is named."""
    observation = front.answer_where(planted((20, 32, 50, 80), (10, 20, 40, 80)))
    assert observation is not None
    assert [each["p"] for each in observation.facts["most"]] == ["N"]
    said = told(observation)["en"]
    assert said.startswith("The sequence length matters most: N from 128 to 1024 takes")


def test_where_no_lead_moves_nothing_is_named(planted: Planted) -> None:
    assert front.answer_where(planted((10, 20, 40, 80))) is None


def test_a_cost_is_a_pass_that_is_shown_slower(planted: Planted) -> None:
    """In total faster everywhere, though its backward is slower: that is the cost."""
    tables = planted(tuple((n / 10, 1.2 * n) for n in NAIVE))
    said = told(front.answer_cost(tables))
    assert (
        "backward it is slower at 8 of 8 settings (0.83 times the speed of Pytorch)" in said["en"]
    )
    assert told(front.answer_cost(planted((10, 20, 40, 80))))["en"].startswith("No cost shows here")


def test_a_sweep_has_a_line(planted: Planted) -> None:
    section = planted((10, 20, 40, 80)).sections[1]
    said = told(front.line_sweep(section))
    assert said["en"].startswith("B ×8, operations ×8: Pytorch takes 8.0× the time")
    assert said["en"].endswith("the speed-up stays 3.0.")


def test_a_growth_that_is_known_coarsely_is_told_so(planter: Planter) -> None:
    """Processes that differ by tens of percent: two digits, and about."""
    apart = {
        n: [[0.8 * t, t, 1.25 * t] for t in (10.7, 100, 1000, 11500)] for n in ("Pytorch", "Flash2")
    }
    section = section_of(planter.experiment(apart))
    said = told(front.line_sweep(section))
    assert "Pytorch takes about 1,100× the time" in said["en"]
    assert "Pytorch 時間約 ×1,100、" in said["zh_TW"]


def test_a_sweep_whose_passes_differ_has_each_of_them_in_its_line(planted: Planted) -> None:
    """The forward gains at every size, and the backward loses at every one."""
    section = planted(((10, 60), (20, 120), (40, 240), (80, 480))).sections[1]
    said = told(front.line_sweep(section))
    assert "forward faster at every B, backward slower at every B" in said["en"]
    assert "前向每個 B 較快，反向每個 B 較慢" in said["zh_TW"]
