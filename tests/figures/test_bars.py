"""Alternatives, whole problems, steps and curves: what is not a line along sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from figures.drawn import drawn, experiment_of, implausible, lines_of, texts_of
from matplotlib.patches import Rectangle

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.experiment import Experiment, step_metric
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.figures.steps import LOOKS, draw_clocks, draw_steps


def training(**results: Any) -> Experiment:
    """Implementations at one seed, compiled and not."""
    rows = {name: [value] for name, value in results.items()}
    measured = {metric.name for metric in TRAINING.measured} - {"gpu_busy_time"}
    return experiment_of(
        rows, [1337], (False, True), of="seed", benchmark=TRAINING.having(measured)
    )


def test_alternatives_are_bars_with_their_values_or_what_became_of_them() -> None:
    experiment = training(Pytorch=120.0, Flash2="oom")
    figure = drawn(experiment, "time")
    (axes,) = figure.axes
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == [120.0, 180.0]
    said = texts_of(figure)
    assert said.count("× 記憶體不足 out of memory") == 2
    assert {"120", "180", "Pytorch", "Flash2", "未編譯 Eager", "編譯 Compiled"} <= set(said)


def test_an_implausible_value_stands_in_place_of_its_bar() -> None:
    experiment = implausible(training(Pytorch=120.0, Flash2=0.002), "Flash2", 1337)
    figure = drawn(experiment, "time")
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == [120, 180]
    said = texts_of(figure)
    assert {f"× 速率不合理 implausible rate ({value})" for value in ("0.00200", "0.00300")} <= set(
        said
    )


def test_the_bar_of_a_time_is_split_into_when_the_gpu_was_busy_and_idle() -> None:
    without = training(Pytorch=120.0, Flash2=80.0)
    assert "GPU 忙碌 GPU busy" not in texts_of(drawn(without, "time"))
    row = next(row for row in without.metrics if row["implementation"] == "Flash2")
    told = {**row, "metric": "gpu_busy_time", "value": 32.0}
    measured = replace(without, benchmark=TRAINING, metrics=[*without.metrics, told])
    figure = drawn(measured, "time")
    bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    whole, busy = (next(bar for bar in bars if bar.get_width() == width) for width in (80.0, 32.0))
    assert (busy.get_x(), busy.get_y()) == (whole.get_x(), whole.get_y())
    assert (whole.get_alpha() or whole.get_facecolor()[3]) < busy.get_facecolor()[3] == 1
    assert {"GPU 忙碌 GPU busy", "GPU 閒置 GPU idle", "80 未編譯 Eager"} <= set(texts_of(figure))


def test_whole_problems_stand_side_by_side_with_no_line_between_them() -> None:
    rows = {"Pytorch": [1.0, 2.0, "oom"], "Flash2": [3.0, 4.0, 5.0]}
    figure = drawn(experiment_of(rows, [1, 10, 28], of="case", benchmark=LADDER), "time")
    (line,) = lines_of(figure, "Flash2")
    assert line.get_xdata().tolist() == [0, 1, 2] and line.get_linestyle() == "None"
    expected = {"1", "10", "28", "測資 Test case t", "Pytorch: 記憶體不足 out of memory, t = 28"}
    assert expected <= set(texts_of(figure))


@pytest.mark.parametrize("verdict", LOOKS)
def test_a_step_is_a_bar_in_the_look_of_its_verdict(verdict: str) -> None:
    experiment = experiment_of({"First": [8.0], "Second": [2.0]}, [28], of="case", benchmark=LADDER)
    first, second = experiment.plan["implementations"]
    entries = [first, {**second, "previous": "First"}]
    experiment = replace(experiment, plan={**experiment.plan, "implementations": entries})
    row = {"experiment": experiment.name, "compared": IMPLEMENTATIONS, "variant": "", "value": 28}
    row |= {"metric": step_metric(experiment).name, "subject": "First", "reference": "Second"}
    # It is the time of the first step over that of the second: as good, and not inverted.
    row |= {"ratio": 4.0, "low": 3.99, "high": 4.01}
    comparisons = pd.DataFrame([{**row, "verdict": verdict}])
    figure = draw_steps(experiment, comparisons, ["en"])
    bar = figure.axes[0].patches[-1]
    assert isinstance(bar, Rectangle) and bar.get_x() + bar.get_width() == pytest.approx(4.0)
    other = Rectangle((0, 0), 1, 1, **LOOKS[verdict])
    assert (bar.get_facecolor(), bar.get_edgecolor()) == (
        *(other.get_facecolor(), other.get_edgecolor()),
    )
    assert {"t = 28", "1.00×", "4.00×  (×4.00)", "undecided"} <= set(texts_of(figure))


def test_a_step_has_a_mark_for_each_clock_and_its_times() -> None:
    experiment = experiment_of({"First": [8.0], "Second": [2.0]}, [28], of="case", benchmark=LADDER)
    first, second = experiment.plan["implementations"]
    entries = [first, {**second, "previous": "First"}]
    experiment = replace(experiment, plan={**experiment.plan, "implementations": entries})
    figure = draw_clocks(experiment, ["en"])
    assert figure is not None
    said = set(texts_of(figure))
    assert {"First", "Second", "t = 28 (ms)", "Kernel time"} <= said
    assert len([text for text in said if " / " in text]) == 2
    alone = LADDER.having({"kernel_time"})
    metrics = tuple(metric for metric in alone.metrics if metric.name != "host_time")
    only = replace(experiment, benchmark=replace(alone, metrics=metrics))
    assert draw_clocks(only, ["en"]) is None


def test_curves_are_drawn_step_by_step_with_their_differences_from_the_naive_one() -> None:
    experiment = training(Pytorch=1.0, Flash2=1.0)
    curves = {
        (*experiment.key_of(run), "loss"): [4.0, 3.0 + i, 2.0]
        for i, run in enumerate(experiment.runs)
    }
    figure = drawn(replace(experiment, curves=curves), "loss")
    upper, lower = ([list(line.get_ydata()) for line in axes.lines] for axes in figure.axes)
    assert upper == [[4.0, 3.0 + i, 2.0] for i in range(4)]
    assert lower[:3] == [[0.0, float(i), 0.0] for i in range(1, 4)]
    assert "Difference from Pytorch [Eager]" in " ".join(texts_of(figure))
