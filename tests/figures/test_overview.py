"""The figures across experiments, drawn from findings and tables made by hand."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figures.drawn import SVG, texts, width_mm

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Evidence, Finding
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures import draw_overview
from flashlab.figures.comparisons import Comparisons, compare
from flashlab.figures.heat_map import (
    ROWS_OF_A_PAGE,
    draw_heat_map,
    heat_map_blocks,
    heat_map_pages,
)
from flashlab.figures.roofline import read_roofs
from flashlab.figures.style import drawing
from flashlab.runs import Run

Build = Callable[..., Any]
SIZES = (128, 256, 512, 1024)
CEILINGS = {
    "device": "cpu",
    "matrix_product": {"float32": {"time(s)": 1e-3, "samples": [], "size": 1000}},
    "copy": {"time(s)": 0.02, "samples": [], "bytes": 10**9},
    "environment": {},
}


def comparison(
    name: str, metric: str, ratios: dict[int, float], kind: str = "comparison"
) -> Finding:
    """A finding with these ratios by sequence length."""
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
    subject = {"implementation": name, "baseline": "Pytorch", "metric": metric}
    return Finding(
        kind=kind,
        experiment="seq_len",
        device="Abacus",
        subject={**subject, "variant": {"causal": False}},
        verdict="mixed",
        evidence=Evidence("tables/seq_len/samples.csv", {}, "by hand", 12, estimates),
    )


def findings(*names: str, missing: int = 1024) -> list[Finding]:
    """Ratios of these implementations at all sizes but one; of memory at all, on two sides."""
    found = []
    for name in names:
        ratios = {size: size / 256 for size in SIZES if size != missing}
        for metric in ("forward_time", "backward_time"):
            found.append(comparison(name, metric, ratios))
        for sizes, ratio in ((SIZES[:2], 2.0), (SIZES[2:], 0.5)):
            memory = dict.fromkeys(sizes, ratio)
            found.append(comparison(name, "peak_memory", memory, "exact_comparison"))
    return found


@pytest.fixture
def overview(
    tmp_path: Path, planned: Build, record_of: Build, counters_of: Build, run: Run
) -> Callable[..., Path]:
    """Draws the overview of one experiment with Pytorch and these implementations."""

    def drawn(
        *names: str,
        ceilings: bool = True,
        languages: tuple[str, ...] = ("zh_TW", "en"),
        counted: int = 0,
    ) -> Path:
        records = [
            record_of(
                Run.of(
                    ATTENTION,
                    run.to_json()
                    | {"implementation": name, "seq_len": size}
                    | ({"device": "cuda"} if counted else {}),
                ),
                "oom" if (name, size) == ("Flash2", 1024) else "ok",
            )
            for name in ("Pytorch", *names)
            for size in SIZES
        ]
        plan = tmp_path / "plan.json"
        counters = [counters_of(record) for record in records[:counted]]
        plan.write_text(json.dumps(planned(records, counters=counters)), encoding="utf-8")
        write_tables(plan, tmp_path / "tables" / "seq_len")
        for name, document in {
            "findings": [finding.to_json() for finding in findings(*names)],
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
    folder = overview("Flash2", "Flex", "Flash4")
    assert ids(folder) == ["summary", "heat-map-1", "roofline-float32"]
    # Each cell names the run that it shows.
    cells = folder.joinpath("heat-map-1.svg").read_text(encoding="utf-8")
    assert len(set(re.findall('"implementation:Flex:forward_time=([^:]+):', cells))) == len(SIZES)


def test_without_ceilings_there_is_no_roofline(overview: Callable[..., Path]) -> None:
    assert ids(overview(ceilings=False)) == ["summary"]


def test_where_nothing_was_measured_nothing_is_drawn(
    tmp_path: Path, planned: Build, record_of: Build, run: Run
) -> None:
    plan, tables = tmp_path / "plan.json", tmp_path / "tables"
    plan.write_text(json.dumps(planned([record_of(run, "oom")])), encoding="utf-8")
    write_tables(plan, tables / "seq_len")
    for name, document in {"findings": [], "ceilings": CEILINGS, "languages": ["en"]}.items():
        tmp_path.joinpath(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    inputs = [tmp_path / f"{name}.json" for name in ("findings", "ceilings", "languages")]
    draw_overview([plan], tables, *inputs, tmp_path / "overview")
    assert ids(tmp_path / "overview") == []


def test_the_summary_names_its_quantities_setting_and_implementations(
    overview: Callable[..., Path],
) -> None:
    svg = overview("Flash2", "Flex") / "summary.svg"
    for said in (
        *("前向速率 Forward rate (TFLOP/s)", "反向速率 Backward rate (TFLOP/s)"),
        *("峰值記憶體 Peak memory (MiB)", "B = 2, H = 4, d = 16, 完整 Full", "N", "1024"),
        *("Pytorch", "Flash2", "Flex", "×", "記憶體不足 out of memory"),
    ):
        assert said in texts(svg)
    assert width_mm(svg) == pytest.approx(174, abs=0.1)


def test_the_summary_names_in_its_legend_what_it_draws_in_grey(
    overview: Callable[..., Path],
) -> None:
    svg = overview("Flash2", "Flex", "Flash4", "SdpaMath", "SdpaCudnn") / "summary.svg"
    found = texts(svg)
    assert [found.count(name) for name in ("Pytorch", "Flex", "Flash4", "SdpaMath")] == [3, 1, 1, 1]


def test_the_overview_speaks_only_the_languages_that_were_asked_for(
    overview: Callable[..., Path],
) -> None:
    folder = overview("Flash2", "Flex", "Flash4", languages=("en",))
    for svg in folder.glob("*.svg"):
        assert not any(ord(character) > 0x2E80 for character in "".join(texts(svg)))


def test_the_heat_map_has_a_number_for_each_size_or_tells_why_it_has_none(
    overview: Callable[..., Path],
) -> None:
    found = texts(overview("Flash2", "Flex", "Flash4") / "heat-map-1.svg")
    assert [found.count(text) for text in ("0.500", "1.00", "2.00")] == [6, 6, 6]
    assert found.count("×") == 2  # Flash2 ran out of memory
    assert found.count("–") == 4  # the others have nothing to be compared with
    assert [text for text in found if text.startswith("N = ")] == [f"N = {n}" for n in SIZES]


def test_the_roofline_says_what_its_roofs_are(overview: Callable[..., Path]) -> None:
    found = " ".join(texts(overview("Flash2") / "roofline-float32.svg"))
    for said in ("Matrix product 2 TFLOP/s", "100 GB/s", "運算強度 Arithmetic intensity"):
        assert said in found


def faces(svg: Path, implementation: str) -> Counter[bool]:
    """How many groups of an implementation's points are hollow."""
    groups = [
        node
        for node in ElementTree.parse(svg).iter(f"{SVG}g")
        if node.get("id", "").startswith(f"implementation:{implementation}")
    ]
    looks = [[use.get("style", "") for use in group.iter(f"{SVG}use")] for group in groups]
    return Counter("fill: #ffffff" in look[0] for look in looks if look)


