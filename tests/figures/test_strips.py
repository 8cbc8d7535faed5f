"""The distance of each implementation from the best, over all settings."""

from __future__ import annotations

import pytest
from figures.drawn import clipped, experiment_of, overlapping, texts_of
from matplotlib.figure import Figure

from flashlab.figures.strips import draw_strips

TIMES = {"Pytorch": [8.0, 20.0, "oom"], "Flash2": [2.0, 2.0, 2.0], "Flash4": [1.0, 2.5, 4.0]}
SIZES = [128, 512, 1024]


def strips(*names: str) -> Figure:
    shown = {name: TIMES[name] for name in names or TIMES}
    again = experiment_of(shown, SIZES, name="again")  # the same settings, which count once
    figure = draw_strips([experiment_of(shown, SIZES), again], ["en"])
    assert figure is not None
    return figure


def test_a_row_has_a_tick_for_each_setting_and_prints_its_median_and_its_worst() -> None:
    first = strips().axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == [
        "Flash2",
        "Flash4",
        "Pytorch",
    ]
    ticks = [line for line in first.lines if line.get_marker() == "|"]
    shares = [sorted(map(float, line.get_xdata())) for line in ticks]
    assert shares == [pytest.approx(each) for each in ([50, 100, 100], [50, 80, 100], [10, 12.5])]
    numbers = [text.get_text() for text in first.texts]
    assert numbers == ["median", "100", "80", "11", "worst", "50", "50", "10"]


def test_memory_is_a_multiple_of_the_least() -> None:
    memory = strips().axes[-1]
    assert {"1.00×", "2.00×", "9.00×", "10.0×"} <= {text.get_text() for text in memory.texts}


def test_the_titles_are_of_one_pass_of_all_and_of_memory() -> None:
    figure = strips()
    assert [axes.get_title() for axes in figure.axes] == ["Forward", "Total time", "Peak memory"]
    assert {"median", "worst", "100%", "10×"} <= set(texts_of(figure))
    assert overlapping(figure) == clipped(figure) == []


def test_without_any_result_there_is_no_figure() -> None:
    assert (
        draw_strips([experiment_of({"Pytorch": ["oom"], "Flash2": ["oom"]}, [128])], ["en"]) is None
    )
