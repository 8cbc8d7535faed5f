"""Page one: everything on it stands on one page, whatever was measured and however it is named."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pypdfium2 as pdfium
import pytest
from flashlab.analysis.finding import read_findings
from pdf import is_cut_off, pages
from report.reading import TELLERS, elements, en, texts

from flashlab.figures.style import COLOURS
from flashlab.files import read_json, write_json
from flashlab.records import Measurement, Record
from flashlab.report.document import Cell, Conclusion, FigureEntry, Front
from flashlab.report.front import fitted, kernel_of_torch, map_cell, shortened
from flashlab.report.render import on_one_page, to_html, to_pdf
from flashlab.telling.values import say

LONG_NAME = "Abacus Mark {n} Super Special Edition with Very Many Beads and 192 Threads (384 CPUs)"
AUTHOR = {"name": "陳翊瑄、林霈晟、王堃喆", "id": "113062000", "course": "Parallel Programming"}


def name_devices(results: Any, count: int) -> None:
    """Give the rows of the tables long device names, `count` different ones."""
    names = itertools.cycle(LONG_NAME.format(n=n) for n in range(count))

    def renamed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        return [row | {"device_name": next(names)} for row in rows]

    for path in results.local.glob("tables/*/runs.csv"):
        results.edit_table(path.parent.name, "runs", renamed)
    results.derive_findings()


def assert_page_one_is_whole(results: Any, squeezed: Callable[[str], str]) -> Front:
    """Page one has all that it is left with, and page two begins with the first chapter."""
    report = on_one_page(results.compose(), results.local)
    results.pdf.write_bytes(to_pdf(to_html(report), results.local, [], datetime.now(UTC)))
    first, second, *_ = pages(results.pdf)
    front: Front = report.front
    of_experiments = (each.conclusion for each in front.experiments)
    for conclusion in (front.answer, *front.conclusions, *of_experiments):
        for language in results.config["languages"] if conclusion is not None else ():
            assert squeezed(TELLERS[language].tell(conclusion.heading)) in squeezed(first)
    if front.headline is not None:
        names = [cell for row in front.headline.rows if isinstance(cell := row.cells[0], str)]
        assert all(squeezed(name) in squeezed(first) for name in names)
    begins = report.chapters[0].title if report.headline is None else say("section.overview")
    titles = (TELLERS[language].tell(begins) for language in results.config["languages"])
    assert squeezed(second).startswith(squeezed("".join(titles)))
    return front


@pytest.mark.parametrize("languages", [["zh_TW", "en"], ["en"]])
def test_page_one_is_one_page_with_an_author_every_notice_and_long_device_names(
    results: Any, squeezed: Callable[[str], str], languages: list[str]
) -> None:
    results.redraw(languages, of_experiments=False)
    results.change(author=AUTHOR)
    name_devices(results, count=4)
    front = assert_page_one_is_whole(results, squeezed)
    assert len(front.notices) == 2
    first = squeezed(pages(results.pdf)[0])
    assert AUTHOR["id"] in first and AUTHOR["name"] in first  # the fonts have Taiwanese names


def test_the_html_page_says_what_does_not_fit_on_paper(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    name_devices(results, count=45)  # with 50 nothing would help
    front = assert_page_one_is_whole(results, squeezed)
    assert front.cut or not all(row.figures for row in front.experiments)
    of_page = [each.get("class") for each in elements(results.write_page())]
    rows = len(front.experiments) + front.cut
    assert (of_page.count("ordinal"), of_page.count("small")) == (rows, rows)


@pytest.mark.parametrize(
    ("names", "maybe", "below"),
    [
        (["A", "B"], [], "≈ B"),
        (["A", "B"], ["C"], "≈ B"),
        (["A", "B", "C"], [], "≈ B, C"),
        (["A", "B", "C", "B"], [], "≈ B, …"),
        (["A"], ["B"], "≈? B"),
        # A suffices at all settings of the cell, though it is not the best at each.
        (["A"], [], "≈ …"),
    ],
)
def test_a_cell_of_the_map_asks_only_what_is_undecided(
    names: list[str], maybe: list[str], below: str
) -> None:
    cell = {"names": names, "maybe": maybe, "state": "level", "lead_low": "1", "lead_high": "2"}
    data: Any = SimpleNamespace(implementations={name: {"style": 0} for name in "ABC"})
    assert map_cell(data, cell).lead == below


def test_with_more_than_two_implementations_page_one_has_the_choice_map(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    others = ["SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4"]
    results.add_implementations(others)
    front = assert_page_one_is_whole(results, squeezed)
    assert len(pages(results.pdf)) <= 15
    assert front.map is not None and front.answer is None and front.headline is None
    assert 1 <= len(front.conclusions) <= 5
    assert {len(chart.rows) for chart in front.map.charts} == {2}
    named = {cell.name for chart in front.map.charts for _, cells in chart.rows for cell in cells}
    assert named <= {*others, "Pytorch", "Flash2", "·"}
    assert not is_cut_off(pdfium.PdfDocument(results.pdf)[0])


def test_a_failed_gate_stands_first_on_page_one(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    gate = json.dumps({"tolerance": 0.005, "errors": {"out": 0.001, "dqkv": 0.47}})
    cells = {"status": "incorrect", "message": "wrong", "gate": gate}
    results.change_runs("emb_dim", cells, first=1)
    results.derive_findings()
    first = squeezed(pages(results.write())[0])
    front = results.compose().front
    (wrong,) = front.wrong
    for said, answer in zip(texts(wrong.text), texts(front.answer.heading), strict=True):
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

    def decided() -> list[Any]:
        kinds = ("choice", "comparison", "crossover", "scaling", "variant_effect", "conclusion")
        found = read_findings(brief.local / "findings.json")
        return [
            (f.kind, f.subject, f.verdict, f.facts, [{**e} for e in f.estimates])
            for f in found
            if f.kind in kinds
        ]

    brief.change_records(faster)
    concluded, front = decided(), brief.compose().front
    first = squeezed(pages(brief.write())[0])
    (wrong,) = front.wrong
    for said, answer in zip(texts(wrong.text), texts(front.answer.heading), strict=True):
        assert first.index(squeezed(said)) < first.index(squeezed(answer))
    assert en(wrong.text).startswith("2 of 4 runs of Flash2 have implausible rates, up to ")
    brief.change_records(failed)
    assert concluded == decided()


def test_rates_somewhat_above_the_ceiling_are_told_on_paper(
    brief: Any, squeezed: Callable[[str], str]
) -> None:
    def steady(record: Record) -> Record:
        """Times without noise, so that the whole interval is above the ceiling."""
        metrics = {
            name: replace(each, samples=(each.value,) * len(each.samples)) if each.samples else each
            for name, each in record.metrics.items()
        }
        return replace(record, metrics=metrics)

    brief.change_records(steady)
    shares = [
        estimate["matrix_percent"]["estimate"]
        for finding in brief.findings()
        if finding["kind"] == "roofline"
        for estimate in finding["estimates"]
    ]
    ceilings = read_json(brief.ceilings)
    for product in ceilings["matrix_product"].values():
        slower = 140 / max(shares)
        product["time(s)"] *= slower
        product["samples"] = [seconds * slower for seconds in product["samples"]]
    write_json(brief.ceilings, ceilings)
    brief.change_records(steady)
    told = brief.compose().implementations.errors.entries
    printed = squeezed("".join(pages(brief.write())))
    assert told and all(squeezed(said) in printed for each in told for said in texts(each.text))


def set_headline(results: Any, verdict: str, ratio: float) -> None:
    """Let the findings about the headline's measured metrics come to this."""
    found = results.findings()
    for finding in found:
        if finding["experiment"] == "summary":
            ends = {"low": ratio, "high": ratio, "low_places": 2, "high_places": 2}
            finding |= {"verdict": verdict, "facts": {"count": 1, **ends}}
    write_json(results.local / "findings.json", found)


