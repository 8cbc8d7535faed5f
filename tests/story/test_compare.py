"""The story of a comparison of planted tables, at the edge of each rule, in both languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS
from flashlab.analysis.ratios import verdict_of
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.story.compare import story
from flashlab.story.compare.table import Compared, with_pooled
from flashlab.story.telling import macros, tell

TIMES = ("forward_time", "backward_time", "forward_backward_time")
CARDS = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
AGREEING = [
    {"field": name, "implementation": None, "one": ["1"], "other": ["1"], "verdict": "agrees"}
    for name in ("power_limit", "driver", "torch", "measuring", "python")
]

Row = dict[str, Any]


def at(seq_len: int, emb_dim: int = 2048, causal: bool = False) -> Row:
    """A setting: its parameters and its shape in short."""
    words = "causal" if causal else "full"
    sizes = {"batch_size": 16, "seq_len": seq_len, "num_heads": 32, "emb_dim": emb_dim}
    shape = f"B16 N{seq_len} H32 E{emb_dim} {words}"
    given = ATTENTION.all_parameters({**sizes, "causal": causal})
    return {**given, "shape": shape, "dtype": "float16", "device": "cuda"}


def compared_row(ratio: float, width: float) -> Row:
    """A ratio whose interval reaches by a share below and above it."""
    low, high = ratio / (1 + width), ratio * (1 + width)
    return {"ratio": ratio, "low": low, "high": high, "verdict": verdict_of(low, high)}


def row(name: str, metric: str, setting: Row, x: float, width: float = 0.01) -> Row:
    """An implementation on both sides, the second one `x` times as fast."""
    about = {"implementation": name, "metric": metric, "compared": DATASET, "processes": "3 3"}
    return {**setting, **about, **compared_row(1 / x, width)}


def runs(name: str, speeds: Mapping[int, float], memory: float = 100.0, **more: Any) -> list[Row]:
    """An implementation at several sequences, alike in all passes; its memory is the same."""
    found = [
        row(name, metric, at(seq_len), x, **more)
        for seq_len, x in speeds.items()
        for metric in TIMES
    ]
    exact = [row(name, "peak_memory", at(seq_len), 1.0, 0.0) for seq_len in speeds]
    return found + [{**each, "reference_median": memory} for each in exact]


def wins(side: str, winner: str, loser: str, x: float, setting: Row) -> Row:
    """One implementation against another on one side, by the forward time."""
    named = {"experiment": side, "subject": winner, "reference": loser}
    about = {"compared": IMPLEMENTATIONS, "metric": "forward_time", **named}
    return {**setting, **about, **compared_row(1 / x, 0.01)}


def compared(
    rows: Sequence[Row],
    devices: tuple[str, str] = CARDS,
    within: Sequence[Row] = (),
    **about: Any,
) -> Compared:
    """Two sides, old and new, on these devices."""
    whole = {"begun": "2026-01-02", "ended": "2026-01-02", "commits": []}
    sides = [
        {"name": name, "devices": [device], **whole}
        for name, device in zip(("old", "new"), devices, strict=True)
    ]
    usual = {"environments": AGREEING, "ceilings": [], "ended": [], "only": [[], []]}
    table = pd.concat([with_pooled(pd.DataFrame(rows), ATTENTION), pd.DataFrame([*within])])
    for column in ("experiment", "subject", "reference", "reference_median"):
        table[column] = table.get(column)
    return Compared(ATTENTION, table, {"sides": sides, **usual, **about})


def told(two: Compared) -> dict[str, tuple[str, str]]:
    """The sentences by the observation's name, in English and in Chinese."""
    return {
        each.name: (tell(each, "compare", "en"), tell(each, "compare", "zh_TW"))
        for each in story(two)
    }


NAIVE = runs("Pytorch", {128: 1.2, 1024: 1.3}, memory=1000)
FUSED = runs("Flash2", {128: 1.12, 1024: 1.0, 4096: 1.0})


def test_both_languages_have_the_same_macros() -> None:
    english, chinese = (
        {name for name in dir(macros("compare", language)) if not name.startswith("_")}
        for language in ("en", "zh_TW")
    )
    assert english == chinese


