"""Which characters the report's fonts have, and what is printed in place of the others.

The report's own texts must have a glyph for every character. What users wrote (a name, a title, a
remark, a record's message) may contain any character, so a substitute replaces one that the fonts
lack, and a warning names it. System fonts are never used: the report would then depend on the
machine that renders it.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from functools import cache
from pathlib import Path

FONTS = Path(__file__).parents[3] / "templates" / "fonts"
STAND_IN = "〓"
"""The geta mark, which Chinese and Japanese typesetters use for a missing character."""

SPACES = frozenset("\t\n\r")
"""Characters that need no glyph."""

_VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")

_logger = logging.getLogger(__name__)


@cache
def covered() -> frozenset[int]:
    """The code points that the report's fonts have, each weight the same."""
    # Only a report needs it, and the rules are read where Snakemake alone is installed.
    from fontTools.ttLib import TTFont

    with TTFont(FONTS / "NotoSansTC-Regular.ttf", lazy=True) as font:
        # Without names of glyphs given to it, it makes them up from the code points, in twice the
        # time that everything else takes.
        font.setGlyphOrder([""] * font["maxp"].numGlyphs)
        return frozenset(font.getBestCmap())


def _lacking(character: str) -> bool:
    return ord(character) not in covered() and character not in SPACES


def _named(character: str) -> str:
    """``😀 (U+1F600 GRINNING FACE)``; the code point alone if it cannot be shown."""
    shown = f"{character} " if character.isprintable() else ""
    name = unicodedata.name(character, "")
    return f"{shown}(U+{ord(character):04X}{f' {name}' if name else ''})"


def legible(text: str, place: str) -> str:
    """`text` with `STAND_IN` for every character that the fonts lack, each logged as a warning.

    Combining characters are composed first (e and ´ to é), and an invisible one, such as a
    variation selector, is omitted without a warning. `place` is where it was written.
    """
    if not any(map(_lacking, text)):
        return text
    shown, warned = [], set()
    for character in unicodedata.normalize("NFC", text):
        if not _lacking(character):
            shown.append(character)
        elif unicodedata.category(character) != "Cf" and not _VARIATIONS.fullmatch(character):
            shown.append(STAND_IN)
            if character not in warned:
                warned.add(character)
                _logger.warning(
                    "%s: the report's fonts lack %s; %s is printed in its place",
                    place,
                    _named(character),
                    STAND_IN,
                )
    return "".join(shown)


def cut(text: str, longest: int) -> str:
    """`text`, or its first characters and …, `longest` in all."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
