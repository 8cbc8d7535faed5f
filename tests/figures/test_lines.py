"""Lines along a sweep: which values, crosses, names and words they show, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from figures.drawn import SIZES, crosses_of, drawn, lines_of, sweep_of, text_boxes, texts_of
from matplotlib.collections import LineCollection

from flashlab.figures.lines import LOW
from flashlab.figures.style import COLOURS, GREY, PALE

TIMES = {"Pytorch": [1, 4, 16, "oom"], "Flash2": [0.5, 1, 2, 4]}
"""At four lengths; the naive one runs out of memory at the last."""

PYTORCH, FLASH2 = COLOURS[:2]
NINE = {"Pytorch": [9.0, 18, 36, 72]}
NINE |= {f"Kernel{n}": [1.0 + n, 2 + n, 4 + n, 8.0 + n] for n in range(8)}
THREE = dict([*NINE.items()][:3])
FAILED = "Pytorch: 記憶體不足 out of memory"
LOST = {"Flash2": ["incorrect", "oom", "oom", "oom"]}
MASK, SPREAD = {"variants": (False, True)}, {"spread": 0.001}
DIMS = {"sizes": [64, 128], "of": "emb_dim"}
PLACES = {"64\n16", "128\n32", "E", "d"}
CASES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], str, set[str], set[str]]] = {
    "times": (TIMES, {}, "time", {"前向時間 Forward time (ms)", FAILED, "N", "0.50"}, {"1.00×"}),
    "their speeds": (TIMES, {}, "time", {"2.00×", "4.00×", "8.00×", "×"}, {"1.00×"}),
    "rates alone": (TIMES, {}, "rate", {"反向速率 Backward rate (TFLOP/s)", "16"}, {"×", "%"}),
    "memory by shares": (TIMES, {}, "memory", {"峰值記憶體 Peak memory (MiB)", "12%"}, {"×"}),
    "a mask by shares": ({"Flash2": [1, 2, 4, 8]}, MASK, "rate", {"150%", "因果 Causal"}, {"×"}),
    "failures alone": (LOST, {}, "rate", {"Flash2: 結果錯誤 incorrect", "1024"}, {"1"}),
    "what varies along": ({"Flash2": [1, 2]}, DIMS, "time", PLACES, {"×"}),
    "of three their last values": (THREE, SPREAD, "rate", {"Pytorch 72.0", "Kernel0 8.00"}, {"×"}),
}
"""What was measured, the quantity, texts that are there, and that are not."""


@pytest.mark.parametrize("case", CASES)
def test_a_figure_says_what_it_shows(case: str) -> None:
    results, options, quantity, there, absent = CASES[case]
    figure = drawn(sweep_of(results, **options), quantity)
    said = {*texts_of(figure)}
    assert there <= said and not absent & said
    assert round(25.4 * figure.get_figwidth()) in (88, 180)


def test_a_figure_speaks_only_the_languages_that_were_asked_for() -> None:
    said = texts_of(drawn(sweep_of(TIMES), "time", languages=["en"]))
    assert {"Forward time (ms)", "Pytorch: out of memory"} <= set(said)
    assert not any(ord(character) > 0x2E80 for character in "".join(said))


def test_what_a_mask_does_is_shown_by_times_before_rates_with_dashes_of_its_own() -> None:
    figure = drawn(sweep_of(TIMES, **MASK), "rate", "Flash2")
    titles = [axes.get_title().split(" ")[:2] for axes in figure.axes]
    named = ("前向時間", "反向時間", "前向速率", "反向速率")
    assert titles == [["Flash2", name] for name in named]
    assert [axes.get_window_extent().height for axes in figure.axes] == pytest.approx([LOW] * 4)
    full, causal = lines_of(figure.axes, FLASH2)[:2]
    assert full.is_dashed() != causal.is_dashed()
    assert full.get_markerfacecolor() != causal.get_markerfacecolor()


def test_a_line_goes_through_the_values_with_their_intervals() -> None:
    forward, backward = drawn(sweep_of(TIMES), "time").axes
    (line,) = lines_of([forward], FLASH2)
    assert line.get_xydata().tolist() == [[128, 0.5], [256, 1], [512, 2], [1024, 4]]
    (bars,) = [each for each in forward.collections[1:] if isinstance(each, LineCollection)]
    assert bars.get_segments()[0].ravel().tolist() == pytest.approx([128, 0.495, 128, 0.505])
    assert forward.get_ylim() == backward.get_ylim()  # so that the two can be compared


def test_a_run_without_a_result_is_a_cross_and_moves_neither_axis_nor_line() -> None:
    for quantity, panels in (("time", 2), ("memory", 1)):
        figure = drawn(sweep_of(TIMES), quantity)
        assert crosses_of(figure)[:panels] == [1024] * panels
        lines = [line for line in lines_of(figure.axes, PYTORCH) if len(line.get_xdata()) > 2]
        assert [line.get_xdata().max() for line in lines] == [512] * panels
    assert sorted({x for x in crosses_of(drawn(sweep_of(LOST), "rate")) if x >= 128}) == [*SIZES]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [SIZES, (64, 1024, 1536, 2048)], ids=["doubled", "uneven"])
def test_no_number_stands_on_a_point_or_another_text(seed: int, sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(seed)
    steps = np.exp(random.normal(0.4, 0.8, (2, 4))).cumprod(axis=1)
    spread = float(random.choice([0.001, 0.05, 0.4]))
    values = {name: list(map(float, row)) for name, row in zip(TIMES, steps, strict=True)}
    for quantity in ("time", "rate", "memory"):
        figure = drawn(sweep_of(values, sizes, spread=spread), quantity)
        boxes = [box for text, box in text_boxes(figure) if re.fullmatch(r"[\d.,]+", text)]
        for axes in figure.axes:
            marked = [x for x in lines_of([axes]) if x.get_marker() not in ("None", "x")]
            points = [p for x in marked for p in axes.transData.transform(x.get_xydata())]
            frame = axes.get_window_extent()
            numbers = [box for box in boxes if frame.contains(*(box.p0 + box.p1) / 2)]
            assert len(numbers) >= 6
            assert not any(box.contains(*point) for box in numbers for point in points)
            for centre in ((box.p0 + box.p1) / 2 for box in numbers):
                assert min(float(np.hypot(*(centre - point))) for point in points) < 20


def test_of_many_lines_four_are_named_and_the_rest_grey_each_with_its_last_value() -> None:
    """The baseline, and those nearest to the best at most settings; of five all are named."""
    first = drawn(sweep_of(NINE, spread=0.001), "rate").axes[0]
    colours = [line.get_color() for line in lines_of([first]) if line.get_marker() != "None"]
    assert colours.count(PALE) == 5
    assert {COLOURS[0], COLOURS[8], COLOURS[7], COLOURS[6]} == {*colours} - {PALE}
    ends = sorted((t for t in first.texts if " " in t.get_text()), key=lambda t: t.xy[1])
    values = [float(text.get_text().split()[1]) for text in ends]
    assert len(values) == 9 and values == sorted(values)
    weights = {text.get_text(): text.get_fontweight() for text in ends}
    assert (weights["Pytorch 72.0"], weights["Kernel0 8.00"]) == ("bold", "normal")
    five = drawn(sweep_of(NINE), "rate", *[*NINE][:5]).axes[0]
    assert PALE not in {line.get_color() for line in five.lines}


def test_times_of_two_stand_beside_what_they_would_be_if_they_grew_as_the_operations() -> None:
    """From a length to eight times that one, the operations grow by 64."""
    sweep = sweep_of({"Pytorch": [1, 2, 4, 8], "Flash2": [1, 1, 1, 1]})

    def guides(quantity: str) -> list[list[float]]:
        lines = lines_of(drawn(sweep, quantity).axes, GREY)
        return [list(line.get_ydata()) for line in lines if len(line.get_xdata()) == 4][:2]

    shares = [1 / 4**n for n in (3, 2, 1, 0)]
    assert guides("time") == [pytest.approx([last * share for share in shares]) for last in (8, 1)]
    assert guides("rate") == guides("memory") == []
