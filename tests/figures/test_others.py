"""Dots, bars, a curve, and the figures across experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from figures.drawn import BOTH, Results, assert_legible, dataset_of, drawn, sweep_of, texts_of
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from planted import ladder
from story.breaking import counted

from flashlab.analysis.frames import Dataset
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.devices import find_device
from flashlab.figures.stage import across
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


def training(**results: Any) -> Dataset:
    """Implementations at one seed, compiled and not."""
    measured = {metric.name for metric in TRAINING.measured} - {"gpu_busy_time"}
    rows, benchmark = {name: [value] for name, value in results.items()}, TRAINING.having(measured)
    return dataset_of(rows, [1337], (False, True), of="seed", benchmark=benchmark)


def test_alternatives_are_bars_whose_ends_are_printed_split_by_when_the_gpu_was_busy() -> None:
    data = training(Pytorch=120.0, Flash2=40.0, Flex="oom")
    values = data.values.copy()
    values["seed", "compile=false", "gpu_busy_time", "Flash2", 1337] = 32.0
    split = replace(data, benchmark=TRAINING, values=values.sort_index())
    busy = {"GPU 忙碌 GPU busy", "GPU 閒置 GPU idle"}
    for of, is_split in ((data, False), (split, True)):
        figure = drawn(of.sweeps[0], "time")
        bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
        assert {bar.get_width() for bar in bars} >= {120.0, 180.0, 40.0, 60.0}
        assert (32.0 in {bar.get_width() for bar in bars}) == is_split
        said = texts_of(figure)
        assert said.count("× 記憶體不足 out of memory") == 2
        assert {"180", "Pytorch", "Flash2"} <= {*said} and not {"120", "60", "60.0"} & {*said}
        assert busy <= {*said} if is_split else {"未編譯 Eager", "編譯 Compiled"} <= {*said} - busy


def test_curves_are_drawn_with_their_differences_from_the_naive_one(tmp_path: Path) -> None:
    data = replace(training(Pytorch=1.0, Flash2=1.0), folder=tmp_path)
    runs = data.runs.reset_index().drop(columns=["variant", "at"])
    rows = [
        {**row, "process": process, "metric": "loss", "index": step, "value": value + 9 * process}
        for number, row in enumerate(runs.to_dict("records"))
        for process in (0, 1)  # of which the first counts
        for step, value in enumerate([4.0, 3.0 + number, 2.0])
    ]
    folder = tmp_path / "tables" / "seed"
    folder.mkdir(parents=True)
    pd.DataFrame(rows).to_csv(folder / "curves.csv", index=False)
    figure = drawn(data.sweeps[0], "loss")
    upper, lower = ([list(line.get_ydata()) for line in axes.lines] for axes in figure.axes)
    first = runs.implementation.tolist().index("Pytorch")
    assert sorted(upper) == [[4.0, 3.0 + number, 2.0] for number in range(4)]
    others = sorted(n - first for n in range(4) if n != first)
    assert sorted(y[1] for y in lower if len(y) == 3) == others
    assert "與 Pytorch [未編譯] 之差 Difference from Pytorch [Eager]" in texts_of(figure)


# Across experiments

NAIVE = [30.0, 60, 120, 240]
OF_TWO: Results = {"Pytorch": NAIVE, "Flash2": [n / 4 for n in NAIVE]}
FAILED: Results = {name: ["oom"] * 4 for name in OF_TWO}


def overview(results: Results, *arguments: Any, **options: Any) -> dict[str, Figure]:
    found = across(dataset_of(results, *arguments, **options), BOTH)
    return {name: assert_legible(figure) for name, figure in found}


@pytest.mark.parametrize(
    ("results", "variants", "expected"),
    [
        (OF_TWO, [False], ["speedups-seq_len"]),
        (OF_TWO, [False, True], ["speedups-seq_len"]),
        (FAILED, [False], []),
        ({**OF_TWO, "Flex": NAIVE, "Flash4": NAIVE}, [False], ["strips"]),
        ({**FAILED, "Flex": ["oom"] * 4, "Flash4": ["oom"] * 4}, [False], []),
    ],
)
def test_what_is_drawn_is_what_there_is_to_compare(
    results: Results, variants: list[bool], expected: list[str]
) -> None:
    assert list(overview(results, variants=variants)) == expected


def test_a_row_has_the_speed_of_each_pass_and_the_total_hollow_where_undecided() -> None:
    figure = overview({"Pytorch": NAIVE, "Flash2": [30.3, 15.0, 30, 60]})["speedups-seq_len"]
    points = [each for each in figure.axes[0].collections if isinstance(each, PathCollection)]
    assert len(points) == 3
    for each in points:
        assert each.get_offsets()[:, 0].tolist() == pytest.approx([30 / 30.3, 4, 4, 4])
        is_hollow = [face[:3].tolist() == [1, 1, 1] for face in each.get_facecolors()]
        assert is_hollow == [True] + [False] * (len(is_hollow) - 1)
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
    counts = {
        name: {"instructions": share * rate * d.kernels[name], "global_load_bytes": loads}
        for name, share, loads in (
            *(("GlobalMemory", 0.1, 8e12), ("SharedTiles", 0.7, 1e12), ("Padded", 0.5, 1e12)),
        )
    }
    profile = assert_legible(dict(across(counted(data, counts), ["en"]))["profile"])
    left, right = profile.axes
    assert [round(y) for y in left.lines[0].get_ydata()] == [10, 70, 50]
    assert {"70", "60%", "device limit", "issue"} <= {text.get_text() for text in left.texts}
    lines = {tuple(round(float(y), 3) for y in line.get_ydata()) for line in right.lines[:3]}
    assert (1.0, 0.125, 0.125) in lines
    assert not [*across(ladder.SIMULATED.dataset(tmp_path / "simulated"), ["en"])]
