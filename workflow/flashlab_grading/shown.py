r"""Others' names and texts, made safe to show in a terminal, a CSV cell and a PDF.

What cannot be printed (newlines, ANSI escapes, marks that reverse the direction of text, bytes that
are not UTF-8) becomes a visible escape as Python writes it, such as ``\u202e``, and so does what
the report's fonts lack. A backslash becomes two. HTML is escaped by its template.
"""

from __future__ import annotations

from flashlab.telling.glyphs import covered

MARKS = {"pass": "✓", "warn": "△", "fail": "×", "not_checked": "–"}

MAX_CELL, MAX_CHARACTERS = 32_000, 160
"""Most characters of a CSV cell, of which a spreadsheet holds 32,767 and cuts the rest off in
silence; and of a name or text in a PDF."""


def escaped(text: str, needs_glyph: bool = False) -> str:
    """`text` with visible escapes for everything that could mislead a reader or break a parser."""
    return "".join(
        c if c.isprintable() and c != "\\" and (not needs_glyph or ord(c) in covered())
        else c.encode("unicode_escape").decode()
        for c in text
    )  # fmt: skip


def for_page(text: str) -> str:
    """`text` for the PDF: escaped, without missing glyphs, and shortened in the middle."""
    shown, half = escaped(text, needs_glyph=True), MAX_CHARACTERS // 2 - 2
    return shown if len(shown) <= MAX_CHARACTERS else f"{shown[:half]} … {shown[-half:]}"


def cell(text: str) -> str:
    """`text` for a CSV cell: escaped, never a formula, and short enough for any spreadsheet."""
    shown = escaped(text)
    shown = shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}…"
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
