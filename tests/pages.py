"""The pages of a report as laid out: how full, what stands together, how small their type is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weasyprint import HTML
from weasyprint.text.fonts import FontConfiguration

from flashlab.report.document import Report
from flashlab.report.render import TEMPLATES, on_one_page, to_html

POINTS_PER_PIXEL = 0.75


@dataclass(frozen=True)
class Pages:
    """What is measured of a report's pages.

    Attributes:
        empty: the share of each page that is empty below its last line or figure.
        chapters: the pages that each chapter is on, by the id of its heading.
        least_points: the smallest type, in text and in figures.
    """

    empty: list[float]
    chapters: Mapping[str, set[int]]
    least_points: float


def measure(report: Report, home: Path) -> Pages:
    """Lay out a report whose figures are drawn below `home`."""
    html = to_html(on_one_page(report, home))
    fonts = FontConfiguration()
    document = HTML(string=html, base_url=TEMPLATES.as_uri() + "/").render(font_config=fonts)
    boxes = [list(_inner_boxes(page._page_box)) for page in document.pages]
    chapters: dict[str, set[int]] = {}
    for number, of_page in enumerate(boxes, start=1):
        for box in of_page:
            if "chapter" in _classes(box):
                name = box.element.find("h2").get("id")
                chapters.setdefault(name, set()).add(number)
    texts = (b for of_page in boxes for b in of_page if getattr(b, "text", "").strip())
    sizes = [text.style["font_size"] * POINTS_PER_PIXEL for text in texts]
    drawn = (path.read_text(encoding="utf-8") for path in home.rglob("*.svg"))
    sizes += [float(size) for svg in drawn for size in re.findall(r"\b([\d.]+)px", svg)]
    empty = [_empty(page._page_box, of) for page, of in zip(document.pages, boxes, strict=True)]
    return Pages(empty, chapters, min(sizes))


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
