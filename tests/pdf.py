"""The text of a PDF's pages, and its place on them."""

from __future__ import annotations

import re
from pathlib import Path

import pypdfium2 as pdfium


def pages(pdf: Path) -> list[str]:
    """The text of each page, in reading order."""
    with pdfium.PdfDocument(pdf) as document:
        return [page.get_textpage().get_text_range() for page in document]


def squeezed(text: str) -> str:
    """Text without what line breaks leave in a PDF's: spaces and hyphens."""
    return re.sub("[\\s\u00ad\ufffe-]", "", text)


def text_of(pdf: Path) -> str:
    """All of its text, in reading order, squeezed."""
    return squeezed("".join(pages(pdf)))


def is_cut_off(page: pdfium.PdfPage) -> bool:
    """True if any character reaches beyond a side."""
    text, width = page.get_textpage(), page.get_width()
    boxes = [text.get_charbox(i) for i in range(text.count_chars())]
    return any(left < 0 or right > width for left, _, right, _ in boxes)


def depths(pdf: Path) -> list[float]:
    """The lowest text of each page but the footer, figures included, as a share of its height."""
    found = []
    with pdfium.PdfDocument(pdf) as document:
        for page in document:
            text, height = page.get_textpage(), page.get_height()
            boxes = (text.get_charbox(i, loose=True) for i in range(text.count_chars()))
            ends = [1 - bottom / height for _, bottom, *_ in boxes]
            found.append(max((end for end in ends if end < 0.95), default=0.0))
    return found
