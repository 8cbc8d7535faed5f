"""Recorded datasets: kept from local records, or imported from the course's script's results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pdf import text_of
from planted.course import result_of, write_results

from flashlab.benchmarks.attention.shape import Shape

NO_TORCH = 'raise ImportError("torch was imported to render a recorded dataset")\n'


@pytest.fixture(scope="module")
def frozen(copy_finished: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The finished folder with one experiment left, whose records are kept as data/mine."""
    project = copy_finished(tmp_path_factory.mktemp("frozen") / "frozen", short_report=True)
    with project.config() as config:
        del config["experiments"][1:]
    project.make("report/lab5.pdf")
    project.make("freeze", "--config", "name=mine")
    return project


def test_a_dataset_is_compared_with_what_is_measured_here(frozen: Any) -> None:
    sides = ("--config", "compare=[mine,local]")
    assert "Measuring" not in frozen.make("report/compare.pdf", *sides)
    found = json.loads((frozen.folder / "results/compare/comparison.json").read_text("utf-8"))
    assert [side["name"] for side in found["sides"]] == ["mine", "local"]
    both = [row for row in found["comparisons"] if row["compared"] == "dataset"]
    assert {row["verdict"] for row in both} == {"equal"}  # the very same records
    assert frozen.folder.joinpath("report", "compare.pdf").read_bytes().startswith(b"%PDF")
    again = frozen.snakemake("--dry-run", "report/compare.pdf", *sides)
    assert "Nothing to be done" in again.stdout


def test_the_report_follows_the_dataset_there_and_back_and_needs_no_torch(frozen: Any) -> None:
    assert "measuredonthismachine" in text_of(frozen.pdf)
    before = frozen.pdf.read_bytes()
    torch = frozen.folder / "workflow" / "torch.py"  # found before the real one
    torch.write_text(NO_TORCH)
    said = frozen.make("report/lab5.pdf", "--config", "dataset=mine")
    torch.unlink()
    assert "Measuring" not in said
    text = text_of(frozen.pdf)
    assert "data/mine" in text and "measuredonthismachine" not in text
    assert frozen.plan() == {"Writing report/lab5.pdf"}
    frozen.make("report/lab5.pdf")
    assert frozen.pdf.read_bytes() == before


# Results of the course's script


def test_what_cannot_be_told_is_asked_once_by_a_table_beside_the_files(project: Any) -> None:
    """Flash2 at B 32, N 256 without a mask, and at B 16, N 512 with one, are the same numbers."""
    folder = project.folder / "ours"
    shapes = [Shape(32, 256, 32, 2048, False), Shape(16, 512, 32, 2048, True)]
    runs = {f"{i} 結果 {{1}}.json": ("Flash2", s, result_of("Flash2", s, 1e-3 + i / 1e5, 2e-3))
            for i, s in enumerate(shapes)}  # fmt: skip
    write_results(folder, runs, "")
    table = folder / "runs.csv"
    told = table.read_text()
    table.unlink()
    asked = ("records", "--config", "import=ours")
    project.snakemake("--dry-run", *asked, config=())
    assert not table.exists()
    done = project.snakemake("--cores", "1", *asked, config=())
    assert done.returncode != 0 and "fill in each ? of" in done.stdout
    assert "1 結果 {1}.json,Flash2,?,?,?,?,?," in table.read_text()
    table.write_text(told)
    assert project.make(*asked, config=()).count("Importing") == 2
