"""Tables as text: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def as_text(rows: Sequence[Sequence[str]], headings: Sequence[str], markdown: bool = False) -> str:
    """A table of cells as they are; columns of numbers are those whose headings begin with `>`.

    These are aligned on the right.
    """
    names = [heading.removeprefix(">") for heading in headings]
    sides = ["right" if heading.startswith(">") else "left" for heading in headings]
    cells = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    if markdown:
        names, *cells = ([cell.replace("|", "\\|") for cell in row] for row in (names, *cells))
    frame = pd.DataFrame(cells, columns=pd.Index(names))
    form = "pipe" if markdown else "plain"
    align = sides if rows else None
    told = frame.to_markdown(index=False, tablefmt=form, disable_numparse=True, colalign=align)
    return "\n".join(line.rstrip() for line in str(told).splitlines())
