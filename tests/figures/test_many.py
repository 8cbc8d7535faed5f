"""Many implementations: marks of times, bars of rates, and bands of memory that coincides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from figures.drawn import clipped, drawn, experiment_of, implausible, overlapping, texts_of
from matplotlib.patches import Rectangle

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures.forms import has_room, is_of_many, is_wide
from flashlab.figures.many import BAND, draw_groups, draw_longest, longest_sweeps
from flashlab.figures.style import COLOURS, looks_of
from flashlab.report.compact import printed_value
from flashlab.statistics import Estimate

NAMES = ("Pytorch", "Flash2", "Flex", "Flash4", "FlashLab")
TIMES = {
    "Pytorch": [0.0972, 0.578, 1.83],
    "Flash2": [0.0234, 0.136, 0.46],
    "Flex": [0.03, 0.124, "incorrect"],
    "Flash4": [0.0266, 0.117, 0.346],
    "FlashLab": [0.0181, 0.116, 0.306],
}
SIZES = [128, 512, 1024]


def many(spread: float = 0.01) -> Experiment:
    return experiment_of(TIMES, SIZES, spread=spread)


def test_few_implementations_variants_and_long_sweeps_stay_lines() -> None:
    assert is_of_many(many(), NAMES)
    assert not is_of_many(many(), NAMES[:3])
    assert not is_of_many(experiment_of(TIMES, SIZES, (False, True)), NAMES)
    long = {name: [1.0 + n for n in range(7)] for name in NAMES}
    assert not is_of_many(experiment_of(long, [2**n for n in range(7)]), NAMES)


@pytest.mark.parametrize(("quantity", "wide"), [("time", True), ("rate", False), ("memory", False)])
def test_a_figure_is_as_wide_as_the_report_takes_it_to_be(quantity: str, wide: bool) -> None:
    figure = drawn(many(), quantity)
    assert is_wide(many(), NAMES, ATTENTION.panels(quantity)) == wide
    assert figure.get_figwidth() * 25.4 == pytest.approx(180 if wide else 88)


@pytest.mark.parametrize("quantity", ["time", "rate", "memory"])
def test_no_text_covers_another_or_leaves_the_figure(quantity: str) -> None:
    figure = drawn(many(), quantity)
    assert overlapping(figure) == clipped(figure) == []


def test_every_time_is_printed_beside_its_mark_bold_near_the_best() -> None:
    figure = drawn(many(), "time", languages=["en"])
    first, second, _ = figure.axes
    assert first.get_title() == "N = 128 (ms)"
    weights = {(text.get_text(), text.get_fontweight()) for text in second.texts}
    # 0.116 and 0.117 are within the margin of one another, 0.124 is not.
    assert {("0.12", "bold"), ("0.12", "normal"), ("0.58", "normal")} <= weights
    assert {"Forward", "Backward", "incorrect"} <= set(texts_of(figure))
    rows = [label.get_text() for label in first.get_yticklabels()]
    assert rows == list(NAMES)


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.2])
def test_a_time_is_printed_as_in_the_table_beside_the_figure(spread: float) -> None:
    experiment = many(spread)
    said = texts_of(drawn(experiment, "time"))
    times = [m for m in experiment.benchmark.measured if m.unit == "ms"][:2]
    cells = [printed_value(experiment, run, m).text for run in experiment.runs for m in times]
    assert len(set(cells)) > 5
    assert {cell for cell in cells if cell[0].isdigit()} <= set(said)


def test_intervals_are_drawn_across_marks_and_bars() -> None:
    for quantity in ("time", "rate"):
        with_intervals = drawn(many(0.1), quantity).axes[0].collections
        assert len(with_intervals) > len(drawn(many(0.0), quantity).axes[0].collections)


def test_bars_stand_in_one_order_with_their_numbers_and_failures() -> None:
    experiment = many()
    figure = drawn(experiment, "rate")
    shades = [look.shade for look in looks_of(experiment.plan["implementations"]).values()]
    for axes in figure.axes:
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert len(bars) == 14  # of fifteen, one has no result
        assert axes.get_ylim()[0] == 0
        first = sorted(bars, key=lambda bar: bar.get_x())[: len(NAMES)]
        assert [bar.get_height() for bar in first] == [TIMES[name][0] for name in NAMES]
        assert sum(text.get_text() == "×" for text in axes.texts) == 1
        assert len([text for text in axes.texts if text.get_text() != "×"]) == len(bars)
    assert len({*shades}) == len(NAMES)
    assert shades[:2] == list(COLOURS[:2])


def test_a_rate_that_cannot_be_has_no_bar() -> None:
    figure = drawn(implausible(many(), "Flash4", 1024), "rate")
    assert all(len(axes.patches) == 13 for axes in figure.axes)
    assert "速率不合理 implausible rate" in texts_of(figure)


def test_lines_of_memory_that_coincide_are_one_band() -> None:
    held = {"Pytorch": [200, 4736], "Flash2": [80.5, 644], "Flex": [72.5, 580]}
    held |= {"Flash4": [80.75, 646], "FlashLab": [68.4, 644]}
    figure = drawn(experiment_of(held, [128, 1024]), "memory", languages=["en"])
    assert {"4 alike", "68.4–80.8", "580–646", "Pytorch", "4,736"} <= set(texts_of(figure))
    assert not {"Flash2", "Flex"} & set(texts_of(figure))
    lines = [line for line in figure.axes[0].lines if line.get_color() == BAND]
    assert list(lines[0].get_xdata()) == [128, 1024]
    two = {**held, "Flex": [20, 150], "FlashLab": [5, 40]}
    assert "Flash2, Flash4" in texts_of(drawn(experiment_of(two, [128, 1024]), "memory"))


def test_a_ceiling_is_drawn_where_the_bars_come_near_it() -> None:
    experiment = replace(many(), benchmark=ATTENTION)
    metrics = ATTENTION.panels("rate")

    def said(rate: float) -> list[str]:
        product = Ceiling(rate * 1e12, Estimate(1e3, 1, None))
        return texts_of(draw_groups(experiment, ["en"], NAMES, metrics, product, 0.6, 2.0))

    assert said(2.0).count("Matrix product 2") == 2
    assert not any(text.startswith("Matrix product") for text in said(20.0))
    assert has_room((1.0, 1.2), 1.0) and not has_room((1.0, 1.3), 1.0)


# The longest sweeps


def test_the_longest_sweeps_reach_the_greatest_value_and_differ_in_the_variant() -> None:
    short = experiment_of({"Pytorch": [1, 2], "Flash2": [1, 2]}, [128, 256], [False, True])
    full, causal = (
        experiment_of({"Pytorch": [2, 3], "Flash2": [2, 3]}, [256, 512], [mask], name=str(mask))
        for mask in (False, True)
    )
    assert [each.name for each in longest_sweeps([short, full, causal])] == ["False", "True"]
    assert [len(each.runs) for each in longest_sweeps([short])] == [4, 4]


def test_their_overall_rate_is_bars_beside_one_another_for_each_variant() -> None:
    figure = draw_longest([experiment_of(TIMES, SIZES, [False, True])], ["en"])
    assert figure is not None
    full, causal = figure.axes
    assert full.get_title() == "Overall rate (TFLOP/s) Full"
    assert causal.get_title() == "Overall rate (TFLOP/s) Causal"
    assert len(full.patches) == len(causal.patches) == 14
    assert full.get_ylim() == causal.get_ylim()


def test_only_the_last_values_are_shown_where_there_is_no_room_for_more() -> None:
    sizes = [2**n for n in range(7, 13)]
    experiment = experiment_of({name: [1.0] * 6 for name in NAMES}, sizes, [False, True])
    figure = draw_longest([experiment], ["en"])
    assert figure is not None
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == [f"N = {size}" for size in sizes[-4:]]
