"""Recorded datasets: kept from local records, or imported from the course's script's results."""

from __future__ import annotations

import json

from pdf import text_of
from planted.course import result_of, write_results
from planted.project import TINY, Project

from flashlab.benchmarks.attention.shape import Shape

NO_TORCH = 'raise ImportError("torch was imported to render a recorded dataset")\n'


def test_a_report_follows_a_kept_dataset_there_and_back_and_both_compare(project: Project) -> None:
    before, tiny = project.pdf.read_bytes(), project.folder / TINY[1]
    assert "measuredonthismachine" in text_of(project.pdf)
    project.make("freeze", "--config", "name=mine")
    whole = tiny.read_bytes()
    with project.config() as config:
        del config["experiments"][1:]
        config["experiments"][0]["figures"] = ["time"]
    torch = project.folder / "workflow" / "torch.py"  # found before the real one
    torch.write_text(NO_TORCH)
    assert "Measuring" not in project.make("report/lab5.pdf", "--config", "dataset=mine")
    torch.unlink()
    text = text_of(project.pdf)
    assert "data/mine" in text and "measuredonthismachine" not in text

    few = tiny.read_bytes()
    tiny.write_bytes(whole)
    assert project.plan() == {"Writing report/lab5.pdf"}
    project.make("report/lab5.pdf")
    assert project.pdf.read_bytes() == before

    tiny.write_bytes(few)
    for one in ("results/local", "mine"):  # the first with more records than this call plans
        sides = ("report/compare.pdf", "--config", f"compare=[{one},local]")
        assert "Measuring" not in project.make(*sides)
    found = json.loads((project.folder / "results/compare/comparison.json").read_text("utf-8"))
    assert [side["name"] for side in found["sides"]] == ["mine", "local"]
    both = [row for row in found["comparisons"] if row["compared"] == "dataset"]
    assert {row["verdict"] for row in both} == {"equal"}  # the very same records
    assert project.folder.joinpath("report", "compare.pdf").read_bytes().startswith(b"%PDF")
    assert "Nothing to be done" in project.snakemake("--dry-run", *sides).stdout


def test_what_cannot_be_told_is_asked_once_by_a_table_beside_the_files(project: Project) -> None:
    """Flash2 at B 32, N 256 without a mask, and at B 16, N 512 with one, are the same numbers."""
    folder = project.folder / "ours"
    shapes = [Shape(32, 256, 32, 2048, False), Shape(16, 512, 32, 2048, True)]
    runs = {
        f"{place} 結果 {{1}}.json": ("Flash2", s, result_of("Flash2", s, 1e-3 + place / 1e5, 2e-3))
        for place, s in enumerate(shapes)
    }
    write_results(folder, runs)
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
