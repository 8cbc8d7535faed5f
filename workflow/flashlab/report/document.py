"""The report as data, in reading order: the template only renders it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from flashlab.report.wording import Texts


@dataclass(frozen=True)
class Link:
    """A link to another place in the report: its anchor, and its text."""

    target: str
    text: Texts


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, a note in small type (an interval), a mark, the target of a link.

    `tone` is ``up``, ``down`` or empty: good and bad news, beside the sign that says the same.
    """

    text: str
    note: str = ""
    mark: str = ""
    tone: str = ""
    target: str = ""


@dataclass(frozen=True)
class Row:
    """A table row: its cells (`Texts` where the languages differ), anchor, and whose it is.

    `first` begins a group of rows; `tone` is as a cell's.
    """

    cells: list[Cell | Texts]
    id: str = ""
    implementation: str = ""
    first: bool = False
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """A table with one heading a column in every language; `numeric` columns align right."""

    columns: list[Texts]
    rows: list[Row]
    numeric: range = range(0)
    caption: Texts | None = None
    id: str = ""


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its anchor, picture, label, and caption, which is its alternative text too."""

    id: str
    path: Path
    label: Texts
    caption: Texts

    @property
    def alt(self) -> str:
        """The caption in every language."""
        return " ".join(self.caption.values())


@dataclass(frozen=True)
class Statement:
    """A finding in words, what it is about, the mark of its warnings, and links to its data."""

    text: Texts
    mark: str = ""
    lead: Texts | None = None
    links: list[Link] = field(default_factory=list)
    implementations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statements:
    """Findings in words, and what their marks mean: warnings on the records behind them."""

    entries: list[Statement]
    doubts: Texts | None = None


@dataclass(frozen=True)
class Section:
    """One experiment."""

    id: str
    title: Texts
    question: Texts
    setting: Texts
    statements: Statements
    figures: list[FigureEntry]
    others: Table | None
    silent: Texts | None
    remarks: dict[str, Markup]
    table: Table


@dataclass(frozen=True)
class Front:
    """Page one; `author_name` is the name as written, for the file's properties.

    The first `ranked` of the key findings are in order of strength; the weakest of them is left out
    where the page is full.
    """

    title: Texts
    subtitle: Texts
    author_name: str
    author: list[tuple[Texts, str]]
    facts: list[tuple[Texts, Texts]]
    notices: list[Texts]
    key: Statements
    ranked: int
    figure: FigureEntry | None
    headline: Table


@dataclass(frozen=True)
class Implementations:
    """All implementations side by side, under the roofline, and overtaking one another."""

    table: Table
    choices: Table | None
    rooflines: list[FigureEntry]
    statements: Statements
    roofline: Table | None
    others: list[FigureEntry]
    crossovers: Table | None


@dataclass(frozen=True)
class Ledger:
    """Published claims checked against this dataset, and those that could not be, by reason."""

    summary: Texts
    note: Texts | None
    table: Table | None
    others: list[tuple[Texts, list[Texts]]]


@dataclass(frozen=True)
class Environment:
    """The machine, its ceilings, where the records disagree, and what casts doubt on them."""

    facts: list[tuple[Texts, str]]
    peaks: Table | None
    agreement: Texts
    varying: Table | None
    notices: list[Texts]
    warnings: Table | None
    anomalies: Table | None
    failures: Table | None


@dataclass(frozen=True)
class Report:
    """The whole report."""

    languages: tuple[str, ...]
    front: Front
    sections: list[Section]
    implementations: Implementations
    ledger: Ledger | None
    method: list[Texts]
    symbols: Table
    environment: Environment
    checks: Table
    runs_note: Texts
    runs: Table
    created: str
