"""A report as data, in reading order: sections of prose, tables and figures, which a template sets.

It is in no language. What has words is a `Text`, in each language of the labels, of which the
template sets those of the report.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from flashlab.benchmarks.model import Benchmark
from flashlab.labels import LANGUAGES, message, messages

TEMPLATES = Path(__file__).parents[3] / "templates"

Text = Mapping[str, str]
"""The same in each language."""

Words = str | Markup | Text
"""A text, or the same in each language; `Markup` is set as it is."""

TAGS = {"zh_TW": "zh-TW", "en": "en"}
"""The languages of the labels, as HTML names them."""

HALF_MM = 100
"""A figure that is narrower than this has another one, or the second language, beside it."""


def says(
    key: str, benchmark: Benchmark | None = None, domain: str = "report", **values: object
) -> Text:
    """A label in each language; the benchmark's own, ``<benchmark>.<key>``, where it has one."""
    own = f"{benchmark.name}.{key}" if benchmark else key
    found = own if own in messages(LANGUAGES[0], domain) else key
    return {
        language: message(language, domain, found).format_map(
            {name: in_language(value, language) for name, value in values.items()}
        )
        for language in LANGUAGES
    }


def in_both(text: Text) -> Markup:
    """A text in every language; the same once, and of none."""
    span = Markup('<span lang="{}">{}</span>')
    spans = {text[each]: span.format(TAGS[each], text[each]) for each in LANGUAGES}
    return Markup(" ").join(spans.values() if len(spans) > 1 else spans)


def in_language(value: object, language: str) -> object:
    """A text in a language; anything else as it is."""
    return value[language] if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Cell:
    """A table's cell; of a web page it leads to the run of this number."""

    words: Words
    run: int | None = None
    files: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Row:
    """A table's row, with its anchor, and the class that it is set in."""

    cells: Sequence[Words | Cell]
    kind: str = ""
    id: str = ""


@dataclass(frozen=True)
class Table:
    """A table in no language.

    Attributes:
        groups: headings above those of the columns, each with the number of its columns; none, or
            over all columns.
        text: how many first columns are not numbers.
        number: by which the text points to it.
        legend: what its signs mean.
        kind: the class that it is set in.
    """

    columns: Sequence[Words]
    rows: Sequence[Row]
    groups: Sequence[tuple[Words, int]] = ()
    text: int = 1
    number: int = 0
    legend: Sequence[Words] = ()
    kind: str = ""

    @property
    def starts(self) -> set[int]:
        """The columns that begin a group, without the first."""
        return {*itertools.accumulate(span for _, span in self.groups[:-1])}


@dataclass(frozen=True)
class Figure:
    """A figure: its file, its number and caption, and what it shows, for who cannot see it."""

    path: Path
    label: Text
    caption: Text
    shows: Text

    @cached_property
    def is_half(self) -> bool:
        """True if it is half as wide as the page."""
        if not self.path.is_file():  # what is not drawn is an error where it is set
            return False
        head = self.path.read_text(encoding="utf-8")[:2000]
        width = re.search(r'<svg[^>]*? width="([\d.]+)pt"', head)
        return width is not None and float(width[1]) / 72 * 25.4 < HALF_MM


@dataclass(frozen=True)
class Prose:
    """A paragraph in each language, in the order of the report's; `kind` is its class."""

    text: Text
    kind: str = ""
    only: Literal["", "first", "second"] = ""


@dataclass(frozen=True)
class Figures:
    """Figures side by side; where one stands alone, `beside` it the second language may."""

    figures: Sequence[Figure]
    beside: Text | None = None


@dataclass(frozen=True)
class Line:
    """An experiment on page one: its anchor, title, what to do, and its small figure."""

    target: str
    title: Text
    text: Text
    figure: Figure | None = None


@dataclass(frozen=True)
class Lines:
    """A line an experiment."""

    lines: Sequence[Line]
    key: Words = ""


@dataclass(frozen=True)
class Columns:
    """Paragraphs with a heading each, a column a language."""

    paragraphs: Sequence[tuple[Text, Text]]


@dataclass(frozen=True)
class Remark:
    """The author's own words, by language."""

    by_language: Mapping[str, Markup]


@dataclass(frozen=True)
class Beside:
    """Tables side by side."""

    tables: Sequence[Table]


Block = Prose | Table | Figures | Lines | Columns | Remark | Beside
"""A part of a section."""


@dataclass(frozen=True)
class Section:
    """A chapter: its anchor, title, setting, and its parts.

    Attributes:
        kind: ``begin`` begins a page, ``screen`` is on the web page alone, ``wide`` is set in
            smaller type for many columns.
    """

    id: str
    blocks: Sequence[Block]
    title: Text | None = None
    setting: Words = ""
    kind: str = ""


@dataclass(frozen=True)
class Report:
    """The whole report.

    Attributes:
        author: labels and entries on the cover; `author_name` as in the file's properties.
        facts: of the cover: device, versions, dates.
        notices: what is to be known first, each with its class: ``notice``, ``wrong``, ``preview``.
        created: when the last run started, as in its record.
    """

    languages: tuple[str, ...]
    title: Text
    facts: Sequence[Words]
    notices: Sequence[tuple[str, Text]]
    sections: Sequence[Section]
    created: str
    author: Sequence[tuple[Text, str]] = ()
    author_name: str = "FlashLab"


def chapter(told: Text, tables: Sequence[Table], figures: Sequence[Figure]) -> list[Block]:
    """The parts of a chapter: its paragraph, its tables, its figures, wide ones first.

    Beside a single narrow one stands the second language.
    """
    wide = [figure for figure in figures if not figure.is_half]
    narrow = [figure for figure in figures if figure.is_half]
    is_beside = len(narrow) == 1 and any(told.values())
    prose = Prose(told, only="first" if is_beside else "")
    blocks: list[Block] = [prose] if any(told.values()) else []
    blocks += tables
    blocks += [Figures([figure]) for figure in wide]
    return blocks + ([Figures(narrow, told if is_beside else None)] if narrow else [])
