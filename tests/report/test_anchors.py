"""The texts of figures are drawn from where they start, which is where their anchor had them."""

from __future__ import annotations

import re

import pytest

from flashlab.figures.style import drawing, text_points
from flashlab.report.render import from_their_starts

TEXT = (
    "<text style=\"font-size: 6.5px; font-family: 'Noto Sans TC'; text-anchor: {}; fill: #262626\" "
    'x="{}" y="20.5" transform="rotate({} {} 20.5)">{}</text>'
)


def text(anchor: str, x: float, said: str = "0.05 &lt;", turned: str = "-0") -> str:
    return TEXT.format(anchor, x, turned, x, said)


def start_of(svg: str) -> float:
    (x,) = re.findall(r'x="([\d.]+)"', svg)
    return float(x)


def test_a_level_text_begins_as_far_to_the_left_as_its_width_says() -> None:
    with drawing():
        width = text_points("0.05 <")
    ended, centred = (from_their_starts(text(anchor, 100)) for anchor in ("end", "middle"))
    assert "text-anchor" not in ended + centred and "rotate" not in ended + centred
    assert 100 - start_of(ended) == pytest.approx(width, rel=0.02)
    assert 100 - start_of(centred) == pytest.approx((100 - start_of(ended)) / 2)
    assert from_their_starts(text("start", 100)) == text("start", 100)
    assert from_their_starts(text("middle", 100, turned="-90")) == text("middle", 100, turned="-90")
