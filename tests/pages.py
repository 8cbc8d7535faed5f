"""The pages of a report as laid out: how full, what stands together, how small their type is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.report.render import LAYOUT, document_of, styled

POINTS_PER_PIXEL = 0.75

MOST_EMPTY, LEAST_POINTS = 0.12, 6.2
"""The share of a page, but the last, that may be empty; and the smallest type."""


@dataclass(frozen=True)
class Pages:
    """Measurements of a report's pages.

    Attributes:
        empty: the share of each page that is empty below its last line or figure.
        chapters: the pages that each chapter is on, by the id of its heading.
        least_points: the smallest type, in text and in figures.
    """

    empty: list[float]
    chapters: Mapping[str, set[int]]
    least_points: float


def measure(home: Path) -> Pages:
    """The pages of a report that was laid out in `home`, with its figures."""
    html, (fonts, style) = home.joinpath(LAYOUT).read_text(encoding="utf-8"), styled()
    document = document_of(html, home).render(font_config=fonts, stylesheets=[style])
    boxes = [list(_inner_boxes(page._page_box)) for page in document.pages]
    chapters: dict[str, set[int]] = {}
    for number, of_page in enumerate(boxes, start=1):
        for box in of_page:
            if "plate" in _classes(box):
                name = box.element.find("h2").get("id")
                chapters.setdefault(name, set()).add(number)
    texts = (b for of_page in boxes for b in of_page if getattr(b, "text", "").strip())
    sizes = [text.style["font_size"] * POINTS_PER_PIXEL for text in texts]
    drawn = (path.read_text(encoding="utf-8") for path in home.rglob("*.svg"))
    sizes += [float(size) for svg in drawn for size in re.findall(r"\b([\d.]+)px", svg)]
    empty = [_empty(page._page_box, of) for page, of in zip(document.pages, boxes, strict=True)]
    return Pages(empty, chapters, min(sizes))


def assert_well_laid_out(pages: Pages, most: int) -> None:
    """Full pages, at most so many; an experiment on one of them; legible type."""
    assert len(pages.empty) <= most
    assert max(pages.empty[:-1]) <= MOST_EMPTY
    assert pages.chapters
    assert {id: on for id, on in pages.chapters.items() if len(on) > 1} == {}
    assert pages.least_points >= LEAST_POINTS - 1e-9


def _classes(box: Any) -> list[str]:
    element = getattr(box, "element", None)
    return [] if element is None else element.get("class", "").split()


def _inner_boxes(box: Any) -> Iterator[Any]:
    """The boxes of a page, without those in its margins."""
    for child in getattr(box, "children", ()):
        if type(child).__name__ != "MarginBox":
            yield child
            yield from _inner_boxes(child)


def _empty(page: Any, boxes: list[Any]) -> float:
    ends = [
        box.position_y + box.height
        for box in boxes
        if hasattr(box, "text") or hasattr(box, "replacement")
    ]
    return float(1 - (max(ends) - page.content_box_y()) / page.height)