def test_another_card_is_told_by_groups() -> None:
    english, chinese = told(compared([*NAIVE, *FUSED]))["answer_gain"]
    assert english == (
        "What new gains falls mostly to the naive implementation: Pytorch runs at 1.20–1.30 times "
        "the speed in total (backward 1.20–1.30), the fused at 1.04 on average: 1.12 at N ≤ 128, "
        "with no decided difference at N ≥ 4096 (1.00). None of the 10 comparisons shows it slower."
    )
    assert chinese == (
        "new 的好處主要落在直接實作：Pytorch 合計為 1.20–1.30 倍速（反向 1.20–1.30 倍），"
        "融合實作平均 1.04 倍，其中 N ≤ 128 平均 1.12 倍、N ≥ 4096 沒有一項判定有差別"
        "（平均 1.00 倍）。10 項比較沒有一項判定較慢。"
    )


@pytest.mark.parametrize(
    ("naive", "fused", "begins"),
    [
        (1.3, 1.1, "What new gains falls mostly to the naive implementation: Pytorch runs"),
        (1.1, 1.3, "What new gains falls mostly to the fused implementations: the naive Pytorch"),
        (1.11, 1.1, "On new the naive Pytorch runs at 1.11 times the speed"),  # intervals overlap
        (0.8, 0.94, "What new loses falls mostly to the naive implementation: Pytorch runs"),
    ],
)
def test_a_gain_falls_to_a_group_only_where_its_interval_lies_beyond(
    naive: float, fused: float, begins: str
) -> None:
    rows = [*runs("Pytorch", {1024: naive}, memory=1000), *runs("Flash2", {1024: fused})]
    assert told(compared(rows))["answer_gain"][0].startswith(begins)


def test_an_implementation_is_fused_only_by_its_memory_at_the_longest_sequence() -> None:
    rows = [*runs("Pytorch", {1024: 1.2}, memory=100)]
    rows += [*runs("Stores", {1024: 1.2}, memory=50), *runs("Fused", {1024: 1.2}, memory=49)]
    table = with_pooled(pd.DataFrame(rows), ATTENTION).dropna(subset="shape")
    groups = dict(zip(table.implementation, table.group, strict=True))
    assert groups == {"Pytorch": "naive", "Stores": "naive", "Fused": "fused"}
    alone = with_pooled(pd.DataFrame(runs("Fused", {1024: 1.2})), ATTENTION)
    assert {*alone.group.dropna()} == {""}


def test_a_pooled_interval_is_that_of_settings_that_err_together() -> None:
    rows = [row("Flash2", "forward_time", at(n), x, 0.1) for n, x in ((512, 1.0), (1024, 1.44))]
    table = with_pooled(pd.DataFrame(rows), ATTENTION)
    (pooled,) = table[table["shape"].isna() & table.sizes.isna()].to_dict("records")
    assert (pooled["settings"], pooled["verdict"]) == (2, "below")
    ends = [1 / pooled[part] for part in ("high", "ratio", "low")]
    assert ends == pytest.approx([1.2 / 1.1, 1.2, 1.2 * 1.1])
    open_ended = with_pooled(pd.DataFrame([*rows[:1], {**rows[1], "low": None}]), ATTENTION)
    assert open_ended[open_ended["shape"].isna()].verdict.iloc[-1] == "inconclusive"


SAME = (CARDS[0], CARDS[0])


def test_a_change_of_code_is_told_by_implementation_pass_and_place() -> None:
    rows = [
        row("Flash2", "forward_time", at(n, causal=causal), 0.8 if causal and n > 512 else 1.0)
        for n in (512, 1024, 4096)
        for causal in (False, True)
    ]
    english, chinese = told(compared(rows, SAME))["answer_gain"]
    assert english == (
        "new is slower in 2 of 6 comparisons: Flash2 forward (0.80 times the speed, at 2 of 6 "
        "settings, N = 1024–4096, causal). None is shown faster."
    )
    assert chinese == (
        "6 項比較中，new 有 2 項較慢：Flash2 的前向（0.80 倍速，6 組設定中的 2 組，"
        "N = 1024–4096，因果）。沒有一項判定較快。"
    )


@pytest.mark.parametrize(
    ("x", "width", "says", "sagt"),
    [
        (1.0, 0.01, "old and new are equally fast: all 1", "一樣快：1 項比較都相差不到 5%"),
        (1.0, 0.2, "No difference is decided between", "0 項相差不到 5%、1 項無法判定"),
        (1.07, 0.01, "new is faster in 1 of 1 comparisons", "new 有 1 項較快"),
        (1.07, 0.03, "No difference is decided between", "沒有判定任何差別"),
    ],
)
def test_only_what_is_decided_is_stated(x: float, width: float, says: str, sagt: str) -> None:
    rows = [row("Flash2", "forward_time", at(512), x, width)]
    english, chinese = told(compared(rows, SAME))["answer_gain"]
    assert says in english and sagt in chinese


