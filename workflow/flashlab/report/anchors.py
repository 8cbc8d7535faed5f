"""Figures' texts anchored at their starts, as WeasyPrint draws them.

WeasyPrint makes a transparency group of a text with another anchor. That takes 200 bytes, and some
viewers cut off its left edge at a low zoom.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cache

from flashlab.telling.glyphs import FONTS

SHARES = {"middle": 0.5, "end": 1.0}
"""The share of a text that is to the left of its anchor."""

_ANCHORED = re.compile(
    r'<text style="([^"]*?)text-anchor: (middle|end)(?:; )?([^"]*)" x="([-\d.]+)"( y="[-\d.]+")'
    r' transform="rotate\(-0 [^"]*\)">([^<]*)</text>'
)
"""A level text as matplotlib writes it."""

_SIZE = re.compile(r"font-size: ([\d.]+)px")


@cache
def _advance(weight: str) -> Callable[[str], float]:
    """The function from a character of the report's font to its advance, as a share of its size."""
    from fontTools.ttLib import TTFont

    with TTFont(FONTS / f"NotoSansTC-{weight}.ttf", lazy=True) as font:
        font.setGlyphOrder([str(number) for number in range(font["maxp"].numGlyphs)])
        glyphs, widths = font.getBestCmap(), font["hmtx"].metrics
        units = font["head"].unitsPerEm
    return lambda character: widths[glyphs[ord(character)]][0] / units


def _from_its_start(match: re.Match[str]) -> str:
    before, anchor, after, x, y, text = match.groups()
    style = before + after
    advance = _advance("Bold" if "font-weight: 700" in style else "Regular")
    width = float(_SIZE.findall(style)[0]) * sum(map(advance, html.unescape(text)))
    return f'<text style="{style}" x="{float(x) - SHARES[anchor] * width:.4f}"{y}>{text}</text>'


def from_their_starts(svg: str) -> str:
    """A figure with its level texts unmoved, each anchored at its start."""
    return _ANCHORED.sub(_from_its_start, svg)