@pytest.mark.parametrize(
    ("verdict", "shown", "strong"),
    [
        ("better", "1.03×", True),
        ("equivalent", "≈ 1.03×", False),
        ("inconclusive", "? 1.03×", False),
    ],
)
def test_the_headline_quotes_the_findings_with_their_verdicts(
    results: Any, verdict: str, shown: str, strong: bool
) -> None:
    set_headline(results, verdict, 1.03)
    headline = results.compose().front.headline
    said = dict(zip(map(en, headline.columns), headline.rows[-1].cells, strict=True))
    for heading in ("Forward (ms)", "Total time (ms)", "Peak memory (MiB)"):
        assert (said[heading].text, said[heading].strong) == (shown, strong)
    assert said["Forward (GFLOP/s)"] == Cell("")


def test_every_figure_across_experiments_that_is_drawn_is_shown(results: Any) -> None:
    report = results.compose()
    drawn = set(read_json(results.local / "overview" / "drawn.json")) - {"summary"}
    all_ = report.implementations
    shown = [*all_.rooflines, *all_.others]
    assert sorted(figure.path.stem for figure in shown) == sorted(drawn)


def front_of_five(has_figure: bool) -> Front:
    """Page one with five conclusions, and nothing else but a figure."""
    told = [Conclusion(str(n), None, None, 0, None, [], ()) for n in range(5)]
    figure = FigureEntry("summary", Path(), "", "") if has_figure else None
    return Front("", "", [], [], "", [], [], None, None, told, [], figure, None)


