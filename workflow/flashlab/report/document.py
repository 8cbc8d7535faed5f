"""The report as data, in reading order: the template only renders it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flashlab.benchmarks.model import Benchmark
from flashlab.telling.values import Tellable, say


@dataclass(frozen=True)
class Link:
    """A link within the report: its anchor, and its text."""

    target: str
    text: Tellable


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, a note in small type (an interval), the target of a link.

    `tone` is ``up``, ``down`` or empty: good and bad news, beside the sign that says the same.
    `strong` text is the best of its kind; `pad` is the room on its right, in digits, that aligns it
    at the decimal point. `files` are files of the project, each by its name and its path from the
    project's folder.
    """

    text: str
    note: str = ""
    tone: str = ""
    target: str = ""
    strong: bool = False
    pad: float = 0
    files: Sequence[tuple[str, str]] = ()


def run_cell(number: int) -> Cell:
    """A run's number, which leads to the appendix."""
    return Cell(str(number), target=f"run-{number}")


@dataclass(frozen=True)
class Row:
    """A table row: its cells (`Tellable` where languages differ), anchor, and implementation.

    `first` begins a group of rows.
    """

    cells: Sequence[Cell | Tellable]
    id: str = ""
    implementation: str = ""
    first: bool = False


@dataclass(frozen=True)
class Table:
    """A table with one heading a column in every language; `numeric` columns align right.

    `groups` are headings above those of the columns: each with how many columns it is for.
    """

    columns: Sequence[Tellable]
    rows: Sequence[Row]
    numeric: Sequence[int] = ()
    caption: Tellable | None = None
    id: str = ""
    groups: Sequence[tuple[Tellable, int]] = ()


def grouped(rows: Iterable[Row], end: int = 1) -> list[Row]:
    """Rows in groups that are alike in so many first cells, which the first of each has alone."""
    shown, before = list[Row](), None
    for row in rows:
        alike = [*row.cells[:end]]
        if alike == before:
            shown.append(replace(row, cells=[*[""] * end, *row.cells[end:]]))
        else:
            shown.append(replace(row, first=True))
        before = alike
    return shown


def table_of(keys: Iterable[str], rows: Sequence[Row], **more: Any) -> Table | None:
    """A table with these messages above its columns; None without any rows."""
    return Table([*map(say, keys)], rows, **more) if rows else None


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its anchor, picture, label, and caption, which is its alternative text too.

    `short` is the caption in short, for paper; a `wide` one has the width of a page.
    """

    id: str
    path: Path
    label: Tellable
    caption: Tellable
    short: Tellable | None = None
    wide: bool = False


@dataclass(frozen=True)
class PrintedStatement:
    """A fault of an implementation in words, and links to the runs."""

    text: Tellable
    links: Sequence[Link]
    implementations: Sequence[str]


@dataclass(frozen=True)
class Sentence:
    """An observation in words, and its name."""

    text: Tellable
    name: str


@dataclass(frozen=True)
class Section:
    """One experiment in detail."""

    id: str
    title: Tellable
    question: Tellable
    setting: Tellable
    figures: Sequence[FigureEntry]
    silent: Tellable | None
    remarks: dict[str, Markup]
    table: Table


@dataclass(frozen=True)
class Chapter:
    """Neighbouring experiments together, as printed; `sections` are the details.

    Its table may stand `beside` the only figure that is not wide.
    """

    id: str
    number: int
    title: Tellable
    setting: Tellable
    story: Sequence[Sentence]
    figures: Sequence[FigureEntry]
    table: Table | None
    table_label: Tellable
    table_caption: Tellable | None
    sections: Sequence[Section]
    beside: bool = False

    @property
    def rows(self) -> list[list[FigureEntry]]:
        """The figures in rows: a wide one alone, neighbouring others together."""
        rows: list[list[FigureEntry]] = []
        for figure in self.figures:
            if rows and not figure.wide and not rows[-1][0].wide:
                rows[-1].append(figure)
            else:
                rows.append([figure])
        return rows


@dataclass(frozen=True)
class ExperimentRow:
    """An experiment on page one: its title, its line, and its small figures."""

    number: int
    target: str
    title: Tellable
    figures: Sequence[FigureEntry]
    line: Sentence


@dataclass(frozen=True)
class HeatCell:
    """A cell of the heat map: its text, implementation, run number, and colour.

    `is_deep` is a colour on which text is white; `is_level` text is bold.
    """

    text: str = ""
    implementation: str = ""
    run: int | None = None
    colour: str = ""
    is_deep: bool = False
    is_level: bool = False


@dataclass(frozen=True)
class HeatBlock:
    """An experiment in one variant: titles, and rows of a size and each metric's cells."""

    titles: Sequence[Tellable]
    rows: Sequence[tuple[str, Sequence[Sequence[HeatCell]]]]