def test_points_by_counted_bytes_are_filled_and_those_by_the_least_bytes_hollow(
    overview: Callable[..., Path],
) -> None:
    svg = overview("Flash2", counted=2) / "roofline-float32.svg"
    assert faces(svg, "Pytorch") == {True: 2, False: 2}  # in both panels
    assert faces(svg, "Flash2") == {True: 2}
    found = " ".join(texts(svg))
    assert "counted bytes" in found and "least bytes" in found


def test_where_nothing_was_counted_the_roofline_does_not_speak_of_it(
    overview: Callable[..., Path],
) -> None:
    svg = overview("Flash2") / "roofline-float32.svg"
    assert faces(svg, "Pytorch") == faces(svg, "Flash2") == {True: 2}
    assert "counted bytes" not in " ".join(texts(svg))


def test_roofs_meet_where_a_byte_brings_as_many_operations_as_the_rates_allow() -> None:
    roofs = read_roofs(CEILINGS, "float32")
    assert roofs is not None and roofs.ridge == pytest.approx(20.0)
    assert read_roofs(CEILINGS, "float16") is None


def compared(experiments: int, values: int) -> Comparisons:
    """Experiments with so many values of the sequence length, in which Flash2 is compared."""
    sweeps = []
    for number in range(experiments):
        where = {"dtype": "float16", "device": "cuda"}
        run = {
            **where,
            "batch_size": 1,
            "num_heads": 1,
            "emb_dim": 64,
            "causal": False,
            "head_dim": 64,
        }
        rows = [
            {
                **run,
                "implementation": name,
                "seq_len": 128 * 2**i,
                "status": "ok",
                "record": f"{name}-{i}.json",
            }
            for name in ("Pytorch", "Flash2")
            for i in range(values)
        ]
        entries = [
            {"name": name, "style": i, "label": {"en": name}}
            for i, name in enumerate(("Pytorch", "Flash2"))
        ]
        plan = {
            "name": f"e{number}",
            "title": {"en": f"Sweep e{number}"},
            "sweep": "seq_len",
            "baseline": "Pytorch",
            "implementations": entries,
        }
        sweeps.append(Sweep(plan, ATTENTION, rows, []))
    found = comparison("Flash2", "forward_time", {128: 0.5, 256: 1.0})
    return compare(sweeps, [replace(found, experiment=sweep.name) for sweep in sweeps])


