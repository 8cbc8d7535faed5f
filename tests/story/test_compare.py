"""The story of a comparison of planted tables, at the edge of each rule, in both languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from story.breaking import BROKEN, told

from flashlab.analysis.experiment import DATASET, IMPLEMENTATIONS
from flashlab.analysis.ratios import verdict_of
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.story.compare import Compared, story, with_pooled

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


def compared(
    rows: Sequence[Row], devices: tuple[str, str] = CARDS, within: Sequence[Row] = (), **about: Any
) -> Compared:
    """Two sides, Old and New, on these devices."""
    both = zip(("Old", "New"), devices, strict=True)
    sides = [{"name": name, "devices": [device], "ended": "2026-01-02"} for name, device in both]
    usual = {"environments": AGREEING, "ceilings": [], "ended": [], "only": [[], []]}
    table = pd.concat([with_pooled(pd.DataFrame(rows), ATTENTION), pd.DataFrame([*within])])
    for column in ("experiment", "subject", "reference", "reference_median"):
        table[column] = table.get(column)
    return Compared(ATTENTION, table, {"sides": sides, **usual, **about})


NAIVE = runs("Pytorch", {128: 1.2, 1024: 1.3}, memory=1000)
FUSED = runs("Flash2", {128: 1.12, 1024: 1.0, 4096: 1.0})
THREE = [*NAIVE, *FUSED, *runs("Flash4", {128: 1.3, 1024: 1.3, 4096: 1.0})]
SAME = {"devices": (CARDS[0], CARDS[0])}


def gains(naive: float, fused: float) -> list[Row]:
    return [*runs("Pytorch", {1024: naive}, memory=1000), *runs("Flash2", {1024: fused})]


def one(x: float, width: float = 0.01) -> list[Row]:
    return [row("Flash2", "forward_time", at(512), x, width)]


def choice(on_new: float) -> dict[str, list[Row]]:
    """Both beat Pytorch; Flash2 beats Flash4 on the old side, and so much on the new one."""
    two, about = ("Flash2", "Flash4"), {"compared": IMPLEMENTATIONS, "metric": TIMES[2]}
    speeds = [(side, name, "Pytorch", 2.0) for side in ("Old", "New") for name in two]
    speeds += [("Old", *two, 1.2), ("New", *two, on_new)]
    found = [
        {**at(1024), **about, **compared_row(1 / x, 0.01)}
        | {"experiment": side, "subject": winner, "reference": loser}
        for side, winner, loser, x in speeds
    ]
    return {"within": found}


def ceilings(copy: float, product: float) -> dict[str, list[Row]]:
    rates = {"copy": copy, "float16": product}
    return {"ceilings": [{"what": w, "one": 100.0, "other": 100 * r} for w, r in rates.items()]}


def ended(seq_len: int, one: str, other: str, name: str = "Pytorch") -> dict[str, list[Row]]:
    return {"ended": [{"implementation": name, **at(seq_len), "one": one, "other": other}]}


def differing(*fields: str) -> dict[str, list[Row]]:
    """Fields of the environment that differ, and the code of five kernels."""
    differs = {"one": ["1"], "other": ["2"], "verdict": "differs", "implementation": None}
    kernels = [{**differs, "field": "kernel", "implementation": name} for name in "ABCDE"]
    return {"environments": [*AGREEING, *({**differs, "field": f} for f in fields), *kernels]}


MASKED = [
    row("Flash2", "forward_time", at(n, causal=causal), 0.8 if causal and n > 512 else 1.0)
    for n in (512, 1024, 4096)
    for causal in (False, True)
]
HEAVIER = {**row("Flash2", "peak_memory", at(8192), 1 / 1.2, 0.0), "reference_median": 100.0}
GAIN = [*NAIVE, *runs("Flash2", {128: 1.12, 1024: 1.0, 4096: 1.05})]
LOST = [{"implementation": "Lost", "shape": f"B{size}"} for size in (1, 2, 3, 4)]

FITS, GONE = ended(16384, "oom", "ok"), ended(512, "ok", "error", "Lost")
SINGLE = [{**each, "processes": "1 1"} for each in FUSED]
DIFFERING = differing("device_name", "memory_clock", "cuda")
CASES: Mapping[str, tuple[Sequence[Row], Mapping[str, Any], str]] = {
    "groups": ([*NAIVE, *FUSED], {}, "above all for the naive implementation: in total Pytorch ru"),
    "a gain of the fused": (gains(1.1, 1.3), {}, "faster above all for the fused implementations"),
    "gains that overlap": (gains(1.11, 1.1), {}, "In total, and on average over the sizes, the na"),
    "an equal group": (gains(1.3, 1.0), {}, "-(not decided)"),
    "a sure gain": ([*GAIN, *runs("Flash2", {8192: 1.5}, width=0.9)], {}, "gain most at N ≤ 128"),
    "equally fast": (one(1.0), SAME, "equally fast: all 1 comparisons are within 5%."),
    "open": (one(1.0, 0.2), SAME, "No difference is decided between Old and New: of 1 comparisons"),
    "faster": (one(1.07), SAME, "1 show New faster and none slower. New is faster in Flash2's"),
    "slower": (one(0.8), SAME, "none show New faster and 1 slower. New is slower in Flash2's"),
    "passes": ([*MASKED, HEAVIER], SAME, "times the speed at 2 of 6 settings: B16 N1024 H32 E2048"),
    "memory": ([*MASKED, HEAVIER], SAME, "Flash2's peak memory is 1.20 times that with Old at 1 o"),
    "near the bandwidth": (GAIN, ceilings(1.3, 1.05), "near the ratio of the bandwidths, the fuse"),
    "a slower device": (GAIN, ceilings(0.7, 1.02), "differ in memory more than in arithmetic: N"),
    "near both ceilings": (GAIN, ceilings(1.3, 1.31), "-near"),
    "what fits on one card": (FUSED, FITS, "enough for Pytorch at N = 16384, for which Old has to"),
    "told once": (FUSED, FITS, "-out of memory"),
    "what does not fit": (FUSED, {**SAME, **FITS}, "On Old alone Pytorch has no result at B16 N16"),
    "a result of the old side": (FUSED, {**SAME, **GONE}, "On New Lost has no result any more at"),
    "another choice": (THREE, choice(0.8), "The choice changes at 1 of the 1 settings"),
    "the same choice": (THREE, choice(1.2), "The choice does not change: where both decide which"),
    "no choice": (THREE, choice(1.0), "At no setting do both decide which one is the fastest."),
    "what differs": (FUSED, DIFFERING, "device itself, different: memory clock. The kernel code o"),
    "single processes": (SINGLE, SAME, "by an assumed 3% no difference below about 14% is decided"),
    "what one side has": (FUSED, {"only": [LOST, []]}, "4 runs that only Old has are not compared"),
}
"""Rows, what is known of both sides, and what is said; after a minus, what is not."""


@pytest.mark.parametrize("case", CASES)
def test_a_comparison_is_told_by(case: str) -> None:
    rows, about, part = CASES[case]
    texts = told(story(compared(rows, **about)), "compare").values()
    english = " ".join(of["en"] for of in texts)
    assert (part.removeprefix("-") in english) != part.startswith("-")
    assert not [text for of in texts for text in of.values() if text and BROKEN.search(text)]
    assert all(bool(of["en"]) == bool(of["zh_TW"]) for of in texts)


def test_packed_twins_are_in_no_sentence() -> None:
    twin = compared([*FUSED, *runs("Flash2Packed", {1024: 2.0})])
    assert told(story(twin), "compare") == told(story(compared(FUSED)), "compare")


def test_a_pooled_interval_is_that_of_settings_that_err_together() -> None:
    rows = [row("Flash2", "forward_time", at(n), x, 0.1) for n, x in ((512, 1.0), (1024, 1.44))]
    table = with_pooled(pd.DataFrame(rows), ATTENTION)
    (pooled,) = table[table["shape"].isna() & table.sizes.isna()].to_dict("records")
    assert (pooled["settings"], pooled["verdict"]) == (2, "below")
    ends = [1 / pooled[part] for part in ("high", "ratio", "low")]
    assert ends == pytest.approx([1.2 / 1.1, 1.2, 1.2 * 1.1])
    open_ended = with_pooled(pd.DataFrame([*rows[:1], {**rows[1], "low": None}]), ATTENTION)
    assert open_ended[open_ended["shape"].isna()].verdict.iloc[-1] == "inconclusive"
