"""The figures across experiments, and page one's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from figures.drawn import BOTH, experiment_of, marks_of, texts, texts_of, width_mm
from matplotlib.figure import Figure
from planted.experiments import SIZES, Planter
from planted.records import record_of

from flashlab.analysis.ceilings import Ceiling, read_ceilings
from flashlab.analysis.experiment import Experiment
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.figures.stage import draw_overview
from flashlab.figures.summary import draw_summary, longest_experiment
from flashlab.files import read_json, write_json
from flashlab.plan.published import CLAIMS

CEILINGS = {
    "device": "cpu",
    "matrix_product": {"float32": {"time(s)": 1e-3, "samples": [], "size": 1000}},
    "copy": {"time(s)": 0.02, "samples": [], "bytes": 10**9},
    "environment": {"device_name": "Abacus"},
}
"""2 TFLOP/s and 100 GB/s."""


def overview(folder: Path, *names: str, status: str = "ok") -> Path:
    """Draws the overview of one experiment with Pytorch and these implementations.

    Flash2 runs out of memory at the last length.
    """
    records = [
        record_of(
            attention_run(name, Shape(2, size, 4, 64, False), "float32", "cpu"),
            "oom" if (name, size) == ("Flash2", 1024) else status,
        )
        for name in ("Pytorch", *names)
        for size in SIZES
    ]
    plan = Planter(folder).write_plan(records)
    write_json(folder / "ceilings.json", CEILINGS)
    make_tables(folder, CLAIMS, folder / "ceilings.json", folder / "tables")
    languages = folder / "languages.json"
    write_json(languages, BOTH)
    draw_overview(
        [plan],
        folder / "tables",
        folder / "comparisons.csv",
        folder / "ceilings.json",
        languages,
        folder / "overview",
    )
    return folder / "overview"


def ids(folder: Path) -> list[str]:
    drawn: list[str] = read_json(folder / "drawn.json")
    assert {f"{name}.svg" for name in drawn} == {path.name for path in folder.glob("*.svg")}
    return drawn


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four implementations. To be read."""
    folder = tmp_path_factory.mktemp("overview")
    return overview(folder, "Flash2", "Flex", "Flash4")


def test_what_is_drawn_is_what_there_is_to_compare(of_four: Path, tmp_path: Path) -> None:
    assert ids(of_four) == ["summary"]
    of_two = overview(tmp_path / "a", "Flash2")
    assert ids(of_two) == ["summary", "speedups-seq_len"]
    assert ids(overview(tmp_path / "b", status="oom")) == []


# The summary


def test_the_summary_names_its_quantities_setting_and_implementations(of_four: Path) -> None:
    svg = of_four / "summary.svg"
    for said in (
        *("前向速率 Forward rate (GFLOP/s)", "反向速率 Backward rate (GFLOP/s)"),
        *("峰值記憶體 Peak memory (MiB)", "B = 2, H = 4, d = 16, 無遮罩 Full", "N", "1024"),
        *("Pytorch", "Flash2", "Flex", "記憶體不足 out of memory"),
    ):
        assert said in texts(svg)
    assert width_mm(svg) == pytest.approx(180, abs=0.1)


def summary(
    experiments: Sequence[Experiment], *emphasised: str, ceiling: Ceiling | None = None
) -> Figure:
    figure = draw_summary(experiments, emphasised, ceiling, ["en"])
    assert figure is not None
    return figure


def test_the_summary_names_in_its_legend_what_does_not_stand_out() -> None:
    names = ("Pytorch", "Flash2", "Flex", "Flash4", "SdpaMath", "SdpaCudnn")
    figure = summary([experiment_of({name: [1, 2, 3, 4] for name in names})], "Pytorch", "Flash2")
    said = Counter(texts_of(figure))
    assert [said[name] for name in names] == [3, 3, 1, 1, 1, 1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(names[2:])


def test_the_summary_marks_what_ran_out_of_memory_and_shows_how_much_there_is() -> None:
    rows = {"Pytorch": [1, 2, 3, "oom"], "Flash2": [1, 2, 3, 4]}
    experiment = experiment_of(rows)
    runs = [{**run, "device_name": "NVIDIA H200"} for run in experiment.runs]
    figure = summary([replace(experiment, runs=runs)])
    assert marks_of(figure)[-1] == 1024
    assert any(text.startswith("Device memory 14") for text in texts_of(figure))


def test_rates_stand_under_the_measured_ceiling_if_they_come_near_it() -> None:
    ceiling = read_ceilings(CEILINGS).matrix["float32"]
    near, far = experiment_of({"Pytorch": [1, 1, 1, 1]}), experiment_of({"Pytorch": [0.01] * 4})
    assert texts_of(summary([near], ceiling=ceiling)).count("Matrix product 2") == 2
    assert "Matrix product 2" not in texts_of(summary([far], ceiling=ceiling))


def test_experiments_that_go_on_from_one_another_are_one_line() -> None:
    short = experiment_of({"Pytorch": [1, 2], "Flash2": [1, 2]}, [128, 256])
    further = experiment_of({"Pytorch": [2, 3], "Flash2": [2, 3]}, [256, 512], name="long")
    apart = experiment_of({"Pytorch": [2, 3], "Flash2": [2, 3]}, [1024, 2048], name="apart")
    longest = longest_experiment([apart, short, further])
    assert longest.values == [128, 256, 512]
    assert len(longest.runs) == 6
