"""Dots, bars, a curve, the figures across experiments, and how all of them look as files."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures.drawn import BOTH, Results, assert_legible, dataset_of, drawn, sweep_of, texts_of
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from planted import ladder, training
from story.breaking import counted

from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.devices import find_device
from flashlab.figures.stage import across
from flashlab.figures.style import COLOURS, GREY, MARKERS, PALE, dark, looks_of, save
from flashlab.story.ladder import ladder_of

TIMES = {
    **{"Pytorch": [0.0972, 0.578, 1.83], "Flash2": [0.0234, 0.136, 0.46]},
    **{"Flex": [0.03, 0.124, "incorrect"], "Flash4": [0.0266, 0.117, 0.346]},
    "FlashLab": [0.0181, 0.116, 0.306],
}
THREE = (128, 512, 1024)


def test_every_time_of_many_is_printed_beside_its_dot_bold_near_the_best() -> None:
    figure = drawn(sweep_of(TIMES, THREE), "time", languages=["en"])
    first, second, third = figure.axes
    assert first.get_title() == "N = 128 (ms)"
    assert [label.get_text() for label in first.get_yticklabels()] == list(TIMES)
    weights = {(text.get_text(), text.get_fontweight()) for text in second.texts}
    # 0.116 and 0.117 are within the margin of one another, 0.124 is not.
    assert {("0.12", "bold"), ("0.12", "normal"), ("0.58", "normal")} <= weights
    crosses = [line.get_ydata().tolist() for line in third.lines if line.get_marker() == "x"]
    assert crosses == [[2.5]]
    assert {"Forward", "Backward", "Flex: incorrect"} <= set(texts_of(figure))
    for names, variants in (([*TIMES], (False, True)), ([*TIMES][:3], (False,))):
        lines = drawn(sweep_of({name: TIMES[name] for name in names}, THREE, variants), "time")
        assert len(lines.axes) == 2


def test_alternatives_are_bars_split_by_when_the_gpu_was_busy(tmp_path: Path) -> None:
    """Of Flash2's 172 ms it was for 40%; two failed when they were compiled."""
    data = training.REPORT.dataset(tmp_path)
    measured = {metric.name for metric in TRAINING.measured} - {"gpu_busy_time"}
    values = data.values.drop("gpu_busy_time", level="metric")
    whole = replace(data, benchmark=TRAINING.having(measured), values=values)
    busy = {"GPU 忙碌 GPU busy", "GPU 閒置 GPU idle"}
    for of, is_split in ((whole, False), (data, True)):
        figure = drawn(of.sweeps[0], "time")
        bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
        widths = {round(float(bar.get_width()), 1) for bar in bars}
        assert {507.0, 245.0, 172.0, 188.0} <= widths and (68.8 in widths) == is_split
        said = {*texts_of(figure)}
        assert {"507", "172", "× 記憶體不足 out of memory", "× 執行錯誤 error"} <= said
        assert not {"245", "188"} & said
        assert busy <= said if is_split else {"未編譯 Eager", "編譯 Compiled"} <= said - busy


def test_curves_are_drawn_with_their_differences_from_the_naive_one(tmp_path: Path) -> None:
    figure = drawn(training.REPORT.dataset(tmp_path).sweeps[0], "loss", "Pytorch", "SdpaEfficient")
    upper, lower = ([list(line.get_ydata())[:2] for line in axes.lines] for axes in figure.axes)
    assert upper == [[4.2, 4.18], [4.2, 4.18], [4.7, 4.68]]  # Pytorch's compiled, too
    assert lower[:2] == [pytest.approx([0, 0]), pytest.approx([0.5, 0.5])]
    assert "與 Pytorch [未編譯] 之差 Difference from Pytorch [Eager]" in texts_of(figure)


# Across experiments

NAIVE = [30.0, 60, 120, 240]
OF_TWO: Results = {"Pytorch": NAIVE, "Flash2": [n / 4 for n in NAIVE]}
OF_FOUR: Results = {**OF_TWO, "Flex": NAIVE, "Flash4": NAIVE}


def overview(results: Results, *arguments: Any, **options: Any) -> dict[str, Figure]:
    found = across(dataset_of(results, *arguments, **options), BOTH)
    return {name: assert_legible(figure) for name, figure in found}


def test_what_is_drawn_is_what_there_is_to_compare() -> None:
    for results, name in ((OF_TWO, "speedups-seq_len"), (OF_FOUR, "strips")):
        assert [*overview(results, variants=[False, True])] == [name]
        assert not overview({each: ["oom"] * 4 for each in results})


def test_a_row_has_the_speed_of_each_pass_and_the_total_hollow_where_undecided() -> None:
    figure = overview({"Pytorch": NAIVE, "Flash2": [30.3, 15.0, 30, 60]})["speedups-seq_len"]
    axes = figure.axes[0]
    assert [each.get_text() for each in axes.texts if each.get_weight() == "bold"] == ["4.00×"] * 9
    points = [each for each in axes.collections if isinstance(each, PathCollection)]
    assert len(points) == 3
    for each in points:
        assert each.get_offsets()[:, 0].tolist() == pytest.approx([30 / 30.3, 4, 4, 4])
        assert (each.get_facecolors()[:, :3].min(axis=1) < 1).tolist() == [False, True, True, True]
    assert {"N", "128", "1024", "4.00×", "25%", "前向\nForward", "1×"} <= set(texts_of(figure))


