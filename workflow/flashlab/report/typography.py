"""Spacing and line breaks of Chinese with Latin, which the typesetter does not know.

- A space between Han characters and Latin letters or digits, and none beside full-width marks.
- No line break inside ``N = 1024``, ``N 1024``, ``N × N`` or ``(GB/s)``, nor between a number and
  its unit, or ``Table`` and its number.
- Quotation marks of English text are straight.
- Two full-width marks in a row, such as ``）：``, take the room of one and a half.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

HAN = "\u3400-\u9fff"
MARKS = "，。、；：？！「」『』（）〔〕【】《》"
CLOSING = "，。、；：？！」』）〕】》"
NO_BREAK = "\u00a0"

_HAN_LATIN = re.compile(f"(?<=[{HAN}])(?=[A-Za-z0-9α-ω])|(?<=[A-Za-z0-9%α-ω])(?=[{HAN}])")
_BESIDE_MARK = re.compile(f"(?<=[{MARKS}])[ ]+|[ ]+(?=[{MARKS}])")
_EQUATION = re.compile(r"\b([A-Za-zα-ω]) (=|×|≥|≤) (?=[\d.]|[A-Za-z]\b)")
_SIZE = re.compile(r"\b([A-Zd]) (?=\d)")
_NUMBERED = re.compile(r"\b(Table|Figure|表|圖) (?=S?\d)")
_QUANTITY = re.compile(r"(?<=\d) (?=(?:ms|MiB|GiB|GB/s|GB|TFLOP/s|s)\b|倍|次方)")

# The font sets curved quotation marks as wide as a Han character, in whatever language.
_STRAIGHT = str.maketrans("“”‘’", "\"\"''")
_UNIT = re.compile(r"\([A-Za-z]+/[a-z]+\)")
_PAIR = re.compile(f"([{CLOSING}])([{MARKS}])")


def spaced(text: str) -> str:
    """Chinese text with a space where scripts meet, and none beside full-width marks."""
    return _BESIDE_MARK.sub("", _HAN_LATIN.sub(" ", text))


def unbroken(text: str) -> str:
    """Text whose equations and quantities stay on one line."""
    numbered = _NUMBERED.sub(rf"\1{NO_BREAK}", text)
    sized = _SIZE.sub(rf"\1{NO_BREAK}", numbered)
    return _QUANTITY.sub(NO_BREAK, _EQUATION.sub(rf"\1{NO_BREAK}\2{NO_BREAK}", sized))


def typeset(text: str, language: str) -> Markup:
    """A text as it is set: escaped, spaced, its equations unbroken, its paired marks tightened."""
    chinese = language == "zh_TW"
    escaped = escape(unbroken(spaced(text) if chinese else text.translate(_STRAIGHT)))
    # Neither units nor marks are part of an entity, so that what was escaped stays escaped.
    whole = _UNIT.sub(r'<span class="unit">\g<0></span>', str(escaped))
    if not chinese:
        return Markup(whole)
    pair = '<span class="pair"><span class="half">\\1</span>\\2</span>'
    return Markup(_PAIR.sub(pair, whole))
