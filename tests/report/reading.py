"""What a report's parts say, as a reader reads them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree.ElementTree import Element

import pypdfium2 as pdfium
from tinyhtml5.parser import HTMLParser

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.report.document import Cell, Row
from flashlab.telling.teller import Teller
from flashlab.telling.values import Tellable

TELLERS = {language: Teller(language, ATTENTION) for language in ("zh_TW", "en")}


def texts(told: Tellable) -> list[str]:
    """A value in each language."""
    return [teller.tell(told) for teller in TELLERS.values()]


def en(told: Tellable) -> str:
    """A value in English."""
    return TELLERS["en"].tell(told)


def cells(row: Row) -> list[str]:
    """A row's cells in English."""
    return [cell.text if isinstance(cell, Cell) else en(cell) for cell in row.cells]


def pages(pdf: Path) -> list[str]:
    """The text of each page; behind the last one, nothing."""
    command = ["pdftotext", "-raw", str(pdf), "-"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\f")


def is_cut_off(page: pdfium.PdfPage) -> bool:
    """Whether any character reaches beyond a side."""
    text, width = page.get_textpage(), page.get_width()
    boxes = [text.get_charbox(i) for i in range(text.count_chars())]
    return any(left < 0 or right > width for left, _, right, _ in boxes)


def depths(pdf: Path) -> list[float]:
    """How far down each page its text reaches, labels of figures too, without the footer."""
    boxes = subprocess.run(
        ["pdftotext", "-bbox", str(pdf), "-"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = []
    for page in boxes.split("<page ")[1:]:
        height = float(re.search(r'height="([\d.]+)"', page)[1])  # type: ignore[index]
        ends = [float(end) / height for end in re.findall(r'yMax="([\d.]+)"', page)]
        found.append(max((end for end in ends if end < 0.95), default=0.0))
    return found


def elements(page: Path) -> list[Element]:
    """All elements of an HTML page, which must keep the rules of HTML."""
    parser = HTMLParser(namespace_html_elements=False)
    found = list(parser.parse(page.read_text(encoding="utf-8")).iter())
    assert parser.errors == []
    return found