def ceilings(copy: float, product: float) -> list[dict[str, Any]]:
    rates = {"copy": copy, "float16": product}
    sustained: list[float | None] = [None, None]
    return [
        {"what": what, "one": 100.0, "other": 100 * rate, "sustained": sustained}
        for what, rate in rates.items()
    ]


@pytest.mark.parametrize(
    ("copy", "product", "near"),
    [
        (1.4, 1.05, "close to the ratio of the bandwidths"),
        (1.05, 1.35, "close to the ratio of the matrix products"),
        (1.4, 1.25, None),  # near both
        (1.6, 1.05, None),  # near neither: 1.6 / 1.3 is more than two margins
    ],
)
def test_the_largest_gain_is_explained_by_one_ceiling_alone(
    copy: float, product: float, near: str | None
) -> None:
    english, chinese = told(compared([*NAIVE, *FUSED], ceilings=ceilings(copy, product)))[
        "answer_why"
    ]
    assert "Pytorch's forward gains most, up to 1.30 times" in english
    assert (near or "close to") in english if near else "close to" not in english
    assert ("接近" in chinese) == (near is not None)


def test_the_rate_under_sustained_load_is_told_of_the_card_that_slows_down() -> None:
    rates = ceilings(1.4, 1.05)
    rates[1]["sustained"] = [None, 90.0]
    english, chinese = told(compared([*NAIVE, *FUSED], ceilings=rates))["answer_why"]
    assert "; under sustained load new drops to 90." in english
    assert "；持續負載時 new 降到 90。" in chinese


def test_two_revisions_have_their_commits_in_place_of_ceilings() -> None:
    two = compared(FUSED, SAME, ceilings=ceilings(1.4, 1.05))
    assert "answer_why" not in told(two)  # no commits are known
    for side, commit in zip(two.about["sides"], ("abc", "def"), strict=True):
        side["commits"] = [commit]
    changed = {"field": "kernel", "implementation": "Flash2", "verdict": "differs"}
    two.about["environments"].append({**changed, "one": ["1"], "other": ["2"]})
    try:
        english, chinese = told(two)["answer_why"]
    finally:
        two.about["environments"].pop()
    assert english == "The code: abc → def; changed is the kernel of Flash2."
    assert chinese == "程式碼：abc → def；Flash2 的 kernel 有改動。"


def ended(seq_len: int, one: str, other: str, name: str = "Pytorch") -> Row:
    return {"implementation": name, **at(seq_len), "one": one, "other": other}


def test_what_fits_on_one_card_only_and_what_it_buys() -> None:
    fits = [ended(16384, "oom", "ok"), ended(16384, "oom", "ok")]
    english, chinese = told(compared([*NAIVE, *FUSED], ended=fits))["answer_use"]
    assert english == (
        "So: with a fused implementation at N ≥ 4096, new buys memory (141 against 80 GB), but "
        "no speed that is shown; Pytorch at N = 16384 (2 settings) runs out of memory on old, but "
        "not on new."
    )
    assert chinese == (
        "所以：融合實作在 N ≥ 4096，換 new 買到的是記憶體（141 對 80 GB），速度沒有判定較快；"
        "Pytorch 的 N = 16384（2 組設定）只在 old 上記憶體不足。"
    )
    faster = [*NAIVE, *runs("Flash2", {128: 1.12, 1024: 1.1, 4096: 1.1})]
    english, _ = told(compared(faster))["answer_use"]
    assert english == "Besides the speed, new has 141 GB of memory against 80."
    assert "answer_use" not in told(compared(FUSED, SAME, ended=fits))


def test_a_run_that_fails_on_one_side_alone_is_told_first_if_it_is_the_second() -> None:
    found = [ended(512, "incorrect", "ok", "New"), ended(1024, "ok", "error", "Lost")]
    english, chinese = told(compared(FUSED, SAME, ended=found))["answer_ended"]
    assert english == (
        "Lost has no longer a result with new at B16 N1024 H32 E2048 full (new: failed); New has a "
        "result only with new at B16 N512 H32 E2048 full (old: wrong results)."
    )
    assert chinese == (
        "Lost 在 B16 N1024 H32 E2048 full 改用 new 就沒有結果（new：執行失敗）；"
        "New 在 B16 N512 H32 E2048 full 只有 new 有結果（old：結果錯誤）。"
    )
    both = [ended(512, "incorrect", "incorrect")]
    assert "answer_ended" not in told(compared(FUSED, SAME, ended=both))


