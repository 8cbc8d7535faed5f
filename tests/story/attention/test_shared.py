"""The section on heads that share keys and values: rules that hold, and that just do not."""

from __future__ import annotations

from typing import Any

import pytest
from planted.experiments import Planter
from story.attention.planting import declared, many
from story.reading import tables_of, told

from flashlab.story.attention import group_front, shared, story
from flashlab.story.attention.groups import groups_of
from flashlab.story.tables import Section, Tables

HEADS = (1, 2, 4)
"""Of keys and values; there are four of queries."""


def runs_of(peak: tuple[float, ...], *times: Any) -> list[dict[str, Any]]:
    """A run for each number of heads: its peak memory in MiB, and its times by pass."""
    return [
        {"peak": size, "forward": forward, "backward": backward}
        for size, (forward, backward) in zip(peak, times, strict=True)
    ]


NAIVE = runs_of((97, 98, 100), *[(300, 900)] * 3)
ALIKE = runs_of((70, 80, 100), *[(20, 60)] * 3)
FASTER_FORWARD = runs_of((60, 80, 100), (10, 60), (15, 60), (20, 60))
SLOWER_BACKWARD = runs_of((103, 102, 100), (20, 66), (20, 60), (20, 60))


def tables(planter: Planter, **runs: Any) -> Tables:
    planted = planter.experiment(
        {"Pytorch": NAIVE, **runs},
        "gqa",
        "num_kv_heads",
        values=HEADS,
        sizes=lambda value: {"num_kv_heads": value},
        spread=0.001,
    )
    return tables_of(declared(planted))


def section(planter: Planter, **runs: Any) -> Section:
    return tables(planter, **runs).sections[0]


def test_the_bytes_to_move_are_told(planter: Planter) -> None:
    """B 2, N 64, E 64 in float32: 32 KiB each of q and the output, k and v from 32 to 8."""
    found = shared.shared_bytes(section(planter, Flash2=ALIKE))
    assert found.facts["moves"] == {
        "forward": [4 * 32 / 1024, (2 * 32 + 2 * 8) / 1024],
        "backward": [7 * 32 / 1024, (3 * 32 + 4 * 8) / 1024],
    }
    said = told(found)
    assert said["en"] == (
        "By definition (H_kv 4 → 1): the least that a pass moves falls from 0.125 to 0.0781 MiB "
        "forward, from 0.219 to 0.125 backward."
    )
    assert said["zh_TW"].startswith("依定義（H_kv 4 → 1）：至少要搬的資料，前向由 0.125 減為")


def test_those_that_repeat_the_keys_are_told_apart(planter: Planter) -> None:
    said = told(shared.shared_memory(section(planter, Flash2=ALIKE, Flash3=FASTER_FORWARD)))
    assert (
        "60% (Flash3, 100 → 60 MiB) to 70% (Flash2, 100 → 70 MiB) of it is needed. "
        "Pytorch first repeats k and v for every head of q"
    ) in said["en"]
    assert said["en"].endswith("stays as large (100 → 97 MiB).")
    assert "Pytorch 先把 k 與 v 複製給每個 q 的頭" in said["zh_TW"]


def test_memory_that_grows_is_told_as_more(planter: Planter) -> None:
    said = told(shared.shared_memory(section(planter, Flash2=SLOWER_BACKWARD)))
    assert "103% (Flash2, 100 → 103 MiB) of it is needed." in said["en"]


def test_without_one_that_repeats_nothing_is_said_of_it(planter: Planter) -> None:
    failed = ("oom",) * 3
    said = told(shared.shared_memory(section(planter, Pytorch=failed, Flash2=ALIKE)))
    assert "repeat" not in said["en"] and "複製" not in said["zh_TW"]
    nobody = section(planter, Pytorch=failed, Flash2=failed)
    assert shared.shared_memory(nobody) is None and shared.shared_time(nobody) is None


def test_whom_sharing_makes_faster_is_told_by_pass(planter: Planter) -> None:
    planted = section(planter, Flash2=SLOWER_BACKWARD, Flash3=FASTER_FORWARD)
    said = told(shared.shared_time(planted))
    forward, backward = said["en"].split(" Backward ")
    assert forward.startswith("Time (H_kv 4 → 1): forward faster with ")
    assert "Flash3 (2.0 times the speed); within 5% with " in forward
    assert backward.startswith("slower with Flash2 (0.91 times the speed); within 5% with ")
    assert "前向較快的是 Flash3（2.0 倍速）；相差不到 5% 的是 " in said["zh_TW"]
    assert "反向較慢的是 Flash2（0.91 倍速）" in said["zh_TW"]


def test_many_without_a_decided_change_are_counted(planter: Planter) -> None:
    said = told(shared.shared_time(section(planter, Flash2=ALIKE, Flash3=ALIKE)))
    assert "forward within 5% with 3 implementations (1.00 times the speed)." in said["en"]
    assert "前向相差不到 5% 的是 3 種（1.00 倍速）。" in said["zh_TW"]


def test_the_lesson_is_the_memory_of_those_that_read_the_keys(planter: Planter) -> None:
    planted = section(planter, Flash2=SLOWER_BACKWARD, Flash3=FASTER_FORWARD)
    assert told(shared.shared_take(planted))["en"] == (
        "Take: what sharing surely saves is memory (60–103% of the peak is left at H_kv = 1); in "
        "time, forward 1 of 3 is shown faster, backward none of 3 is shown faster, 1 slower."
    )
    assert shared.shared_take(section(planter)) is None


