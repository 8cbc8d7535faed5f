"""The one formatter: lines, lists and tables for a terminal, as plain text, and as Markdown.

On a terminal, verdicts are coloured and tables fit its width. Elsewhere the text is the same
whatever the surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from flashlab.compare.words import EQUAL, FAILED, GAINS, LOSSES, MENDED
from flashlab.files import json_text

COLOURS = {
    **dict.fromkeys((FAILED, *LOSSES), "red"),
    **dict.fromkeys((MENDED, *GAINS), "green"),
    EQUAL: "cyan",
}
PLAIN_WIDTH = 10_000
"""Columns of a text for a file or a pipe: nothing is wrapped."""


class Title(str):
    """A heading."""


@dataclass(frozen=True)
class Folded:
    """A table that Markdown folds away under a summary."""

    summary: str
    table: Table


Cell = str | Text
Block = str | list[str | list[str]] | Table | Folded
"""A line, a list (an inner list belongs to the item before it) or a table."""


def verdict_cell(words: str, verdict: str) -> Text:
    """A verdict in words, in its colour."""
    return Text(words, style=COLOURS.get(verdict, ""))


def table_of(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], numeric: Collection[int] = ()
) -> Table:
    """A table; `numeric` columns, by position, are aligned on the right.

    On a narrow terminal the others are broken, but for the first, the name of the row.
    """
    table = Table(box=None, pad_edge=False)
    for position, heading in enumerate(headings):
        is_number = position in numeric
        whole = is_number or position == 0
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    return table


def _plain(table: Table) -> list[str]:
    console = Console(width=PLAIN_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def _escaped(text: object) -> str:
    return re.sub(r"([\\|*])", r"\\\1", str(text))


def _markdown(table: Table) -> list[str]:
    columns = [[column.header, "---", *column.cells] for column in table.columns]
    return [f"| {' | '.join(map(_escaped, row))} |" for row in zip(*columns, strict=True)]


def _lines(block: Block, markdown: bool) -> list[str]:
    match block:
        case str():
            mark = "### " if isinstance(block, Title) else ""
            return [mark + _escaped(block) if markdown else block]
        case list():
            outer, inner = ("- ", "    - ") if markdown else ("", "  ")
            items = [[item] if isinstance(item, str) else item for item in block]
            marks = [outer if isinstance(item, str) else inner for item in block]
            return [mark + line for mark, item in zip(marks, items, strict=True) for line in item]
        case Folded():
            summary = f"<details><summary>{block.summary}</summary>"
            return [summary, "", *_lines(block.table, markdown), "", "</details>"]
        case Table():
            return _markdown(block) if markdown else _plain(block)


def as_text(blocks: Sequence[Block], markdown: bool = False) -> str:
    """Blocks as plain text or as Markdown, with an empty line between them."""
    return "\n\n".join("\n".join(_lines(block, markdown)) for block in blocks) + "\n"


def renderable(*blocks: Block) -> Group:
    """Blocks as they stand on a terminal."""
    return Group(
        *(
            block if isinstance(block, Table) else "\n".join(_lines(block, markdown=False))
            for block in blocks
        )
    )


def show(console: Console, *blocks: Block) -> None:
    """Print blocks on the console, with an empty line between them."""
    if console.is_terminal:
        spaced = [part for block in blocks for part in (block, "")]
        console.print(renderable(*spaced[:-1]))
    else:
        console.print(as_text(blocks), end="", soft_wrap=True)


def open_console() -> Console:
    """The console that everything is printed on, with nothing in a text taken for markup."""
    return Console(markup=False, highlight=False, emoji=False)


def publish(form: str, document: Any, blocks: Sequence[Block]) -> None:
    """Print a document as ``text``, ``markdown`` or ``json``."""
    if form == "text":
        show(open_console(), *blocks)
    else:
        print(
            json_text(document) if form == "json" else as_text(blocks, markdown=True),
            end="",
        )
