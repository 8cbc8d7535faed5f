"""The figures of an experiment along its sweep: which values, marks, labels and words they show."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from figures.drawn import (
    clipped,
    drawn,
    experiment_of,
    implausible,
    lines_of,
    marks_of,
    overlapping,
    texts_of,
)
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.experiment import Experiment
from flashlab.figures.style import COLOURS, GREY, looks_of, muted

TIMES = {"Pytorch": [1, 4, 16, "oom"], "Flash2": [0.5, 1, 2, 4]}
"""At four lengths; the naive one runs out of memory at the last."""

COMPARED = pd.DataFrame(
    {
        **{"experiment": "seq_len", "compared": IMPLEMENTATIONS, "variant": "causal=false"},
        **{"metric": metric, "subject": "Flash2", "reference": "Pytorch", "verdict": "below"},
        **{"value": value, "ratio": ratio, "low": ratio, "high": ratio},
    }
    for metric in ("forward_time", "backward_time")
    for value, ratio in ((128, 1 / 2.1), (256, 1 / 4.2), (512, 1 / 8.4))
)
"""Process by process, it was a little faster than the medians have it."""


def test_a_figure_says_in_text_what_it_shows_in_both_languages() -> None:
    for quantity, titles in {
        "time": {"前向時間 Forward time (ms)", "反向時間 Backward time (ms)"},
        "rate": {"前向速率 Forward rate (TFLOP/s)", "反向速率 Backward rate (TFLOP/s)"},
        "memory": {"峰值記憶體 Peak memory (MiB)"},
    }.items():
        figure = drawn(experiment_of(TIMES), quantity)
        expected = {"128", "256", "512", "1024", "N", "Flash2", "Pytorch"}
        assert expected | titles <= set(texts_of(figure))
        width = 88 if quantity == "memory" else 180
        assert figure.get_figwidth() * 25.4 == pytest.approx(width)


def test_the_values_of_two_lines_are_printed_with_their_ratio_below() -> None:
    """At the last length one has no value, and so there is no ratio."""
    said = texts_of(drawn(experiment_of(TIMES), "time", compared=COMPARED))
    assert {"1.0", "16", "0.50", "2.10×", "4.20×", "8.40×", "×"} <= set(said)
    assert "×" not in texts_of(drawn(experiment_of(TIMES), "rate", compared=COMPARED))
    assert {"50%", "25%", "12%"} <= set(texts_of(drawn(experiment_of(TIMES), "memory")))
    masks = experiment_of(TIMES, variants=(False, True))
    assert {"150%", "%"} <= set(texts_of(drawn(masks, "rate", "Flash2")))
    assert not {"1.00", "×"} & set(texts_of(drawn(many("A", "B", "C"), "time")))


def test_a_figure_speaks_only_the_languages_that_were_asked_for() -> None:
    said = texts_of(drawn(experiment_of(TIMES), "time", languages=["en"]))
    assert {"Forward time (ms)", "Pytorch: out of memory, N = 1024"} <= set(said)
    assert not any(ord(character) > 0x2E80 for character in "".join(said))


def guides_of(axes: Axes) -> list[list[float]]:
    """The values along each dotted line of what operations would take."""
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    dotted = [each for each in lines if to_hex(each.get_color()[0]) == GREY]
    return [list(each.get_segments()[0][:, 1]) for each in dotted]


def test_a_line_goes_through_the_values_with_their_intervals() -> None:
    forward, backward = drawn(experiment_of(TIMES), "time").axes
    line, bars = lines_of(forward.figure, "Flash2")[0], forward.collections[1]
    assert line.get_xydata().tolist() == [[128, 0.5], [256, 1], [512, 2], [1024, 4]]
    (path,) = bars.get_paths()  # with gaps
    assert path.vertices[:2].ravel().tolist() == pytest.approx([128, 0.495, 128, 0.505])
    assert len(path.vertices) == 3 * 4 and np.isnan(path.vertices[2::3, 1]).all()
    assert forward.get_ylim() == backward.get_ylim()  # so that the two can be compared
    without = drawn(experiment_of(TIMES, spread=None), "time").axes[0]
    assert len(without.collections) == len(guides_of(without)) == 2


def test_a_run_out_of_memory_is_marked_and_not_drawn_as_a_point() -> None:
    for quantity, panels in (("time", 2), ("memory", 1)):
        figure = drawn(experiment_of(TIMES), quantity)
        assert marks_of(figure)[:panels] == [1024] * panels
        assert "Pytorch: 記憶體不足 out of memory, N = 1024" in texts_of(figure)
        assert [line.get_xdata().max() for line in lines_of(figure, "Pytorch")] == [512] * panels


def test_an_implausible_value_is_marked_at_the_edge_and_moves_neither_axis_nor_line() -> None:
    times = {"Pytorch": [1.0, 2.0, 4.0, 8.0], "Flash2": [0.5, 1.0, 2.0, 1e-4]}
    told = "Flash2: 速率不合理 implausible rate, N = 1024"
    beyond = implausible(experiment_of(times), "Flash2", 1024)
    missing = experiment_of({**times, "Flash2": [0.5, 1.0, 2.0, "oom"]})
    for quantity in ("time", "rate", "memory"):
        figure, other = drawn(beyond, quantity), drawn(missing, quantity)
        for axes, same in zip(figure.axes, other.axes, strict=True):
            assert axes.get_ylim() == same.get_ylim()
            line, mark = (line for line in lines_of(figure, "Flash2") if line.axes is axes)
            assert list(line.get_xdata()) == [128, 256, 512]
            assert (mark.get_marker(), list(mark.get_xdata())) == ("x", [1024])
            assert list(mark.get_ydata()) == [np.clip(1e-4, *axes.get_ylim())]
        assert told in texts_of(figure)


def test_a_figure_of_nothing_but_failures_is_drawn_with_its_marks() -> None:
    figure = drawn(experiment_of({"Flash2": ["incorrect", "oom", "oom", "oom"]}), "rate")
    said = texts_of(figure)
    assert sorted({x for x in marks_of(figure) if x >= 128}) == [128, 256, 512, 1024]
    assert "Flash2: 結果錯誤 incorrect, N = 128" in said
    assert "Flash2: 記憶體不足 out of memory, N = 256–1024" in said
    numbers = {text for text in said if re.fullmatch(r"[\d.,]+", text)}
    assert numbers == {"128", "256", "512", "1024"}  # and none on the axis of values
    assert overlapping(figure) == clipped(figure) == []


def test_a_variant_keeps_the_colour_and_has_a_label_and_dashes_of_its_own() -> None:
    experiment = experiment_of(TIMES, variants=(False, True))
    figure = drawn(experiment, "rate", "Flash2")
    assert {"因果 Causal", "無遮罩 Full"} <= set(texts_of(figure))
    full, causal = lines_of(figure, "Flash2")[:2]
    assert full.get_color() == causal.get_color()
    assert full.is_dashed() != causal.is_dashed()
    assert full.get_markerfacecolor() != causal.get_markerfacecolor()
    assert {"Flash2 因果 Causal", "Pytorch 無遮罩 Full"} <= set(texts_of(drawn(experiment, "rate")))


def test_what_varies_along_with_the_experiment_stands_below_its_ticks() -> None:
    said = texts_of(drawn(experiment_of({"Flash2": [1, 2]}, [64, 128], of="emb_dim"), "time"))
    assert {"64\n16", "128\n32", "E", "d"} <= set(said)


def many(*names: str) -> Experiment:
    """So many implementations, all at different times."""
    return experiment_of({name: [1.0 + i] * 4 for i, name in enumerate(names)})


def colours_of(figure: Figure, experiment: Experiment) -> dict[str, str]:
    return {name: lines_of(figure, name)[0].get_color() for name in experiment.implementations}


def test_of_many_lines_the_emphasised_ones_stand_out() -> None:
    """Implementations with and without a mask, which are no bars."""
    names = ("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient")
    times = {name: [1.0 + i] * 4 for i, name in enumerate(names)}
    experiment = experiment_of(times, variants=(False, True))
    colours = colours_of(drawn(experiment, "time"), experiment)
    muting = dict(zip(names[2:], map(muted, COLOURS[2:]), strict=False))
    assert colours == {"Pytorch": COLOURS[0], "Flash2": COLOURS[1], **muting}
    all_of_few = colours_of(drawn(many(*names[:3]), "time"), many(*names[:3]))
    assert list(all_of_few.values()) == list(COLOURS[:3])


def test_a_label_stands_at_the_end_of_its_line_and_a_line_that_ends_early_has_its_marker() -> None:
    figure = drawn(experiment_of(TIMES), "memory")
    (axes,) = figure.axes
    labels = {text.get_text(): text.xy[1] for text in axes.texts}
    assert labels["Pytorch"] > labels["Flash2"]
    beside = [line for line in axes.lines if not line.get_clip_on() and len(line.get_xdata()) == 1]
    looks = looks_of(experiment_of(TIMES).plan["implementations"])
    assert [line.get_marker() for line in beside if line.get_marker() != "x"] == [
        looks["Pytorch"].marker
    ]


def test_where_lines_of_memory_coincide_they_are_multiples_of_the_least() -> None:
    experiment = experiment_of(
        {"Pytorch": [8, 20], "Flash2": [1, 2], "Flex": [1.1, 2.2]}, [128, 256]
    )
    together = set(texts_of(drawn(experiment, "memory", languages=["en"])))
    assert {"Peak memory as a multiple of the least", "Pytorch 10.0×", "Flex 1.10×"} <= together
    apart = set(texts_of(drawn(experiment, "memory", "Pytorch", "Flash2", languages=["en"])))
    assert {"Peak memory (MiB)", "Pytorch", "Flash2"} <= apart


def test_times_of_two_stand_beside_what_they_would_be_if_they_grew_as_the_operations() -> None:
    """From a length to eight times that one, the operations grow by 64."""
    times = {"Pytorch": [1, 2, 4, 8], "Flash2": [1, 1, 1, 1]}

    def guides(quantity: str, **options: Sequence[bool]) -> list[list[float]]:
        return guides_of(drawn(experiment_of(times, **options), quantity).axes[0])

    shares = [1 / 4**n for n in (3, 2, 1, 0)]
    assert guides("time") == [pytest.approx([last * share for share in shares]) for last in (8, 1)]
    assert guides("rate") == guides("memory") == guides("time", variants=(False, True)) == []