THREE = [*NAIVE, *FUSED, *runs("Flash4", {128: 1.3, 1024: 1.3, 4096: 1.0})]


@pytest.mark.parametrize(
    ("on_new", "says", "sagt"),
    [
        (0.8, "The choice changes. By forward time, Flash2 is shown to beat", "選擇會變。"),
        (1.2, "the fastest is decided on both at one setting, and it is the same", "選擇不變。"),
        (1.04, None, None),  # undecided on the new side
    ],
)
def test_another_choice_is_told_where_both_sides_decide_on_one(
    on_new: float, says: str | None, sagt: str | None
) -> None:
    """Both beat Pytorch; Flash2 beats Flash4 on the old side."""
    setting = at(1024)
    within = [
        *(
            wins(side, name, "Pytorch", 2.0, setting)
            for side in ("old", "new")
            for name in ("Flash2", "Flash4")
        ),
        wins("old", "Flash2", "Flash4", 1.2, setting),
        wins("new", "Flash2", "Flash4", on_new, setting),
    ]
    found = told(compared(THREE, within=within)).get("answer_ranking")
    if says is None or sagt is None:
        assert found is None
        return
    assert found is not None
    assert says in found[0] and sagt in found[1]
    if on_new < 1:
        assert (
            "where it no longer does, Flash4 runs at 1.30 times the speed and Flash2 at 1.00"
            in found[0]
        )
        assert "Flash2 在 old 上有 1 組判定贏過 Flash4，new 上 0 組" in found[1]


@pytest.mark.parametrize(
    ("forward", "backward", "says"),
    [
        (1.0, 1.2, "Backward gains more than forward: the fused average 1.20 backward and 1.00"),
        (1.2, 1.07, "Forward gains more than backward: the fused average 1.20 forward and 1.07"),
        (1.15, 1.07, None),  # both decided, and apart by less than two margins
        (1.0, 1.05, None),  # neither decided
    ],
)
def test_passes_differ_by_two_margins_or_where_one_alone_is_decided(
    forward: float, backward: float, says: str | None
) -> None:
    planted = {"forward_time": forward, "backward_time": backward}
    fused = [row("Flash2", metric, at(1024), x) for metric, x in planted.items()]
    memory = [r for r in runs("Flash2", {1024: 1.0}) if r["metric"] == "peak_memory"]
    found = told(compared([*NAIVE, *fused, *memory])).get("by_pass")
    assert (found and found[0].startswith(says)) if says else found is None


@pytest.mark.parametrize(("width", "is_told"), [(0.01, True), (0.06, False)])
def test_passes_whose_means_are_not_apart_do_not_differ(width: float, is_told: bool) -> None:
    """The backward is 1.10 times as fast, decided; the forward 1.04, or 0.98 to 1.10."""
    fused = [
        row("Flash2", "backward_time", at(1024), 1.10),
        row("Flash2", "forward_time", at(1024), 1.04, width),
    ]
    memory = [r for r in runs("Flash2", {1024: 1.0}) if r["metric"] == "peak_memory"]
    found = told(compared([*NAIVE, *fused, *memory]))
    assert ("by_pass" in found) is is_told


def test_the_sizes_at_which_nothing_gains_are_left_out_of_the_passes() -> None:
    fused = [
        row("Flash2", metric, at(n), x if n == 1024 else 1.0)
        for n in (1024, 4096)
        for metric, x in (("forward_time", 1.0), ("backward_time", 1.2))
    ]
    memory = [r for r in runs("Flash2", {1024: 1.0}) if r["metric"] == "peak_memory"]
    english, chinese = told(compared([*NAIVE, *fused, *memory]))["by_pass"]
    assert "at N ≤ 1024 the fused average 1.20 backward and 1.00 forward" in english
    assert "融合實作在 N ≤ 1024 反向平均 1.20 倍，前向 1.00 倍" in chinese


