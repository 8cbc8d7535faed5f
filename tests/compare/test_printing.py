"""The formatter on a terminal, and where none is."""

from __future__ import annotations

import io

from compare.golden import two_sides
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.listing import blocks
from flashlab.compare.printing import show
from flashlab.compare.two_sides import compare_records


def printed(width: int, is_terminal: bool) -> str:
    """A comparison on a console."""
    before, after = two_sides()
    document = compare_records(ATTENTION, ("before", before), ("after", after))
    console = Console(
        file=io.StringIO(), force_terminal=is_terminal, width=width, markup=False, highlight=False
    )
    show(console, *blocks(document, "zh_TW", markdown=False))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_terminal_has_coloured_verdicts_and_no_line_wider_than_it_is() -> None:
    text = printed(70, is_terminal=True)
    plain = Text.from_ansi(text).plain
    assert "\x1b[31m較慢" in text
    assert max(cell_len(line) for line in plain.splitlines()) <= 70


def test_elsewhere_the_text_is_plain_and_the_same_whatever_the_width() -> None:
    text = printed(70, is_terminal=False)
    assert text == printed(200, is_terminal=False)
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("Flash4") and "MiB" in line]
    assert [row.endswith("  較差") for row in rows] == [True] * 4
