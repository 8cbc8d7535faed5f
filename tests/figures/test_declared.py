"""The figures of a benchmark that no stage knows: all that they show, it declares."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashlab.analysis.derive import write_findings
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Quantity
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.figures import draw_figures, draw_overview
from flashlab.records import Measurement
from flashlab.runs import Run

SVG = "{http://www.w3.org/2000/svg}"
SPEED = Quantity(
    "speed",
    "MB/s",
    "higher",
    exact=False,
    labels={"zh_TW": "速度", "en": "Speed"},
    logarithmic=False,
)
SIZE = Quantity("size", "kB", "lower", exact=True, labels={"zh_TW": "大小", "en": "Size"})
PACKING = Benchmark(
    name="packing",
    report="packing",
    parameters=(
        Parameter("level", "L", {"zh_TW": "等級", "en": "level"}),
        Parameter("window", "w", {"zh_TW": "視窗", "en": "window"}),
    ),
    metrics=(
        Metric("speed", SPEED, {"zh_TW": "壓縮速度", "en": "packing speed"}),
        Metric("size", SIZE, {"zh_TW": "壓縮後大小", "en": "packed size"}),
    ),
    measure="packing.measure",
)


@pytest.fixture
def folder(
    tmp_path: Path,
    record_of: Callable[..., Any],
    planned: Callable[..., Any],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The figures of four packers, each of them faster and better than the one before."""
    monkeypatch.setitem(BENCHMARKS, PACKING.name, PACKING)
    records = []
    for factor, name in ((1, "Plain"), (2, "Quick"), (3, "Quicker"), (4, "Quickest")):
        for level in (1, 2, 4):
            given = {"implementation": name, "level": level, "window": 16 * level}
            speeds = tuple(factor * (100 / level + i / 10) for i in range(12))
            metrics = {
                "speed": Measurement(speeds[6], speeds, "interval"),
                "size": Measurement(1000 / factor / level),
            }
            own = Run.of(PACKING, {**given, "dtype": "float32", "device": "cpu"})
            records.append(record_of(own, benchmark=PACKING.name, metrics=metrics))
    names = ["Plain", "Quick", "Quicker", "Quickest"]
    figures = [
        {"id": quantity, "quantity": quantity, "implementations": names, "supplement": False}
        for quantity in PACKING.quantities
    ]
    plan = planned(records, "levels", "level", figures)
    plan |= {"benchmark": PACKING.name, "baseline": "Plain"}
    plan_file, tables = tmp_path / "plan.json", tmp_path / "tables"
    plan_file.write_text(json.dumps(plan), encoding="utf-8")
    languages, found = tmp_path / "languages.json", tmp_path / "findings.json"
    languages.write_text('["zh_TW", "en"]')
    claims = root / "data" / "published" / "claims.yaml"
    write_tables(plan_file, tables / "levels")
    write_findings([plan_file], tables, claims, None, found)
    draw_figures(plan_file, tables, languages, tmp_path)
    draw_overview([plan_file], tables, found, None, languages, tmp_path)
    return tmp_path


def texts(svg: Path) -> str:
    nodes = ElementTree.parse(svg).iter(f"{SVG}text")
    return " | ".join("".join(node.itertext()) for node in nodes)


def test_the_figures_of_its_experiments_are_in_the_words_of_its_declaration(folder: Path) -> None:
    speed, size = texts(folder / "speed.svg"), texts(folder / "size.svg")
    for said in ("壓縮速度 Packing speed (MB/s)", "等級 Level L", "w = 16", "w = 64", "Quickest"):
        assert said in speed
    assert "壓縮後大小 Packed size (kB)" in size


def test_the_overview_compares_what_it_measures(folder: Path) -> None:
    drawn = json.loads(folder.joinpath("drawn.json").read_text())
    assert drawn == ["summary", "heat-map-1"]
    summary, heat_map = (texts(folder / f"{name}.svg") for name in drawn)
    for said in ("壓縮速度 Packing speed (MB/s)", "Packed size (kB)", "L (w = 16–64)"):
        assert said in summary
    assert "壓縮速度 Packing speed" in heat_map and "Packed size" not in heat_map
    assert "L = 4, w = 64" in heat_map
    assert heat_map.count("4.00") == 3  # above 1, as the higher speed is the better one
