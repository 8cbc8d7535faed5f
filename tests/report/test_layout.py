"""The layout: pages of blocks, how figures fill them, and what has no room on its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import titles_file
from flashlab.report.layout import (
    LESS_MM,
    MM,
    MOST_MM,
    SPARE,
    Block,
    FigureRow,
    Galley,
    PageOfBlocks,
    grown,
    laid_out,
    pages_of,
)
from flashlab.report.render import HEIGHTS, LAYOUT


def stacked(*heights: float, heads: tuple[int, ...] = ()) -> list[Block]:
    """Blocks one below the other; those at `heads` are headings."""
    blocks, top = [], 0.0
    for number, height in enumerate(heights):
        blocks.append(Block(top, top + height, number in heads, begins=not number))
        top += height
    return blocks


def test_a_block_that_has_no_room_begins_a_page_and_leaves_the_rest_empty() -> None:
    assert pages_of(stacked(60, 30, 20, 10), height=100) == [
        PageOfBlocks(0, 10),
        PageOfBlocks(90, 0),  # what comes after the last block is not known
    ]


def test_a_heading_goes_to_the_next_page_with_what_it_is_above() -> None:
    (first, second) = pages_of(stacked(60, 10, 40, heads=(1,)), height=100)
    assert (first.left, second.top) == (40, 60)


def test_a_forced_break_begins_a_page_and_a_block_that_is_too_high_lacks_room() -> None:
    blocks = [Block(0, 30, begins=True), Block(500, 620, begins=True), Block(620, 640)]
    assert [page.left for page in pages_of(blocks, height=100)] == [70, -20, 0]


def test_what_has_little_too_little_room_stays_where_figures_can_shrink_for_it() -> None:
    blocks = stacked(150 * MM, 130 * MM)
    rows = [FigureRow(100 * MM, [(["a"], 0.0)]), FigureRow(200 * MM, [(["b"], 0.0)])]
    assert [page.left for page in pages_of(blocks, rows)] == pytest.approx([-8 * MM])
    assert len(pages_of(blocks, rows[:1])) == 2  # one figure cannot shrink by so much
    assert len(pages_of(stacked(260 * MM, 14 * MM), rows)) == 2  # the first page is full


def galley(left: float, *rows: FigureRow) -> Galley:
    """A page with so much left, in millimetres, and rows of figures on it."""
    return Galley([PageOfBlocks(0, left * MM)], rows, {}, {})


def test_what_is_left_on_a_page_is_divided_among_its_rows_of_figures() -> None:
    one = FigureRow(10, [(["a"], 0.0)])
    two = FigureRow(200, [(["b"], 0.0), (["c"], 4 * MM)])  # c is less high than b
    more = grown(galley(30 + SPARE / MM, one, two))
    assert more == pytest.approx({"a": 15, "b": 15, "c": 19})


def test_figures_one_below_the_other_share_what_their_row_gets() -> None:
    row = FigureRow(10, [(["a", "c"], 0.0), (["b"], 0.0)])
    more = grown(galley(40 + SPARE / MM, row))
    assert more == pytest.approx({"a": 20, "c": 20, "b": 40})


def test_a_figure_neither_grows_nor_shrinks_without_limit() -> None:
    row = FigureRow(10, [(["a"], 0.0)])
    limits = {200: MOST_MM, 1: 0, -4: -4 - SPARE / MM, -50: -LESS_MM}
    for left, more in limits.items():
        assert grown(galley(left, row))["a"] == pytest.approx(more)
    beside = FigureRow(10, [(["a"], 0.0), (["b"], 60 * MM)])  # but one grows as high as its row
    assert grown(galley(200, beside)) == pytest.approx({"a": MOST_MM, "b": 60 + MOST_MM})


def test_the_text_stands_by_itself_and_a_figures_height_changes_with_what_is_beside_it(
    brief: Any,
) -> None:
    brief.lay_out()
    html = (brief.local / LAYOUT).read_text(encoding="utf-8")
    assert 'src="figures/seq_len/time.svg"' in html and str(brief.folder) not in html
    before = read_json(brief.local / HEIGHTS)
    (drawn,) = brief.local.glob("drawn/seq_len-time-*.svg")
    first = drawn.stat().st_mtime_ns
    file = titles_file(brief.local)
    titles = read_json(file)
    write_json(file, titles | {"seq_len": titles["seq_len"] | {"en": "Length alone"}})
    brief.lay_out()
    assert "Length alone" in (brief.local / LAYOUT).read_text(encoding="utf-8")
    assert read_json(brief.local / HEIGHTS) == before
    assert drawn.stat().st_mtime_ns == first  # it was not drawn again


def test_a_remark_that_has_no_room_on_its_experiments_page_comes_after_all_of_them(
    brief: Any,
) -> None:
    text = "A sentence of a long remark on this experiment. " * 60
    Path("remark.md").write_text("\n\n".join([text] * 3), encoding="utf-8")
    brief.change(remarks={"seq_len": {"en": "remark.md"}})
    brief.lay_out()
    html = (brief.local / LAYOUT).read_text(encoding="utf-8")
    assert html.index('id="chapter-causal"') < html.index("A sentence of a long remark")
    Path("remark.md").write_text("A sentence of a remark.", encoding="utf-8")
    brief.lay_out()
    html = (brief.local / LAYOUT).read_text(encoding="utf-8")
    assert html.index("A sentence of a remark") < html.index('id="chapter-causal"')


@pytest.mark.scheduled  # the page without it: the tests before
def test_an_overview_is_in_smaller_type_where_that_saves_a_page(results: Any) -> None:
    results.add_implementations(["Flex", "SdpaMath"])
    report = results.compose()
    usual, _ = laid_out(report, results.local)
    assert not usual.has_close_overview
    (block, *_) = report.heat_map.printed
    many = replace(report.heat_map, printed=[block] * (50 // len(block.rows)))
    close, _ = laid_out(replace(report, heat_map=many), results.local)
    assert close.has_close_overview
