"""The figures across experiments, drawn from findings and tables made by hand."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.attention.shape import Shape
from flashlab.figures import draw_overview
from flashlab.figures.heat_map import ROWS_OF_A_PAGE, Cell, Row, cell_of, heat_map_pages
from flashlab.figures.panels import Panel, panels_of
from flashlab.figures.roofline import read_roofs
from flashlab.runs import Run
from flashlab.tables import write_tables

Build = Callable[..., dict[str, Any]]
SVG = "{http://www.w3.org/2000/svg}"
SIZES = (128, 256, 512, 1024)
CEILINGS = {
    "matrix_product": {"float32": {"rate(TFLOPs/s)": 2.0}},
    "copy": {"bandwidth(GB/s)": 100.0},
}


def texts(svg: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(svg).iter(f"{SVG}text")]


def speedup(name: str, ratios: dict[int, float], **keys: Any) -> dict[str, Any]:
    estimates = [
        {
            "value": value,
            "estimate": ratio,
            "low": ratio * 0.99,
            "high": ratio * 1.01,
            "verdict": "above" if ratio > 1.1 else "below" if ratio < 0.9 else "equal",
        }
        for value, ratio in ratios.items()
    ]
    return {
        "kind": keys.get("kind", "speedup"),
        "experiment": "seq_len",
        "subject": {
            "implementation": name,
            "baseline": "Pytorch",
            "mask": "full",
            **({"pass": keys["timed"]} if "timed" in keys else {}),
        },
        "reasons": keys.get("reasons", []),
        "evidence": {"estimates": estimates},
    }


def findings(*names: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        for timed in ("forward", "backward"):
            ratios = {size: size / 256 for size in SIZES[:-1]}
            reasons = [f"excluded: {name} full seq_len=1024: oom"]
            found.append(speedup(name, ratios, timed=timed, reasons=reasons))
        found.append(speedup(name, {size: 0.5 for size in SIZES}, kind="memory_ratio"))
    return found


@pytest.fixture
def overview(tmp_path: Path, planned: Build, record_of: Build, run: Run) -> Callable[..., Path]:
    """Draws the overview of one experiment with Pytorch and these implementations."""

    def drawn(
        *names: str, ceilings: bool = True, languages: tuple[str, ...] = ("zh_TW", "en")
    ) -> Path:
        records = [
            record_of(replace(run, implementation=name, shape=replace(Shape.of(run), seq_len=size)))
            for name in ("Pytorch", *names)
            for size in SIZES
        ]
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(planned(records)), encoding="utf-8")
        folder = tmp_path / "tables" / "seq_len"
        folder.mkdir(parents=True, exist_ok=True)
        write_tables(plan, *(folder / f"{name}.csv" for name in ("runs", "passes", "samples")))
        for name, document in {
            "findings": findings(*names),
            "ceilings": CEILINGS,
            "languages": languages,
        }.items():
            tmp_path.joinpath(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        draw_overview(
            [plan],
            tmp_path / "tables",
            tmp_path / "findings.json",
            tmp_path / "ceilings.json" if ceilings else None,
            tmp_path / "languages.json",
            tmp_path / "overview",
        )
        return tmp_path / "overview"

    return drawn


def ids(folder: Path) -> list[str]:
    drawn: list[str] = json.loads(folder.joinpath("drawn.json").read_text())
    assert {f"{name}.svg" for name in drawn} == {path.name for path in folder.glob("*.svg")}
    return drawn


def test_what_is_drawn_is_what_there_is_to_compare(overview: Callable[..., Path]) -> None:
    assert ids(overview("Flash2")) == ["summary", "roofline-float32"]
    assert ids(overview("Flash2", "Flex", "Flash4")) == [
        *("summary", "heat-map-1", "roofline-float32")
    ]


def test_without_ceilings_there_is_no_roofline_and_without_a_comparison_no_summary(
    overview: Callable[..., Path],
) -> None:
    assert ids(overview(ceilings=False)) == []


def test_the_summary_names_its_experiments_quantities_and_implementations(
    overview: Callable[..., Path],
) -> None:
    found = texts(overview("Flash2", "Flex") / "summary.svg")
    for said in ("調整", "Sweep", "前向", "Backward", "Peak memory", "N", "1024"):
        assert said in " ".join(found)
    assert {"Flash2實作 Flash2 kernel", "Flex實作 Flex kernel"} <= set(found)


def test_the_overview_speaks_only_the_languages_that_were_asked_for(
    overview: Callable[..., Path],
) -> None:
    folder = overview("Flash2", "Flex", "Flash4", languages=("en",))
    for svg in folder.glob("*.svg"):
        assert not any(ord(character) > 0x2E80 for character in "".join(texts(svg)))


def test_the_heat_map_has_a_number_for_each_shape_and_a_cross_for_none(
    overview: Callable[..., Path],
) -> None:
    found = texts(overview("Flash2", "Flex", "Flash4") / "heat-map-1.svg")
    assert [found.count(text) for text in ("0.500", "1.00", "2.00", "×")] == [6, 6, 6, 6]
    assert [text for text in found if text.startswith("N = ")] == [f"N = {n}" for n in SIZES]


def test_the_roofline_says_what_its_roofs_are(overview: Callable[..., Path]) -> None:
    found = " ".join(texts(overview("Flash2") / "roofline-float32.svg"))
    for said in ("Matrix product 2 TFLOP/s", "100 GB/s", "運算強度 Arithmetic intensity"):
        assert said in found


def test_roofs_meet_where_a_byte_brings_as_many_operations_as_the_rates_allow() -> None:
    roofs = read_roofs(CEILINGS, "float32")
    assert roofs is not None and roofs.ridge == pytest.approx(20.0)
    assert read_roofs(CEILINGS, "float16") is None


def panel(findings: list[dict[str, Any]], values: int = 4) -> Panel:
    runs = [{"seq_len": 128 * 2**i, "causal": False} for i in range(values)]
    plan = {"name": "seq_len", "sweep": "seq_len", "baseline": "Pytorch", "runs": runs}
    (found,) = panels_of([plan], findings)
    return found


def test_a_cell_has_the_findings_ratio_or_the_status_that_left_none() -> None:
    mine = panel(findings("Flash2"))
    assert cell_of(Row(mine, "full", 128), "Flash2", "forward") == Cell(0.5, True, "")
    assert cell_of(Row(mine, "full", 256), "Flash2", "forward") == Cell(1.0, False, "")
    assert cell_of(Row(mine, "full", 1024), "Flash2", "forward") == Cell(None, False, "oom")


def test_an_experiment_stays_on_one_page_of_the_heat_map() -> None:
    panels = [panel(findings("Flash2"), values=20) for _ in range(5)]
    pages = heat_map_pages(panels)
    assert [len(page) for page in pages] == [40, 40, 20]
    assert all(len(page) <= ROWS_OF_A_PAGE for page in pages)


def test_the_same_findings_give_the_same_bytes(overview: Callable[..., Path]) -> None:
    names = ("Flash2", "Flex", "Flash4")
    first = {path.name: path.read_bytes() for path in overview(*names).iterdir()}
    assert {path.name: path.read_bytes() for path in overview(*names).iterdir()} == first
