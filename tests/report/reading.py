"""The text of a report's parts, in each language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import Element

from markupsafe import Markup
from tinyhtml5.parser import HTMLParser

from flashlab.labels import LANGUAGES
from flashlab.report.document import Beside, Cell, Prose, Report, Row, Section, Table, Words

Part = TypeVar("Part")


def said(words: Words | Cell, language: str = "en") -> str:
    """What is printed in a language."""
    if isinstance(words, Cell):
        return said(words.words, language)
    if isinstance(words, str):
        return Markup(words).striptags() if isinstance(words, Markup) else words
    return words[language]


def texts(words: Words) -> list[str]:
    """A text in each language."""
    return [said(words, language) for language in LANGUAGES]


def cells(row: Row) -> list[str]:
    """A row's cells in English."""
    return [said(cell) for cell in row.cells]


def section(report: Report, name: str) -> Section:
    """The section of an anchor."""
    return next(each for each in report.sections if each.id == name)


def parts(of: Section, kind: type[Part]) -> list[Part]:
    """The parts of a kind of a section, of tables side by side each."""
    every = [each for b in of.blocks for each in (b.tables if isinstance(b, Beside) else [b])]
    return [each for each in every if isinstance(each, kind)]


def tables(report: Report) -> Iterator[Table]:
    """All tables, in their order."""
    for each in report.sections:
        yield from parts(each, Table)


def proses(report: Report) -> Iterator[Prose]:
    """All paragraphs, in their order."""
    for each in report.sections:
        yield from parts(each, Prose)


def elements(page: Path) -> list[Element]:
    """All elements of an HTML page, which must keep the rules of HTML."""
    parser = HTMLParser(namespace_html_elements=False)
    found = list(parser.parse(page.read_text(encoding="utf-8")).iter())
    assert parser.errors == []
    return found