@pytest.mark.parametrize(("time", "verdict"), [(19.2, "equal"), (18.0, "faster")])
def test_a_pass_is_faster_only_beyond_the_margin(
    planter: Planter, time: float, verdict: str
) -> None:
    runs = runs_of((60, 80, 100), (time, 60), (20, 60), (20, 60))
    found = shared.shared_time(section(planter, Flash2=runs))
    assert found is not None
    named = {n: [e["name"] for e in of["of"]] for n, of in found.facts["passes"]["forward"].items()}
    assert "Flash2" in named[verdict]


def test_what_is_not_decided_is_said_to_be_open(planter: Planter) -> None:
    runs = runs_of((60, 80, 100), (18.5, 60), (20, 60), (20, 60))
    noisy = planter.experiment(
        {"Pytorch": NAIVE, "Flash2": runs},
        "gqa",
        "num_kv_heads",
        values=HEADS,
        sizes=lambda value: {"num_kv_heads": value},
        spread=0.2,
    )
    said = told(shared.shared_time(tables_of(declared(noisy)).sections[0]))
    assert "undecided with " in said["en"] and "無法判定的是" in said["zh_TW"]


def test_a_line_of_page_one_counts_who_is_faster(planter: Planter) -> None:
    planted = section(planter, Flash2=SLOWER_BACKWARD, Flash3=FASTER_FORWARD)
    said = told(shared.line_shared(planted))
    assert said["en"] == (
        "H_kv 4 → 1, equal operations: memory ×0.60–1.03; forward 1 of 3 is shown faster, "
        "backward none of 3 is shown faster, 1 slower."
    )
    assert said["zh_TW"].endswith("前向 3 種中有 1 種判定較快，反向沒有一種判定較快、1 種較慢。")


@pytest.mark.parametrize("names", [["Flash2"], ["Flash2", "Flash3", "Flash4"]])
def test_a_section_on_sharing_has_its_own_list_however_many_it_compares(
    planter: Planter, names: list[str]
) -> None:
    planted = tables(planter, **dict.fromkeys(names, FASTER_FORWARD))
    found = list(story(planted))
    expected = ["varies", "shared_bytes", "shared_memory", "shared_time", "shared_take"]
    assert [each.name for each in found if each.section] == expected
    assert "line_shared" in [each.name for each in found]
    for observation in found:
        assert all(text and "None" not in text for text in told(observation).values())


def test_a_sweep_of_heads_that_shares_none_is_told_as_before(planter: Planter) -> None:
    """Keys and values have as many heads as queries, so their number says nothing."""
    planted = planter.experiment(
        {"Pytorch": (100, 200), "Flash2": (10, 20)},
        "num_heads",
        "num_heads",
        values=(2, 4),
        sizes=lambda value: {"num_heads": value},
        spread=0.001,
    )
    found = tables_of(declared(planted))
    assert not shared.is_shared(found.sections[0])
    assert all("H_kv" not in told(observation)["en"] for observation in story(found))


def test_what_to_use_by_d_and_n_is_chosen_where_nothing_is_shared(planter: Planter) -> None:
    """Flash3 leads where keys are shared, Flash2 where they are not; both at d 16, N 64."""
    fast, slow = ([(10, 10)] * 3, [(20, 20)] * 3)
    led = tables(
        planter,
        Flash2=runs_of((60, 80, 100), slow[0], slow[1], fast[2]),
        Flash3=runs_of((60, 80, 100), fast[0], fast[1], slow[2]),
        Flash4=runs_of((60, 80, 100), *[(40, 40)] * 3),
    )
    groups = groups_of(led)
    assert groups is not None
    assert set(led.usual.num_kv_heads.dropna()) == {4}
    found = group_front.map_(led, groups)
    assert found is not None
    assert found.facts["charts"][0]["rows"][0]["cells"][0]["names"] == ["Flash2"]


def test_planted_sweeps_along_n_are_not_about_sharing(planter: Planter) -> None:
    found = many(planter, {"Pytorch": (300, 600), "Flash2": (20, 40)})
    assert not any(each.name.startswith("shared") for each in story(found))


def told_of_own(tables: Tables) -> dict[str, str]:
    groups = groups_of(tables)
    assert groups is not None
    found = group_front.answer_own(tables, groups)
    assert found is not None
    return told(found)


def test_where_shared_keys_make_the_own_kernel_slower_than_others_is_told(planter: Planter) -> None:
    level = runs_of((70, 80, 100), *[(18, 54)] * 3)
    slower = runs_of((70, 80, 100), (18, 81), (18, 54), (18, 54))
    plain, sharing = (
        tables(planter, Flash2=ALIKE, Flash3=ALIKE, FlashLab=own) for own in (level, slower)
    )
    said = told_of_own(sharing)
    assert (
        "Where query heads share keys and values it is slower than the best of the others in "
        "training at 1 of 2 settings (0.81 times the speed). Nowhere else does it lose by more "
        "than 5%."
    ) in said["en"]
    assert "訓練時 2 組中有 1 組（0.81 倍速）。其餘各組沒有輸過 5% 以上。" in said["zh_TW"]
    assert "share" not in told_of_own(plain)["en"]
