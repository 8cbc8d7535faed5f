"""The story of a comparison of planted tables, at the edge of each rule, in both languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS
from flashlab.analysis.ratios import verdict_of
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.story.compare import MACHINES, Compared, story, with_pooled
from flashlab.story.words import Texts, paragraphs

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
    rows: Sequence[Row], devices: tuple[str, str] = CARDS, within: Sequence[Row] = (), **about: Any
) -> Compared:
    """Two sides, old and new, on these devices."""
    whole = {"ended": "2026-01-02"}
    sides = [
        {"name": name, "devices": [device], **whole}
        for name, device in zip(("old", "new"), devices, strict=True)
    ]
    usual = {"environments": AGREEING, "ceilings": [], "ended": [], "only": [[], []]}
    table = pd.concat([with_pooled(pd.DataFrame(rows), ATTENTION), pd.DataFrame([*within])])
    for column in ("experiment", "subject", "reference", "reference_median"):
        table[column] = table.get(column)
    return Compared(ATTENTION, table, {"sides": sides, **usual, **about})


def told(two: Compared) -> dict[str, Texts]:
    """What the story says, by language."""
    return {
        language: paragraphs(story(two), language, None, "compare") for language in ("en", "zh_TW")
    }


def english(two: Compared) -> str:
    """All that it says in English."""
    texts = told(two)["en"]
    sections = texts.sections.get(MACHINES, "")
    return " ".join([texts.answer, texts.conclusion, *texts.notices, sections])


NAIVE = runs("Pytorch", {128: 1.2, 1024: 1.3}, memory=1000)
FUSED = runs("Flash2", {128: 1.12, 1024: 1.0, 4096: 1.0})
SAME = (CARDS[0], CARDS[0])


def test_another_card_is_told_by_groups_in_both_languages() -> None:
    texts = told(compared([*NAIVE, *FUSED]))
    for part in (
        "new is faster above all for the naive implementation: in total Pytorch runs at 1.2",
        "Of 10 comparisons 6 show new faster and none slower. The fused ones gain most at N ≤ 128",
        "; at N\u00a0=\u00a01024 and N ≥ 4096 not one setting shows a difference.",
    ):
        assert part in texts["en"].answer
    assert texts["zh_TW"].answer.startswith("new 的好處主要落在直接實作：前向與反向合計，Pytorch")
    assert "有 6 項判定 new 較快，沒有一項較慢" in texts["zh_TW"].answer


@pytest.mark.parametrize(
    ("naive", "fused", "begins"),
    [
        (1.3, 1.1, "new is faster above all for the naive implementation"),
        (1.1, 1.3, "new is faster above all for the fused implementations"),
        (1.11, 1.1, "In total, and on average over the sizes, the naive Pytorch"),  # they overlap
        (0.8, 0.94, "In total, and on average over the sizes, the naive Pytorch"),  # slower
    ],
)
def test_a_gain_falls_to_a_group_only_where_its_interval_lies_beyond(
    naive: float, fused: float, begins: str
) -> None:
    rows = [*runs("Pytorch", {1024: naive}, memory=1000), *runs("Flash2", {1024: fused})]
    assert english(compared(rows)).startswith(begins)


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


@pytest.mark.parametrize(
    ("x", "width", "says"),
    [
        (1.0, 0.01, "old and new are equally fast: all 1 comparisons are within 5%."),
        (1.0, 0.2, "No difference is decided between old and new: of 1 comparisons 0 are within"),
        (
            1.07,
            0.01,
            "Of 1 comparisons 1 show new faster and none slower. new is faster in Flash2's",
        ),
        (1.07, 0.03, "No difference is decided between"),
        (
            0.8,
            0.01,
            "Of 1 comparisons none show new faster and 1 slower. new is slower in Flash2's",
        ),
    ],
)
def test_only_what_is_decided_is_stated(x: float, width: float, says: str) -> None:
    two = compared([row("Flash2", "forward_time", at(512), x, width)], SAME)
    assert english(two).startswith(says)
    assert told(two)["zh_TW"].answer


def test_a_change_of_code_is_told_by_implementation_pass_and_place() -> None:
    rows = [
        row("Flash2", "forward_time", at(n, causal=causal), 0.8 if causal and n > 512 else 1.0)
        for n in (512, 1024, 4096)
        for causal in (False, True)
    ]
    more = {**row("Flash2", "peak_memory", at(8192), 1 / 1.2, 0.0), "reference_median": 100.0}
    said = english(compared([*rows, more], SAME))
    assert (
        "times the speed at 2 of 6 settings: B16 N1024 H32 E2048 causal, "
        "B16 N4096 H32 E2048 causal)." in said
    )
    assert "Flash2's peak memory is 1.20 times that with old at 1 of 1 settings." in said


def ceilings(copy: float, product: float) -> list[dict[str, Any]]:
    rates = {"copy": copy, "float16": product}
    return [{"what": w, "one": 100.0, "other": 100 * rate} for w, rate in rates.items()]


@pytest.mark.parametrize(
    ("copy", "product", "near"),
    [
        (1.3, 1.05, "comes near the ratio of the bandwidths, the fused ones"),
        (1.05, 1.3, "comes near the ratio of the matrix products"),
        (1.3, 1.31, None),  # near both
        (1.6, 1.05, None),  # near neither
    ],
)
def test_the_largest_gain_is_near_one_ceiling_alone(
    copy: float, product: float, near: str | None
) -> None:
    fused = runs("Flash2", {128: 1.12, 1024: 1.0, 4096: 1.05})
    said = english(compared([*NAIVE, *fused], ceilings=ceilings(copy, product)))
    assert (near or "copies") in said
    assert ("near" in said) == (near is not None)


def ended(seq_len: int, one: str, other: str, name: str = "Pytorch") -> Row:
    return {"implementation": name, **at(seq_len), "one": one, "other": other}


def test_what_fits_on_one_card_only_is_told_once() -> None:
    fits = [ended(16384, "oom", "ok")]
    said = english(compared([*NAIVE, *FUSED], ended=fits))
    assert (
        "new has 141 GB of memory in place of 80, enough for Pytorch at N\u00a0=\u00a016384, for "
        "which old has too little." in said
    )
    assert "out of memory" not in said
    alike = english(compared([*NAIVE, *FUSED], SAME, ended=fits))
    assert "On old alone Pytorch has no result at B16 N16384 H32 E2048 full (out of" in alike


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (ended(512, "incorrect", "ok", "New"), "On old alone New has no result at B16 N512 H32"),
        (ended(512, "ok", "error", "Lost"), "On new Lost has no result any more at B16 N512 H32"),
        (ended(512, "incorrect", "oom", "Wrong"), "Wrong has no result at B16 N512 H32 E2048 full"),
    ],
)
def test_a_run_without_a_result_is_named_with_its_side(run: Row, says: str) -> None:
    texts = told(compared(FUSED, SAME, ended=[run]))
    assert texts["en"].notices[0].startswith(says)
    assert run["implementation"] in texts["zh_TW"].notices[0]


THREE = [*NAIVE, *FUSED, *runs("Flash4", {128: 1.3, 1024: 1.3, 4096: 1.0})]


@pytest.mark.parametrize(
    ("on_new", "says"),
    [
        (0.8, "The choice changes at 1 of the 1 settings"),
        (1.2, "The choice does not change: where both decide which is the fastest in total (at 1"),
        (1.04, "At no setting do both decide which one is the fastest."),
    ],
)
def test_another_choice_is_told_where_both_sides_decide_on_one(on_new: float, says: str) -> None:
    """Both beat Pytorch; Flash2 beats Flash4 on the old side."""
    setting = at(1024)
    total = {"metric": "forward_backward_time"}
    within = [
        *(
            wins(side, name, "Pytorch", 2.0, setting) | total
            for side in ("old", "new")
            for name in ("Flash2", "Flash4")
        ),
        wins("old", "Flash2", "Flash4", 1.2, setting) | total,
        wins("new", "Flash2", "Flash4", on_new, setting) | total,
    ]
    assert says in english(compared(THREE, within=within))


def test_what_differs_is_named_and_counted() -> None:
    fields = ("device_name", "memory_clock", "cuda")
    differs = {"one": ["1"], "other": ["2"], "verdict": "differs", "implementation": None}
    kernels = [{**differs, "field": "kernel", "implementation": n} for n in "ABCDE"]
    rows = [*AGREEING, *({**differs, "field": field} for field in fields), *kernels]
    texts = told(compared(FUSED, environments=rows))
    assert texts["en"].sections[MACHINES] == (
        "Alike on both sides: power limit, driver, PyTorch and measuring code; besides the device "
        "itself, different: memory clock. The kernel code of 5 of the 5 implementations changed "
        "between the two recordings (A, B, C and 2 more), so that a gain of a few percent may be "
        "the code's and not the machine's. Processes on two devices cannot be paired, which makes "
        "the intervals wider than those between implementations on one."
    )
    assert (
        texts["zh_TW"]
        .sections[MACHINES]
        .startswith("兩邊相同的有功耗上限、驅動程式、PyTorch 與量測程式")
    )


def test_single_processes_say_what_they_cannot_show() -> None:
    rows = [{**each, "processes": "1 1"} for each in FUSED]
    assert "by an assumed 3% no difference below about 14% is decided" in english(
        compared(rows, SAME)
    )


def test_packed_twins_are_in_no_sentence_and_what_one_side_has_is_counted() -> None:
    twin = runs("Flash2Packed", {1024: 2.0})
    assert told(compared([*FUSED, *twin])) == told(compared(FUSED))
    only = [[{"implementation": "Lost", "shape": f"B{size}"} for size in (1, 2, 3, 4)], []]
    assert "4 runs that only old has are not compared." in english(compared(FUSED, only=only))
