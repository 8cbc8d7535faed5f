"""The layout stage: the report's text in pages, and the height at which each figure fills its page.

The text is set once on an endless page, with an empty box in place of each figure at its least
height. What belongs together is a block there, so that the pages follow from the blocks' heights,
and with them what is left on each page: it is divided among the page's figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weasyprint import CSS
from weasyprint.text.fonts import FontConfiguration

from flashlab.files import open_atomically, read_json, write_json
from flashlab.remarks import Remark, read_remarks
from flashlab.report.content import compose
from flashlab.report.document import Chapter, FigureEntry, Report
from flashlab.report.front import fitted
from flashlab.report.render import (
    HEIGHTS,
    document_of,
    rendering,
    styled,
    to_html,
)

MM = 96 / 25.4
"""Pixels of a millimetre."""

PAGE = 272 * MM
"""The height of the text on a page after the first one (`@page` in report.css)."""

SPARE = 2.5 * MM
"""The room that stays empty at least, since some text may be a little higher in the end."""

MOST_MM, LESS_MM = 45, 7
"""The most that a figure grows by beyond the one beside it, and that it shrinks by."""

TOO_HIGH = 2 * LESS_MM * MM
"""The most that a chapter may be higher than a page for its figures to shrink."""

MOST_LEFT = 0.12
"""The share of a page that may be empty."""

STEP_MM = 0.5
"""Heights are multiples of this, so that a word that is longer seldom changes one."""

DENSEST = 2
"""The greatest density of a chapter (`document.Chapter`)."""

ENDLESS = "@page { size: 210mm 30000mm } @page :first { margin: 12.5mm 15mm }"


# The pages


@dataclass(frozen=True)
class Block:
    """A part of the text that is set as a whole: its place on the endless page, in pixels.

    `is_head` stays with the block after it; `begins` is the first one after a forced break.
    """

    top: float
    bottom: float
    is_head: bool = False
    begins: bool = False


@dataclass(frozen=True)
class PageOfBlocks:
    """A page: its beginning on the endless one, and the room below its last block, in pixels.

    Less than nothing is left below a block that is too high.
    """

    top: float
    left: float


@dataclass(frozen=True)
class FigureRow:
    """Figures side by side: the row's top on the endless page, and its columns of figures.

    A column holds the ids of its figures, and what is empty below them, in pixels.
    """

    top: float
    columns: Sequence[tuple[Sequence[str], float]]

    @property
    def stacked(self) -> int:
        """The number of figures that stand one below the other, in the highest column."""
        return max(len(ids) for ids, _ in self.columns)


def stacked_in(rows: Iterable[FigureRow]) -> int:
    """The number of figures one below the other, over all rows."""
    return sum(row.stacked for row in rows)


def pages_of(
    blocks: Sequence[Block], rows: Sequence[FigureRow] = (), height: float = PAGE
) -> list[PageOfBlocks]:
    """The pages of blocks that follow one another, each as full as it gets.

    What stays together is never parted. What has no room stays on a page that would be empty below
    if the figures in `rows` can shrink for it. Nothing is known of what comes after the last block,
    so nothing is left on its page.
    """
    units: list[list[Block]] = []
    for block in blocks:
        if units and units[-1][-1].is_head and not block.begins:
            units[-1].append(block)
        else:
            units.append([block])
    pages: list[PageOfBlocks] = []
    top, bottom = -math.inf, -math.inf
    for unit in units:
        end = unit[-1].bottom
        stacked = stacked_in(row for row in rows if top <= row.top < end)
        is_empty = bottom - top < (1 - MOST_LEFT) * height
        room = height + max(0.0, LESS_MM * MM * stacked - SPARE) * is_empty
        if unit[0].begins or end - top > room:
            if pages:
                pages[-1] = PageOfBlocks(top, height - (bottom - top))
            top = unit[0].top
            pages.append(PageOfBlocks(top, 0.0))
        bottom = end
    if pages:
        pages[-1] = PageOfBlocks(top, min(0.0, height - (bottom - top)))
    return pages


# The boxes of an endless page


def _inner(box: Any) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        if type(child).__name__ != "MarginBox":
            yield child


def _all_boxes(box: Any) -> Iterator[Any]:
    for child in _inner(box):
        yield child
        yield from _all_boxes(child)


def _classes(box: Any) -> set[str]:
    element = getattr(box, "element", None)
    return set() if element is None else set((element.get("class") or "").split())


def _blocks(box: Any, begins: bool) -> Iterator[Block]:
    """The blocks in a box in their order."""
    for child in _inner(box):
        style, name = child.style, type(child).__name__
        is_head = style["break_after"] == "avoid"
        is_whole = is_head or style["break_inside"] == "avoid"
        is_leaf = not hasattr(child, "children") or name in ("LineBox", "TableRowBox")
        if (is_whole and child.border_height() <= PAGE + TOO_HIGH) or is_leaf:
            yield Block(child.border_box_y(), _bottom(child), is_head, begins)
            begins = False
        else:
            for block in _blocks(child, begins):
                yield block
                begins = False


def _in_order(blocks: Iterable[Block]) -> list[Block]:
    """Blocks from top to bottom; those that stand side by side are one."""
    ordered: list[Block] = []
    for block in blocks:
        if ordered and not block.begins and block.top < ordered[-1].bottom - 1:
            before = ordered[-1]
            bottom = max(before.bottom, block.bottom)
            ordered[-1] = Block(before.top, bottom, block.is_head, before.begins)
        else:
            ordered.append(block)
    return ordered


def _figure_rows(box: Any) -> Iterator[FigureRow]:
    for row in _all_boxes(box):
        if not _classes(row) & {"figures", "wide"}:
            continue
        columns: dict[float, list[Any]] = {}
        for cell in _inner(row):
            if cell.element_tag == "figure":
                columns.setdefault(round(cell.position_x), []).append(cell)
        if columns:
            yield FigureRow(
                row.border_box_y(),
                [
                    ([cell.element.get("id") for cell in cells], _empty_below(row, cells))
                    for cells in columns.values()
                ],
            )


def _empty_below(row: Any, cells: Sequence[Any]) -> float:
    """The room below the only figure of a column, which is as high as its row."""
    bottoms = [_bottom(each) + cells[0].margin_bottom for each in _inner(cells[0])]
    end = row.content_box_y() + row.height
    return max(0.0, end - max(bottoms)) if len(cells) == 1 else 0.0


def _bottom(box: Any) -> float:
    return float(box.border_box_y() + box.border_height())


@dataclass(frozen=True)
class Galley:
    """A report's text on an endless page: its pages, its rows of figures, its chapters.

    Attributes:
        plates: where the text and figures of each chapter begin and end, by the chapter's id.
        remarks: where the remarks of a chapter end, by its id, where it has any.
    """

    pages: Sequence[PageOfBlocks]
    rows: Sequence[FigureRow]
    plates: Mapping[str, tuple[float, float]]
    remarks: Mapping[str, float]

    def page_at(self, top: float) -> int:
        """The number of the page with a position on the endless one, from 0."""
        return sum(page.top <= top + 1 for page in self.pages) - 1

    def rows_on(self, page: int) -> list[FigureRow]:
        """The rows of figures on a page, from top to bottom."""
        return [row for row in self.rows if self.page_at(row.top) == page]


def _galley(report: Report, results: Path, fonts: FontConfiguration, style: CSS) -> Galley:
    html = with_boxes(to_html(report, part="chapters"), report)
    sheets = [style, CSS(string=ENDLESS, font_config=fonts)]
    set_once = document_of(html, results).render(font_config=fonts, stylesheets=sheets)
    blocks: list[Block] = []
    rows: list[FigureRow] = []
    plates: dict[str, tuple[float, float]] = {}
    remarks: dict[str, float] = {}
    reached = 0.0
    for page in set_once.pages:  # of which each begins with a forced break
        box = page._page_box
        shifted = [_moved(block, reached) for block in _in_order(_blocks(box, begins=True))]
        blocks += shifted
        rows += [replace(row, top=row.top + reached) for row in _figure_rows(box)]
        chapter = ""
        for each in _all_boxes(box):
            top = reached + each.border_box_y() if hasattr(each, "border_box_y") else 0.0
            if "plate" in _classes(each):
                chapter = each.element.get("id").removeprefix("plate-")
                plates[chapter] = top, reached + _bottom(each)
            elif "remarks" in _classes(each):
                remarks[chapter] = reached + _bottom(each)
        reached = blocks[-1].bottom + 2 * PAGE if blocks else reached
    return Galley(pages_of(blocks, rows), rows, plates, remarks)


def _moved(block: Block, by: float) -> Block:
    return replace(block, top=block.top + by, bottom=block.bottom + by)


# Heights


def with_boxes(html: str, report: Report) -> str:
    """The report's HTML with an empty box in place of each figure that is not drawn yet."""
    for section in report.sections:
        for figure in section.figures:
            if figure.least_mm is not None:
                width, height = figure.width_mm, figure.least_mm
                box = (
                    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' "
                    f"width='{width:g}mm' height='{height:g}mm'/%3E"
                )
                html = html.replace(f'src="{_address(figure)}"', f'src="{box}"')
    return html


