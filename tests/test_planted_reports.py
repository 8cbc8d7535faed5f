"""Planted records of benchmarks that are not attention get their tables, figures and reports.

What the reports say are golden texts.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from planted import ladder, training
from planted.sorting import REPORT
from report.reading import section

from flashlab.benchmarks.model import UnknownNameError
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import experiment_file
from flashlab.records import Record, read_record
from flashlab.report.render import write_page, write_report
from flashlab.runs import Run

# Sorting, which is only declared


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The results of the declared benchmark, in the folder that the tests run in. To be read."""
    with pytest.MonkeyPatch.context() as patch, REPORT.declared():
        patch.chdir(tmp_path_factory.mktemp("sorting"))
        yield REPORT.write(Path("results", "local"))


def test_tables_have_the_declared_columns_and_units(results: Path) -> None:
    with (results / "tables" / "both" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    last = [row for row in rows if (row["implementation"], row["items"]) == ("Radix", "8192")]
    assert [(row["metric"], row["value"], row["unit"], row["threads"]) for row in last] == [
        ("throughput", "256", "Mitem/s", "8"),
        ("scratch", "16", "KiB", "8"),
    ]
    assert last[0]["low"] and not last[1]["low"]


def test_each_quantity_has_a_figure_with_its_axis_in_both_languages(results: Path) -> None:
    for quantity, labels in (
        ("throughput", ("吞吐量", "Throughput (Mitem/s)")),
        ("scratch", ("暫存空間", "Scratch space (KiB)")),
    ):
        drawn = (results / "figures" / "items" / f"{quantity}.svg").read_text(encoding="utf-8")
        for expected in labels:
            assert expected in drawn
    strips = (results / "overview" / "strips.svg").read_text(encoding="utf-8")
    assert "吞吐量 Throughput" in strips and "暫存空間 Scratch space" in strips


def test_an_experiment_of_one_value_is_not_fixed_as_well(results: Path, tmp_path: Path) -> None:
    items, *_ = REPORT.config["experiments"]
    one = {**items, "cuda": {"items": [1024], "threads": 4}}
    report = replace(REPORT, config={**REPORT.config, "experiments": [one]})
    composed = report.compose(report.write(tmp_path, drawn=()))
    assert section(composed, "experiment-items").setting == "t = 4"


def test_a_figure_of_a_quantity_that_is_not_declared_is_an_error(
    results: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(results, tmp_path / "copy")
    file = experiment_file(copied, "items")
    planned = read_json(file)
    planned["figures"][0]["quantity"] = "energy"
    write_json(file, planned)
    with pytest.raises(UnknownNameError, match="energy is no quantity of sorting; there are"):
        REPORT.compose(copied)


def test_the_page_and_the_pdf_are_rendered_and_speak_of_no_other_benchmark(results: Path) -> None:
    config = results / "plan" / "config.json"
    write_page(config, results, None, Path("sorting.html"))
    text = re.sub(r"<[^>]+>", "", unescape(Path("sorting.html").read_text(encoding="utf-8")))
    assert "效能實驗報告：sorting" in text and "Scratch space (KiB)" in text
    assert not re.search("attention|seq_len|forward|注意力", text.lower())
    write_report(config, results, None, Path("sorting.pdf"))
    assert Path("sorting.pdf").read_bytes().startswith(b"%PDF")


# The ladder

DRAWN = {
    "clocks": ("整個程式的時間", "Kernel time"),
}


def test_the_parts_of_the_process_and_the_counters_along_sizes_are_drawn(tmp_path: Path) -> None:
    overview = ladder.ON_GPU.write(tmp_path) / "overview"
    drawn = {name: overview.joinpath(f"{name}.svg").read_text("utf-8") for name in DRAWN}
    for name, expected in DRAWN.items():
        assert all(each in drawn[name] for each in expected)


# Training


def test_a_record_keeps_its_curve_and_lacks_what_its_run_has_not(tmp_path: Path) -> None:
    home = training.REPORT.write(tmp_path, drawn=[])
    (path,) = home.glob("records/flash2-*-eager-*")
    run = Run.of(TRAINING, read_json(path)["record"]["run"])
    kept = read_record(path, run)
    assert kept.curves["loss"] == list(training.loss_of(run))
    assert "compile_time" not in kept.metrics


def test_what_was_measured_on_different_cards_is_a_doubt_of_each_comparison(
    tmp_path: Path,
) -> None:
    def on_two_cards(run: Run) -> Record:
        found = training.REPORT.record(run)
        card = f"GPU-{int(bool(run['compile']))}"
        return replace(found, environment={**found.environment, "gpu_uuid": card})

    home = replace(training.REPORT, record=on_two_cards).write(tmp_path, drawn=[])
    with (home / "comparisons.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    of = {row["compared"]: "cards_differ" in row["doubts"] for row in rows if row["value"]}
    assert of["compile"] and not of["implementations"]