def test_a_strip_has_a_tick_for_each_setting_and_prints_the_median_and_the_worst() -> None:
    times = {"Pytorch": [10.0, 20, 36], "Flash2": [1.0, 2, 8], "Flash4": [1.0, 2.5, 4]}
    figure = overview(times, THREE)["strips"]
    first, memory = figure.axes[0], figure.axes[-1]
    rows = [label.get_text() for label in first.get_yticklabels()]
    assert rows == ["Flash2", "Flash4", "Pytorch"]
    ticks = first.collections[0].get_offsets().tolist()
    shares = [sorted(x for x, at in ticks if at == y) for y in (0.5, 1.5, 2.5)]
    expected = ([50, 100, 100], [80, 100, 100], [10, 10, 11.1])
    assert shares == [pytest.approx(each, rel=0.01) for each in expected]
    numbers = [text.get_text() for text in first.texts]
    assert numbers == ["中位\nmedian", "100", "100", "10", "最差\nworst", "50", "80", "10"]
    assert {"1.00×", "2.00×", "10.0×"} <= {text.get_text() for text in memory.texts}


def test_a_ladder_has_its_times_by_every_clock_and_the_shares_of_limits(tmp_path: Path) -> None:
    device, data = find_device("NVIDIA H200"), ladder.ON_GPU.dataset(tmp_path / "gpu")
    found, d = dict(across(data, ["en"])), ladder_of(data)
    assert list(found) == ["clocks"] and device and d  # of two counted steps there is no profile
    names = {text.rsplit(" ", 1)[0] for text in texts_of(assert_legible(found["clocks"]))}
    assert {"Kernel time", "Time of the whole process"} <= names
    rate = device.issue_rate / 1e3
    shares = {"GlobalMemory": (0.1, 8e12), "SharedTiles": (0.7, 1e12), "Padded": (0.5, 1e12)}
    counts = {
        name: {"instructions": share * rate * d.kernels[name], "global_load_bytes": loads}
        for name, (share, loads) in shares.items()
    }
    left, right = assert_legible(dict(across(counted(data, counts), ["en"]))["profile"]).axes
    assert [round(y) for y in left.lines[0].get_ydata()] == [10, 70, 50]
    assert {"70", "60%", "device limit", "issue"} <= {text.get_text() for text in left.texts}
    lines = {tuple(round(float(y), 3) for y in line.get_ydata()) for line in right.lines[:3]}
    assert (1.0, 0.125, 0.125) in lines
    problems = texts_of(drawn(data.sweeps[0], "rate"))  # side by side
    assert {"10", "28", "t"} <= {*problems}
    assert not [*across(ladder.SIMULATED.dataset(tmp_path / "simulated"), ["en"])]


# Colours that are told apart, and text that stays text


def luminance(shade: str) -> float:
    """That of a colour, of white 1."""
    parts = np.array(to_rgb(shade))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2127, 0.7152, 0.0722])


def test_implementations_are_told_apart_by_lightness_alone_and_by_markers() -> None:
    """Whoever sees which colours; many have shades of their own, and texts have contrast."""
    lightness = sorted(116 * np.cbrt(luminance(shade)) - 16 for shade in COLOURS)
    assert min(b - a for a, b in itertools.pairwise(lightness)) > 7
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS)
    looks = looks_of({str(style): style for style in range(2 * len(COLOURS))})
    assert len({look.shade for look in looks.values()}) == len(looks)
    least = {**{dark(shade): 4.5 for shade in COLOURS}, GREY: 4.5, PALE: 2.3}
    for shade, contrast in least.items():
        assert 1.05 / (luminance(shade) + 0.05) > contrast, shade


def test_a_point_says_what_it_stands_for_in_the_file(tmp_path: Path) -> None:
    for quantity, panels, value in (("time", 2, "0.46 ms (0.46–0.46)"), ("memory", 1, "0.460 MiB")):
        times = {"Pytorch": [1, 2, 3, "oom"], "Flash2": [0.5, 0.25, 0.46, 4]}
        save(drawn(sweep_of(times), quantity), tmp_path / "figure.svg")
        found = re.findall("<title>(.*?)</title>", (tmp_path / "figure.svg").read_text("utf-8"))
        assert len(found) == 8 * panels
        assert found.count(f"Flash2, N = 512: {value}") == panels
        assert found.count("Pytorch, N = 1024: oom") == panels


def test_a_character_that_the_fonts_lack_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserWarning, match="128640"):
        save(drawn(sweep_of({"Fl🚀sh": [1, 2, 3, 4]}), "time"), tmp_path / "time.svg")