def test_a_comparison_has_the_ratio_of_the_finding_and_whether_it_is_decided() -> None:
    found = compared(experiments=1, values=3).data
    assert set(found["implementation"]) == {"Flash2"}
    rows = found[found["metric"] == "forward_time"][["size", "ratio", "decided"]]
    assert rows.iloc[:2].to_numpy().tolist() == [[128, 0.5, True], [256, 1.0, False]]
    assert rows["ratio"].isna().tolist() == [False, False, True]


def test_an_exact_comparison_on_two_sides_of_the_baseline_is_drawn_whole() -> None:
    sweep = compared(experiments=1, values=4).sweeps[0]
    found = [replace(finding, experiment=sweep.name) for finding in findings("Flash2")]
    data = compare([sweep], found).data
    memory = data[data["metric"] == "peak_memory"]
    assert memory["ratio"].tolist() == [2.0, 2.0, 0.5, 0.5]


def test_an_experiment_stays_on_one_page_of_the_heat_map() -> None:
    found = compared(experiments=5, values=25)
    sweeps = [
        replace(sweep, runs=[{**run, "batch_size": number} for run in sweep.runs])
        for number, sweep in enumerate(found.sweeps)
    ]
    pages = heat_map_pages(replace(found, sweeps=sweeps))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert all(sum(len(sweep.values) for sweep, _ in page) <= ROWS_OF_A_PAGE for page in pages)


def test_an_experiment_whose_runs_another_has_is_not_on_the_heat_map_again() -> None:
    (page,) = heat_map_pages(compared(experiments=5, values=20))
    assert [sweep.name for sweep, _ in page] == ["e0"]


@pytest.mark.parametrize(("name", "upright"), [("Flash2", False), ("Incomprehensibilities", True)])
def test_names_too_wide_for_their_columns_stand_upright(name: str, upright: bool) -> None:
    found = compared(experiments=1, values=3)
    renamed = replace(
        found,
        entries=[{**entry, "name": name} for entry in found.entries],
        data=found.data.replace({"implementation": {"Flash2": name}}),
    )
    with drawing():
        figure = draw_heat_map(renamed, heat_map_blocks(found.sweeps), ["en"])
        heads = [text for axes in figure.axes for text in axes.texts if text.get_text() == name]
        assert heads and all((head.get_rotation() == 90) == upright for head in heads)


def test_the_same_findings_give_the_same_bytes(overview: Callable[..., Path]) -> None:
    names = ("Flash2", "Flex", "Flash4")
    first = {path.name: path.read_bytes() for path in overview(*names).iterdir()}
    assert {path.name: path.read_bytes() for path in overview(*names).iterdir()} == first
