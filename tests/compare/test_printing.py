"""The formatter on a terminal, and where none is."""

from __future__ import annotations

import io

from compare.golden import two_sides
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.comparison import compare_records
from flashlab.compare.listing import blocks
from flashlab.compare.printing import show


def test_a_terminal_has_coloured_verdicts_in_its_width_and_other_places_the_same_text() -> None:
    before, after = two_sides()
    document = compare_records(ATTENTION, ("before", before), ("after", after))

    def printed(width: int, is_terminal: bool) -> str:
        file = io.StringIO()
        console = Console(
            file=file, force_terminal=is_terminal, width=width, markup=False, highlight=False
        )
        show(console, *blocks(document, "zh_TW", markdown=False))
        return file.getvalue()

    shown, text = printed(70, is_terminal=True), printed(70, is_terminal=False)
    assert "\x1b[31m較慢" in shown
    assert max(map(cell_len, Text.from_ansi(shown).plain.splitlines())) <= 70
    assert "\x1b" not in text
    assert text == printed(200, is_terminal=False)
