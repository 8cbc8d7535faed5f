"""The figures across experiments that are drawn."""

from __future__ import annotations

from pathlib import Path

from figures.drawn import BOTH
from planted.experiments import SIZES, Planter
from planted.records import record_of

from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.figures.stage import draw_overview
from flashlab.files import read_json, write_json


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
    make_tables(folder, None, folder / "tables")
    languages = folder / "languages.json"
    write_json(languages, BOTH)
    draw_overview(
        [plan],
        folder / "tables",
        folder / "comparisons.csv",
        languages,
        folder / "overview",
    )
    return folder / "overview"


def ids(folder: Path) -> list[str]:
    drawn: list[str] = read_json(folder / "drawn.json")
    assert {f"{name}.svg" for name in drawn} == {path.name for path in folder.glob("*.svg")}
    return drawn


def test_what_is_drawn_is_what_there_is_to_compare(tmp_path: Path) -> None:
    assert ids(overview(tmp_path / "of four", "Flash2", "Flex", "Flash4")) == ["strips", "longest"]
    assert ids(overview(tmp_path / "a", "Flash2")) == ["speedups-seq_len"]
    assert ids(overview(tmp_path / "b", status="oom")) == []
