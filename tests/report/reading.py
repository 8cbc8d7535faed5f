"""The text of a report's parts, in each language."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import Element

from markupsafe import Markup
from tinyhtml5.parser import HTMLParser

from flashlab.report.document import Beside, Cell, Report, Row, Table, Words

Part = TypeVar("Part")


def said(words: Words | Cell, language: str = "en") -> str:
    """What is printed in a language."""
    if isinstance(words, Cell):
        return said(words.words, language)
    if isinstance(words, str):
        return Markup(words).striptags() if isinstance(words, Markup) else words
    return words[language]


def cells(row: Row) -> list[str]:
    """A row's cells in English."""
    return [said(cell) for cell in row.cells]


def parts(report: Report, section: str, kind: type[Part]) -> list[Part]:
    """The parts of a kind of the section of an anchor, of tables side by side each."""
    (of,) = (each for each in report.sections if each.id == section)
    every = [each for b in of.blocks for each in (b.tables if isinstance(b, Beside) else [b])]
    return [each for each in every if isinstance(each, kind)]


def tables(report: Report) -> list[Table]:
    """All tables, in their order."""
    return [table for each in report.sections for table in parts(report, each.id, Table)]


def elements(page: Path) -> list[Element]:
    """All elements of an HTML page, which must keep the rules of HTML."""
    parser = HTMLParser(namespace_html_elements=False)
    found = list(parser.parse(page.read_text(encoding="utf-8")).iter())
    assert parser.errors == []
    return found
