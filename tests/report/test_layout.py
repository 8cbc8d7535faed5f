"""How the PDF looks: whether its pages are filled, and its text is large enough to read."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from report.reading import is_cut_off

SMALLEST_POINTS = 6.0
TOP, BOTTOM = 0.03, 0.945
"""The part of a page above its footer."""


def filled(page: pdfium.PdfPage) -> float:
    """How far down a page something is printed, as a share of its body."""
    picture = page.render(scale=0.5, grayscale=True).to_numpy()
    height = len(picture)
    body = picture[int(TOP * height) : int(BOTTOM * height)]
    (printed,) = np.nonzero((body < 200).any(axis=1))
    return (int(printed[-1]) + 1) / len(body) if len(printed) else 0.0


def sizes(page: pdfium.PdfPage) -> Iterator[tuple[float, str]]:
    """The size in points of each printed character."""
    text, matrix = page.get_textpage(), pdfium_c.FS_MATRIX()
    for i in range(text.count_chars()):
        letter = chr(pdfium_c.FPDFText_GetUnicode(text, i))
        if not letter.isspace() and pdfium_c.FPDFText_GetMatrix(text, i, ctypes.byref(matrix)):
            scale = math.hypot(matrix.c, matrix.d)
            yield pdfium_c.FPDFText_GetFontSize(text, i) * scale, letter


def test_at_most_one_page_is_more_than_a_quarter_empty(finished: Any) -> None:
    empty = [1 - filled(page) for page in pdfium.PdfDocument(finished.pdf)]
    assert len([share for share in empty if share > 0.25]) <= 1, empty


def test_no_text_is_smaller_than_six_points(finished: Any) -> None:
    for page in pdfium.PdfDocument(finished.pdf):
        small = "".join(letter for size, letter in sizes(page) if size < SMALLEST_POINTS - 0.05)
        assert not small


def test_no_text_is_cut_off_at_a_side(finished: Any) -> None:
    assert not any(map(is_cut_off, pdfium.PdfDocument(finished.pdf)))