def _address(figure: FigureEntry) -> str:
    return figure.path.resolve().as_uri()


def grown(galley: Galley) -> dict[str, float]:
    """The millimetres that each figure grows by to fill its page, by its id."""
    by_id: dict[str, float] = {}
    for number, page in enumerate(galley.pages):
        rows = galley.rows_on(number)
        stacked = stacked_in(rows)
        free = 0.0 if 0 <= page.left <= SPARE else page.left - SPARE
        each = max(-LESS_MM, min(MOST_MM, free / MM / stacked)) if stacked else 0.0
        for row in rows:
            for ids, empty in row.columns:
                more = empty / MM + each * row.stacked / len(ids)
                by_id |= dict.fromkeys(ids, more)
    return by_id


def heights_of(report: Report, more: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The height of each figure in mm by its experiment and id; `more` is by how much it grows."""
    heights: dict[str, dict[str, float]] = {}
    for section in report.sections:
        for figure in section.figures:
            if figure.least_mm is not None:
                height = figure.least_mm + more.get(figure.id, 0.0)
                of_experiment = heights.setdefault(figure.path.parent.name, {})
                of_experiment[figure.path.stem] = STEP_MM * math.floor(height / STEP_MM)
    return heights


# The report


def on_one_page(report: Report, results: Path, fonts: FontConfiguration, style: CSS) -> Report:
    """The report with as many parts on page one as fit there.

    Page one is laid out to find out: the length of a text does not tell how many lines it takes.
    Where much of it would be empty, the implementations are introduced there, if need be in smaller
    type; beside a heat map, which introduces them, its text is larger.
    """
    left = 0.0

    def fits(report: Report) -> bool:
        nonlocal left
        document = document_of(to_html(report, part="front"), results)
        pages = document.render(font_config=fonts, stylesheets=[style]).pages
        if is_one := len(pages) == 1:
            left = _left_on(pages[0])
        return is_one

    front = fitted(report.front, lambda front: fits(replace(report, front=front)))
    report = replace(report, front=front)
    if left > MOST_LEFT * PAGE:
        fuller = [replace(report, front=replace(front, tight=False))]
        if report.heat_map is None:
            fuller = [
                replace(report, front=replace(front, tight=is_tight), introduced=introduced)
                for is_tight in sorted({front.tight, True})
                for introduced in ("whole", "table")
            ]
        return next(filter(fits, fuller), report)
    return report


def _left_on(page: Any) -> float:
    """The room below the last block of a page, in pixels."""
    box = page._page_box
    return float(box.content_box_y() + box.height - _in_order(_blocks(box, begins=True))[-1].bottom)


def _with_overview(report: Report, set_again: Callable[[Report], Galley]) -> tuple[Report, Galley]:
    """The report with its heat map and the implementations in smaller type if that saves a page."""

    def pages(galley: Galley) -> int:
        """The pages before the one on which the chapters begin."""
        return galley.page_at(galley.plates[report.chapters[0].id][0])

    galley = set_again(report)
    if report.heat_map and pages(galley) > 1:
        close = replace(report, has_close_overview=True)
        closer = set_again(close)
        if pages(closer) < pages(galley):
            return close, closer
    return report, galley


def _mended(chapter: Chapter, galley: Galley) -> Chapter:
    """A chapter in its smallest type where it is higher than a page.

    Its remarks come after all chapters where they have no room on its page.
    """
    top, bottom = galley.plates[chapter.id]
    if bottom - top > PAGE and chapter.density < DENSEST:
        return replace(chapter, density=DENSEST)
    end = galley.remarks.get(chapter.id, bottom)
    if not chapter.is_remarked_later and galley.page_at(top) != galley.page_at(end - 1):
        return replace(chapter, is_remarked_later=chapter.id in galley.remarks)
    return chapter


def _closed_up(
    report: Report, galley: Galley, set_again: Callable[[Report], Galley]
) -> tuple[Report, Galley]:
    """The report with smaller type where that fills a page, which its figures alone do not.

    It is that of the page's chapters and of the one after them, if all have room there then.
    """
    for number, page in enumerate(galley.pages[:-1]):
        stacked = stacked_in(galley.rows_on(number))
        if page.left - stacked * MOST_MM * MM <= MOST_LEFT * PAGE:
            continue
        at = {
            chapter.id: galley.page_at(galley.plates[chapter.id][0]) for chapter in report.chapters
        }
        after = [chapter.id for chapter in report.chapters if at[chapter.id] == number + 1][:1]
        ids = {*after, *(name for name, its_page in at.items() if its_page == number)}
        smaller = replace(
            report,
            chapters=[
                replace(c, density=max(1, c.density)) if c.id in ids else c for c in report.chapters
            ],
        )
        if after and len(ids) > 1:
            closer = set_again(smaller)
            if closer.page_at(closer.plates[after[0]][0]) == number:
                return _closed_up(smaller, closer, set_again)
    return report, galley


def laid_out(report: Report, results: Path) -> tuple[Report, dict[str, dict[str, float]]]:
    """The report with its pages decided, and the heights of its figures (`heights_of`).

    A chapter that changes so that it has room is set again.
    """
    with rendering():
        style = styled()
        report = on_one_page(report, results, *style)

        def set_again(report: Report) -> Galley:
            return _galley(report, results, *style)

        report, galley = _with_overview(report, set_again)
        while True:
            chapters = [_mended(chapter, galley) for chapter in report.chapters]
            if chapters == [*report.chapters]:
                break
            report = replace(report, chapters=chapters)
            galley = set_again(report)
        report, galley = _closed_up(report, galley, set_again)
    tops = [page.top for page in galley.pages]
    begun = [replace(c, begins_page=galley.plates[c.id][0] in tops) for c in report.chapters]
    return replace(report, chapters=begun), heights_of(report, grown(galley))


def write_layout(
    config_file: Path,
    results: Path,
    ceilings: Path | None,
    output: Path,
    given: Sequence[Remark] | None = None,
) -> None:
    """Write the text of the report as HTML, and beside it ``heights.json``.

    The figures stand in it by their paths from `results`. `given` are the remarks, by default
    those that the configuration names.
    """
    config = read_json(config_file)
    remarks = read_remarks(config) if given is None else given
    report, heights = laid_out(compose(config, results, ceilings, remarks), results)
    html = to_html(report).replace(f"{results.resolve().as_uri()}/", "")
    with open_atomically(output) as file:
        file.write(html)
    write_json(output.with_name(HEIGHTS), heights)
