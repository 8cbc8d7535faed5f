"""Page one: everything on it stands on one page, whatever was measured and however it is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pdf import pages
from report.reading import en, texts

from flashlab.figures.style import COLOURS
from flashlab.files import read_json
from flashlab.records import Measurement, Record
from flashlab.report.document import (
    Cell,
)
from flashlab.report.front import kernel_of_torch, map_cell

LONG_NAME = "Abacus Mark {n} Super Special Edition with Very Many Beads and 192 Threads (384 CPUs)"
AUTHOR = {"name": "陳翊瑄、林霈晟、王堃喆", "id": "113062000", "course": "Parallel Programming"}


@pytest.mark.parametrize(
    ("names", "state", "below"),
    [
        (["A"], "clear", "+20%"),
        (["A", "B"], "level", "/ B"),
        (["A", "B", "C"], "level", "/ B / C"),
        (["A", "B", "C", "B"], "level", "/ B / C / …"),
        (["A", "B"], "changes", "/ B"),
    ],
)
def test_a_cell_of_the_map_has_the_lead_or_all_that_will_do(
    names: list[str], state: str, below: str
) -> None:
    cell = {"names": names, "state": state, "lead": [1.2, 1.3]}
    data: Any = SimpleNamespace(implementations={name: {"style": 0} for name in "ABC"})
    assert map_cell(data, cell).lead == below


def test_with_more_than_two_implementations_page_one_has_the_choice_map(results: Any) -> None:
    others = ["SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4"]
    results.add_implementations(others)
    front = results.compose().front
    assert front.map is not None and front.headline is None
    assert {len(chart.rows) for chart in front.map.charts} == {4}  # of d and N
    named = {cell.name for chart in front.map.charts for _, cells in chart.rows for cell in cells}
    assert named <= {*others, "Pytorch", "Flash2", "·"}


def test_a_failed_gate_stands_first_on_page_one(brief: Any, squeezed: Callable[[str], str]) -> None:
    gate = json.dumps({"tolerance": 0.005, "errors": {"out": 0.001, "dqkv": 0.47}})
    cells = {"status": "incorrect", "message": "wrong", "gate": gate}
    brief.change_runs("seq_len", cells, first=1)
    brief.observe()
    first = squeezed(pages(brief.write())[0])
    front = brief.compose().front
    (wrong,) = front.wrong
    for said, answer in zip(texts(wrong.text), texts(front.story[0].text), strict=True):
        assert first.index(squeezed(said)) < first.index(squeezed(answer))
    assert "0.47" in en(wrong.text)


def test_impossible_rates_stand_first_on_page_one_and_nothing_is_concluded_from_them(
    brief: Any, squeezed: Callable[[str], str]
) -> None:
    def is_meant(record: Record) -> bool:
        return record.run.implementation == "Flash2" and record.run["seq_len"] == 64

    def faster(record: Record) -> Record:
        times = {
            name: Measurement(each.value / 1e6, tuple(t / 1e6 for t in each.samples), each.stopped)
            for name, each in record.metrics.items()
            if name.endswith("time")
        }
        return replace(record, metrics={**record.metrics, **times}) if is_meant(record) else record

    def failed(record: Record) -> Record:
        changes = {"status": "error", "message": "it failed", "metrics": {}, "gate": None}
        return replace(record, **changes) if is_meant(record) else record

    def decided() -> bytes:
        found: bytes = brief.local.joinpath("comparisons.csv").read_bytes()
        return found

    brief.change_records(faster)
    concluded, front = decided(), brief.compose().front
    first = squeezed(pages(brief.write())[0])
    (wrong,) = front.wrong
    for said, answer in zip(texts(wrong.text), texts(front.story[0].text), strict=True):
        assert first.index(squeezed(said)) < first.index(squeezed(answer))
    assert en(wrong.text).startswith("2 of 4 runs of Flash2 have implausible rates, up to ")
    brief.change_tables(failed)
    assert concluded == decided()


def set_headline(results: Any, verdict: str, ratio: float) -> None:
    """Let the comparisons of the headline come to this."""
    table = results.local / "comparisons.csv"
    rows = pd.read_csv(table, dtype=str, keep_default_na=False)
    ends = {"verdict": verdict, "ratio": str(ratio), "low": str(ratio), "high": str(ratio)}
    rows.loc[rows.experiment == "summary", list(ends)] = list(ends.values())
    rows.to_csv(table, index=False)


@pytest.mark.parametrize(
    ("verdict", "shown", "strong"),
    [
        ("below", "1.25×", True),
        ("equal", "≈ 1.25×", False),
        ("inconclusive", "? 1.25×", False),
    ],
)
def test_the_headline_has_the_ratios_with_their_verdicts(
    results: Any, verdict: str, shown: str, strong: bool
) -> None:
    """A time of 0.8 is told as 1.25 times the speed; a rate has no comparison of its own."""
    set_headline(results, verdict, 0.8)
    headline = results.compose().front.headline
    said = dict(zip(map(en, headline.columns), headline.rows[-1].cells, strict=True))
    for heading in ("Forward (ms)", "Total time (ms)"):
        assert (said[heading].text, said[heading].strong) == (shown, strong)
    assert said["Forward (GFLOP/s)"] == Cell("")


def test_every_figure_across_experiments_that_is_drawn_is_shown(results: Any) -> None:
    report = results.compose()
    drawn = set(read_json(results.local / "overview" / "drawn.json"))
    all_ = report.implementations
    beside = [figure for row in report.front.experiments for figure in row.figures]
    of_chapters = [figure for chapter in report.chapters for figure in chapter.figures]
    across = [figure for figure in of_chapters if figure.path.parent.name == "overview"]
    shown = [*report.front.figures, *all_.figures, *beside, *across]
    assert sorted(figure.path.stem for figure in shown) == sorted(drawn)


def test_the_maps_colours_are_those_of_the_figures() -> None:
    style = Path(__file__).parents[2].joinpath("templates", "report.css").read_text("utf-8")
    found = re.findall(r"^\.style-(\d) \{ background: (#\w+);", style, re.MULTILINE)
    assert [colour.upper() for _, colour in sorted(found)] == [c.upper() for c in COLOURS]


def test_an_exact_ratio_beyond_the_margin_is_bold_as_the_tables_caption_says(results: Any) -> None:
    (table, *_) = (chapter.table for chapter in results.compose().chapters)
    of, value, ratio = table.rows[-1].cells[-3:]
    expected = float(value.text) / float(of.text)
    assert float(ratio.text.removesuffix("×")) == pytest.approx(expected, rel=0.01)
    assert ratio.strong


@pytest.mark.parametrize(
    ("provider", "on_cpu", "named"),
    [
        ("torch 2.13.0 SDPBackend.FLASH_ATTENTION (CUDA)", False, True),
        ("torch 2.13.0 SDPBackend.FLASH_ATTENTION (CPU)", True, False),
        ("flash-attn 2.8.3", False, False),
        ("torch 2.13.0", False, False),
        (None, False, False),
    ],
)
def test_page_one_says_where_a_kernel_is_the_one_that_pytorch_carries(
    provider: str | None, on_cpu: bool, named: bool
) -> None:
    runs = [{"implementation": "Flash2", "provider": provider}]
    data: Any = SimpleNamespace(runs=runs, on_cpu=on_cpu)
    assert kernel_of_torch(data, "Flash2") == ("torch 2.13.0" if named else None)
