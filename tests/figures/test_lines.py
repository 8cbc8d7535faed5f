"""Lines along a sweep: which values, crosses, names and words they show, and where."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from figures.drawn import (
    SIZES,
    clipped,
    crosses_of,
    drawn,
    lines_of,
    overlapping,
    sweep_of,
    text_boxes,
    texts_of,
)
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.figures.lines import LOW, Along
from flashlab.figures.style import COLOURS, GREY, PALE

TIMES = {"Pytorch": [1, 4, 16, "oom"], "Flash2": [0.5, 1, 2, 4]}
"""At four lengths; the naive one runs out of memory at the last."""

PYTORCH, FLASH2 = COLOURS[:2]
NINE = {f"Kernel{n}": [1.0 + n, 2 + n, 4 + n, 8.0 + n] for n in range(8)}
NINE = {"Pytorch": [9.0, 18, 36, 72], **NINE}


def words_of(quantity: str, *names: str, **options: Any) -> set[str]:
    return set(texts_of(drawn(sweep_of(TIMES, **options), quantity, *names)))


@pytest.mark.parametrize(
    ("quantity", "titles", "width"),
    [
        ("time", {"前向時間 Forward time (ms)", "反向時間 Backward time (ms)"}, 180),
        ("rate", {"前向速率 Forward rate (TFLOP/s)", "反向速率 Backward rate (TFLOP/s)"}, 180),
        ("memory", {"峰值記憶體 Peak memory (MiB)"}, 88),
    ],
)
def test_a_figure_says_what_it_shows_in_both_languages(
    quantity: str, titles: set[str], width: float
) -> None:
    figure = drawn(sweep_of(TIMES), quantity)
    failed = "Pytorch: 記憶體不足 out of memory"
    expected = {"128", "256", "512", "1024", "N", "Flash2", "Pytorch", failed}
    assert expected | titles <= set(texts_of(figure))
    assert figure.get_figwidth() * 25.4 == pytest.approx(width)
    assert overlapping(figure) == clipped(figure) == []


def test_a_figure_speaks_only_the_languages_that_were_asked_for() -> None:
    said = texts_of(drawn(sweep_of(TIMES), "time", languages=["en"]))
    assert {"Forward time (ms)", "Pytorch: out of memory"} <= set(said)
    assert not any(ord(character) > 0x2E80 for character in "".join(said))


@pytest.mark.parametrize(
    ("quantity", "names", "variants", "there", "absent"),
    [
        ("time", (), [False], {"1.0", "16", "0.50", "2.00×", "4.00×", "8.00×", "×"}, {"1.00×"}),
        ("rate", (), [False], {"1.0", "16"}, {"×", "%"}),
        ("memory", (), [False], {"50%", "25%", "12%", "%"}, {"×"}),
        ("rate", ("Flash2",), [False, True], {"150%", "%"}, {"×"}),
    ],
)
def test_values_of_two_lines_are_printed_with_how_the_second_compares(
    quantity: str, names: tuple[str, ...], variants: list[bool], there: set[str], absent: set[str]
) -> None:
    said = words_of(quantity, *names, variants=variants)
    assert there <= said and not absent & said


def test_what_a_mask_does_is_shown_by_times_before_rates_with_dashes_of_its_own() -> None:
    figure = drawn(sweep_of(TIMES, variants=(False, True)), "rate", "Flash2")
    titles = [axes.get_title() for axes in figure.axes]
    assert [title.split(" ")[1] for title in titles] == [
        "前向時間",
        "反向時間",
        "前向速率",
        "反向速率",
    ]
    assert all(title.startswith("Flash2 ") for title in titles)
    assert texts_of(figure).count("因果 Causal") == texts_of(figure).count("無遮罩 Full") == 4
    assert [axes.get_window_extent().height for axes in figure.axes] == pytest.approx([LOW] * 4)
    assert overlapping(figure) == clipped(figure) == []
    full, causal = lines_of(figure, FLASH2)[:2]
    assert full.is_dashed() != causal.is_dashed()
    assert full.get_markerfacecolor() != causal.get_markerfacecolor()


def test_a_line_goes_through_the_values_with_their_intervals() -> None:
    forward, backward = drawn(sweep_of(TIMES), "time").axes
    line = lines_of(forward.figure, FLASH2)[0]
    assert line.get_xydata().tolist() == [[128, 0.5], [256, 1], [512, 2], [1024, 4]]
    (bars,) = [each for each in forward.collections[1:] if isinstance(each, LineCollection)]
    assert bars.get_segments()[0].ravel().tolist() == pytest.approx([128, 0.495, 128, 0.505])
    assert forward.get_ylim() == backward.get_ylim()  # so that the two can be compared


@pytest.mark.parametrize("status", ["oom", "implausible"])
def test_a_run_without_a_result_is_a_cross_and_moves_neither_axis_nor_line(status: str) -> None:
    for quantity, panels in (("time", 2), ("memory", 1)):
        figure = drawn(sweep_of({**TIMES, "Pytorch": [1, 4, 16, status]}), quantity)
        assert crosses_of(figure)[:panels] == [1024] * panels
        lines = [line for line in lines_of(figure, PYTORCH) if len(line.get_xdata()) > 2]
        assert [line.get_xdata().max() for line in lines] == [512] * panels


def test_a_figure_of_nothing_but_failures_is_drawn_with_its_crosses() -> None:
    figure = drawn(sweep_of({"Flash2": ["incorrect", "oom", "oom", "oom"]}), "rate")
    said = texts_of(figure)
    assert sorted({x for x in crosses_of(figure) if x >= 128}) == [128, 256, 512, 1024]
    assert {"Flash2: 結果錯誤 incorrect", "Flash2: 記憶體不足 out of memory"} <= set(said)
    numbers = {text for text in said if re.fullmatch(r"[\d.,]+", text)}
    assert numbers == {"128", "256", "512", "1024"}  # and none on the axis of values
    assert overlapping(figure) == clipped(figure) == []


def test_what_varies_along_with_the_sweep_stands_below_its_ticks() -> None:
    said = texts_of(drawn(sweep_of({"Flash2": [1, 2]}, [64, 128], of="emb_dim"), "time"))
    assert {"64\n16", "128\n32", "E", "d"} <= set(said)


def test_whole_problems_stand_side_by_side_with_no_line_between_them() -> None:
    rows = {"Pytorch": [1.0, 2.0, "oom"], "Flash2": [3.0, 4.0, 5.0]}
    figure = drawn(sweep_of(rows, [1, 10, 28], of="case", benchmark=LADDER), "time")
    line = next(line for line in lines_of(figure, FLASH2) if line.get_linestyle() == "None")
    assert line.get_xdata().tolist() == [0, 1, 2]
    expected = {"1", "10", "28", "t", "Pytorch: 記憶體不足 out of memory"}
    assert expected <= set(texts_of(figure))


@pytest.mark.parametrize(
    ("values", "is_logarithmic"),
    [([128, 256, 512, 1024], True), ([64, 1024, 1536, 2048], False), ([8], False), ([1, 3], True)],
)
def test_a_sweep_has_the_axis_on_which_its_values_are_farther_apart(
    values: list[int], is_logarithmic: bool
) -> None:
    assert Along({"N": values}).is_logarithmic == is_logarithmic


def numbers_and_points(figure: Figure) -> list[tuple[list[Bbox], list[Any]]]:
    """The boxes of the numbers in each panel, and the points of all of its lines."""
    boxes, found = text_boxes(figure), []
    for axes in figure.axes:
        shown = [line for line in axes.lines if line.get_transform() == axes.transData]
        marked = [line.get_xydata() for line in shown if line.get_marker() not in ("None", "x")]
        points = [point for each in marked for point in axes.transData.transform(each)]
        frame = axes.get_window_extent()
        inside = [box for text, box in boxes if re.fullmatch(r"[\d.,]+", text)]
        centres = [frame.contains(*(box.p0 + box.p1) / 2) for box in inside]
        found.append(([b for b, is_in in zip(inside, centres, strict=True) if is_in], points))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [SIZES, (64, 1024, 1536, 2048)], ids=["doubled", "uneven"])
def test_no_number_stands_on_a_point_or_another_text(seed: int, sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(seed)
    steps = np.exp(random.normal(0.4, 0.8, (2, 4))).cumprod(axis=1)
    spread = float(random.choice([0.001, 0.05, 0.4]))
    values = {name: list(map(float, row)) for name, row in zip(TIMES, steps, strict=True)}
    for quantity in ("time", "rate", "memory"):
        figure = drawn(sweep_of(values, sizes, spread=spread), quantity)
        assert overlapping(figure) == clipped(figure) == []
        for numbers, points in numbers_and_points(figure):
            assert len(numbers) >= 6
            assert not any(box.contains(*point) for box in numbers for point in points)
            for box in numbers:
                centre = (box.p0 + box.p1) / 2
                assert min(float(np.hypot(*(centre - point))) for point in points) < 20


def test_of_many_lines_four_are_named_and_the_rest_grey_each_with_its_last_value() -> None:
    """The baseline, and those nearest to the best at most settings."""
    figure = drawn(sweep_of(NINE, spread=0.001), "rate")
    first = figure.axes[0]
    lines = [line for line in first.lines if line.get_transform() == first.transData]
    colours = [line.get_color() for line in lines if line.get_marker() != "None"]
    assert colours.count(PALE) == 5
    assert {COLOURS[0], COLOURS[8], COLOURS[7], COLOURS[6]} == {*colours} - {PALE}
    labels = {text.get_text(): text.get_fontweight() for text in first.texts}
    assert labels["Pytorch 72.0"] == "bold" == labels["Kernel7 15.0"]
    assert labels["Kernel0 8.00"] == "normal"
    ends = [text for text in first.texts if " " in text.get_text()]
    values = [float(t.get_text().split()[1]) for t in sorted(ends, key=lambda t: t.xy[1])]
    assert len(values) == 9 and values == sorted(values)
    assert overlapping(figure) == clipped(figure) == []


def test_up_to_five_lines_are_all_in_colour_and_of_three_the_last_values_are_printed() -> None:
    five = {name: NINE[name] for name in list(NINE)[:5]}
    for names, is_grey in ((list(five), False), (list(NINE), True)):
        figure = drawn(sweep_of(NINE), "rate", *names)
        assert (PALE in {line.get_color() for line in figure.axes[0].lines}) == is_grey
    said = texts_of(drawn(sweep_of(five, spread=None), "time", *list(five)[:3]))
    assert {"Pytorch 72.0", "Kernel0 8.00", "Kernel1 9.00"} <= set(said)


def test_times_of_two_stand_beside_what_they_would_be_if_they_grew_as_the_operations() -> None:
    """From a length to eight times that one, the operations grow by 64."""
    sweep = sweep_of({"Pytorch": [1, 2, 4, 8], "Flash2": [1, 1, 1, 1]})

    def guides(quantity: str) -> list[list[float]]:
        lines = lines_of(drawn(sweep, quantity), GREY)
        return [list(line.get_ydata()) for line in lines if len(line.get_xdata()) == 4][:2]

    shares = [1 / 4**n for n in (3, 2, 1, 0)]
    assert guides("time") == [pytest.approx([last * share for share in shares]) for last in (8, 1)]
    assert guides("rate") == guides("memory") == []
