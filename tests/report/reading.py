"""The text of a report's parts, in each language."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

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


def elements(page: Path) -> list[Element]:
    """All elements of an HTML page, which must keep the rules of HTML."""
    parser = HTMLParser(namespace_html_elements=False)
    found = list(parser.parse(page.read_text(encoding="utf-8")).iter())
    assert parser.errors == []
    return found