@dataclass(frozen=True)
class HeatMap:
    """Shares of the best by size, metric and implementation; `printed` are the blocks on paper."""

    label: Tellable
    caption: Tellable
    implementations: Sequence[str]
    metrics: Mapping[str, Tellable]
    blocks: Sequence[HeatBlock]
    printed: Sequence[HeatBlock]


@dataclass(frozen=True)
class MapCell:
    """A cell of the choice map: the name, the text below it, and the number of its colour.

    `runs` are the numbers of the runs behind it, of those that it names.
    """

    name: str
    lead: str = ""
    styles: Sequence[int] = ()
    state: str = ""
    runs: Sequence[int] = ()


@dataclass(frozen=True)
class ChoiceChart:
    """One map: its title, the headings of its columns, and its rows, with a heading each."""

    title: Tellable
    metric: str
    corner: str
    columns: Sequence[Tellable]
    rows: Sequence[tuple[str, Sequence[MapCell]]]


@dataclass(frozen=True)
class PrintedMap:
    """The best implementations by setting and metric; the note names the settings left out."""

    charts: Sequence[ChoiceChart]
    note: Tellable


@dataclass(frozen=True)
class Front:
    """Page one; `author_name` is the name as written, for the file's properties.

    Without `names`, the headline says what each implementation is. `preview`, of a preview alone,
    stands on each page. `wrong` are the failed checks of correctness and the implausible rates.
    `figures` are the page's own, beside those of its experiments.
    """

    title: Tellable
    author_name: str
    author: Sequence[tuple[Tellable, str]]
    facts: Sequence[Tellable]
    names: Tellable | None
    notices: Sequence[Tellable]
    wrong: Sequence[PrintedStatement]
    map: PrintedMap | None
    experiments: Sequence[ExperimentRow]
    figures: Sequence[FigureEntry]
    headline: Table | None
    preview: Tellable | None = None
    story: Sequence[Sentence] = ()
    footnotes: Sequence[Sentence] = ()


@dataclass(frozen=True)
class Implementations:
    """All implementations side by side, the kernels that they launch, and figures of them."""

    table: Table
    kernels: Table | None
    figures: Sequence[FigureEntry]


@dataclass(frozen=True)
class Environment:
    """The machine, its ceilings, disagreements between records, and warnings."""

    facts: Sequence[tuple[Tellable, str]]
    peaks: Table | None
    own_peaks: Table | None
    agreement: Tellable
    varying: Table | None
    notices: Sequence[Tellable]
    warnings: Table | None
    failures: Table | None


@dataclass(frozen=True)
class Exploration:
    """The data of the page's charts, and the texts that static figures write in all languages.

    `metrics` and `charts` are what the page's script reads (`report.exploration`), but for words
    that are yet to be told.
    """

    metrics: Sequence[Mapping[str, Any]]
    charts: Sequence[Mapping[str, Any]]
    figure_texts: Sequence[Tellable]


@dataclass(frozen=True)
class Report:
    """The whole report: in no language, but with those that it is to be told in."""

    languages: tuple[str, ...]
    benchmark: Benchmark
    front: Front
    headline: Table | None
    heat_map: HeatMap | None
    chapters: Sequence[Chapter]
    sections: Sequence[Section]
    implementations: Implementations
    published: Table | None
    method: Sequence[Tellable]
    symbols: Table
    environment: Environment
    runs_note: Tellable
    runs: Table
    elsewhere: Tellable
    created: str
    exploration: Exploration