@pytest.mark.parametrize(("equal", "is_flat"), [(8, True), (7, False)])
def test_flat_is_what_is_equal_in_four_fifths_of_at_least_five(equal: int, is_flat: bool) -> None:
    lengths = [128 * (n + 1) for n in range(10)]
    rows = [
        row("Flex", "forward_time", at(n), 1.0 if i < equal else 1.2) for i, n in enumerate(lengths)
    ]
    found = told(compared(rows)).get("flat")
    assert (found is not None) == is_flat
    if found:
        assert found[0].startswith("Hardly changed: Flex (equal in 8 of 10 decided comparisons")
        assert found[1].startswith("幾乎沒變的：Flex（判定的 10 項有 8 項相差不到 5%")
    assert "flat" not in told(compared(rows[:4]))  # too few
    assert "flat" not in told(compared(rows, SAME))


def test_exact_metrics_are_the_same_only_if_every_ratio_is_one() -> None:
    assert "Exactly the same: peak memory (all 3 comparisons)." in told(compared(FUSED))["flat"][0]
    more = {**row("Flash2", "peak_memory", at(8192), 1 / 1.2, 0.0), "reference_median": 100.0}
    found = told(compared([*FUSED, more]))
    assert "Exactly" not in found.get("flat", ("",))[0]
    assert found["answer_other"] == (
        "Besides the times: peak memory of Flash2 is 1.20 times that with old "
        "(at 1 of 4 settings).",
        "時間以外：Flash2 的峰值記憶體是 old 的 1.20 倍（4 組設定中的 1 組）。",
    )


@pytest.mark.parametrize(("x", "is_told"), [(1.4, True), (1.1, False)])
def test_a_gain_outside_the_sizes_that_gain_on_average_is_a_surprise(
    x: float, is_told: bool
) -> None:
    fused = runs("Flash2", {128: 1.25, 1024: 1.0})
    large = [row("Flash2", metric, at(1024, emb_dim=4096), x) for metric in TIMES]
    found = told(compared([*NAIVE, *fused, *large])).get("surprise")
    assert (found is not None) == is_told
    if found:
        assert found[0] == (
            "The surprise: the fused gain most not at N ≤ 128, where they do on average, but at a "
            "larger head dimension: Flash2's forward runs at 1.40 times the speed at d = 128 "
            "(1.00 at d = 64, else the same)."
        )
        assert "Flash2 的前向在 d = 128 為 1.40 倍速（其餘相同、d = 64 時 1.00 倍）" in found[1]


def test_doubts_name_what_could_matter_and_not_what_is_compared() -> None:
    differs = {"one": ["1"], "other": ["2"], "verdict": "differs", "implementation": None}
    fields = ("device_name", "memory_clock", "cuda")
    rows = [*AGREEING, *({**differs, "field": field} for field in fields)]
    english, chinese = told(compared(FUSED, environments=rows))["footnote_doubts"]
    assert english == (
        "Note: the same on both sides: power limit, driver, PyTorch, measuring code. Different: "
        "CUDA. Processes on two devices cannot be paired, so intervals are wider than between "
        "implementations on one."
    )
    assert chinese.startswith("註：功耗上限、驅動程式、PyTorch、量測程式兩邊相同。不同的有CUDA。")
    assert "footnote_doubts" not in told(compared(FUSED, SAME))


def test_single_processes_say_what_they_cannot_show() -> None:
    rows = [{**each, "processes": "1 1"} for each in FUSED]
    english, chinese = told(compared(rows, SAME))["footnote_doubts"]
    assert "by an assumed 3% no difference below about 14% is decided" in english
    assert "假設為 3%，小於約 14% 的差別就無法判定" in chinese


def test_what_is_not_compared_is_counted() -> None:
    only = [[{"implementation": name, "shapes": ["B1", "B2"]} for name in ("Lost", "Gone")], []]
    both = [ended(512, "incorrect", "incorrect", "Wrong")]
    assert told(compared(FUSED, SAME, ended=both, only=only))["footnote_missing"] == (
        "Not compared: Wrong at B16 N512 H32 E2048 full, without a result on either side (wrong "
        "results); 2 runs each of Lost and Gone that only old has.",
        "未比較的：Wrong 在 B16 N512 H32 E2048 full 兩邊都沒有結果（結果錯誤）；"
        "只有 old 量過 Lost 與 Gone 的各 2 項。",
    )


def test_packed_twins_are_in_no_sentence() -> None:
    twin = runs("Flash2Packed", {1024: 2.0})
    assert told(compared([*FUSED, *twin])) == told(compared(FUSED))
