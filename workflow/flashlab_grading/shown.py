r"""Others' names and texts, made safe to show in a terminal, a CSV cell and a PDF.

Control and format characters (newlines, ANSI escapes, marks that reverse the direction of text),
bytes that are not UTF-8, and characters that the report's font lacks become visible escapes such as
``\u202e``. A backslash becomes two.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from flashlab.telling.glyphs import covered

MARKS = {"pass": "✓", "warn": "△", "fail": "×", "not_checked": "–"}

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MAX_CELL = 32_000
"""Most characters of a CSV cell: a spreadsheet holds 32,767, and cuts the rest off in silence."""

MAX_CHARACTERS = 160
"""Most characters of a name or text in a PDF."""


@cache
def _escaped_character(character: str, needs_glyph: bool) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    visible = character == " " or unicodedata.category(character)[0] in "LMNPS"
    if visible and (not needs_glyph or code in covered()):
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escaped(text: str, needs_glyph: bool = False) -> str:
    """`text` with visible escapes for everything that could mislead a reader or break a parser."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text  # the font has all of these
    return "".join(_escaped_character(character, needs_glyph) for character in text)


def for_page(text: str) -> str:
    """`text` for the PDF: escaped, without missing glyphs, and shortened in the middle."""
    shown = escaped(text, needs_glyph=True)
    if len(shown) <= MAX_CHARACTERS:
        return shown
    half = MAX_CHARACTERS // 2 - 2
    return f"{shown[:half]} … {shown[-half:]}"


def cell(text: str) -> str:
    """`text` for a CSV cell: escaped, never a formula, and short enough for any spreadsheet."""
    shown = escaped(text)
    shown = shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}…"
    return f"'{shown}" if shown.startswith(FORMULA_STARTS) else shown