@pytest.mark.parametrize(
    ("room", "left"), [(8, (5, True, 0)), (6, (3, True, 2)), (5, (5, False, 0)), (4, (4, False, 1))]
)
def test_conclusions_that_made_room_for_a_figure_in_vain_come_back(
    room: int, left: tuple[int, bool, int]
) -> None:
    """A figure takes the room of three conclusions; no page is laid out twice."""
    seen: list[tuple[bool, int, bool]] = []

    def fits(front: Front) -> bool:
        seen.append((front.tight, len(front.conclusions), front.figure is not None))
        return len(front.conclusions) + 3 * (front.figure is not None) <= room

    front = fitted(front_of_five(has_figure=True), fits)
    assert (len(front.conclusions), front.figure is not None, front.cut) == left
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("has_figure", "left"),
    [
        (True, [(False, 5, 0), (True, 5, 0), (True, 4, 1), (True, 3, 2)]),
        (
            False,
            [(False, 5, 0), (True, 5, 0), (True, 4, 1), (True, 3, 2), (True, 2, 3), (True, 1, 4)],
        ),
    ],
)
def test_what_does_not_fit_goes_from_the_end_after_smaller_type(
    has_figure: bool, left: list[tuple[bool, int, int]]
) -> None:
    """Beside a figure three conclusions stay."""
    front: Front | None = front_of_five(has_figure)
    seen = []
    while front is not None:
        seen.append((front.tight, len(front.conclusions), front.cut))
        front = shortened(front)
    assert seen == left


def test_the_maps_colours_are_those_of_the_figures() -> None:
    style = Path(__file__).parents[2].joinpath("templates", "report.css").read_text("utf-8")
    found = re.findall(r"^\.style-(\d) \{ background: (#\w+);", style, re.MULTILINE)
    assert [colour.upper() for _, colour in sorted(found)] == [c.upper() for c in COLOURS]


def test_an_exact_ratio_beyond_the_margin_is_bold_as_the_tables_caption_says(results: Any) -> None:
    (table, *_) = (chapter.table for chapter in results.compose().chapters)
    of, value, ratio = table.rows[-1].cells[-3:]
    assert ratio.text == f"{float(value.text) / float(of.text):.3g}×"
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
