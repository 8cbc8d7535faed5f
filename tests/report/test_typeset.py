"""How texts are set: on one line, closer, in one font, from their starts; and they stay texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.figures.style import drawing, text_points
from flashlab.labels import messages
from flashlab.report.render import from_their_starts, typeset, unbroken


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("at N = 1024 in 0.9 ms, 3 times", "at N\u00a0=\u00a01024 in 0.9\u00a0ms, 3 times"),
        ("the N × N scores at B 16", "the N\u00a0×\u00a0N scores at B\u00a016"),
    ],
)  # fmt: skip
def test_an_equation_and_a_quantity_stay_on_one_line(text: str, kept: str) -> None:
    assert unbroken(text) == kept


@given(st.text(alphabet=st.sampled_from("<>&\"'（）：，快 a1=N;")))
def test_whatever_is_written_stays_text(text: str) -> None:
    for language in ("zh_TW", "en"):
        own = r'</?span(?: class="(?:pair|half|unit)")?>'
        assert not re.search("[<>\"']", re.sub(own, "", typeset(text, language)))


def test_scripts_are_a_space_apart_in_chinese_labels_and_full_width_marks_are_not() -> None:
    for key, text in (messages("zh_TW", "report") | messages("zh_TW", "figures")).items():
        whole = re.sub(r"\{\w+\}", "〓", text)
        assert not re.search("[，。；：（）] | [，。；：（）]", whole), (key, text)
        assert not re.search("[一-龥][A-Za-z0-9]|[A-Za-z0-9%][一-龥]", whole), (key, text)


def test_a_level_text_of_a_figure_begins_as_far_to_the_left_as_its_width_says() -> None:
    def text(anchor: str, turned: str = "-0") -> str:
        style = f"font-size: 6.5px; font-family: 'Noto Sans TC'; text-anchor: {anchor}; fill: #222"
        at = f'x="100" y="20.5" transform="rotate({turned} 100 20.5)"'
        return f'<text style="{style}" {at}>0.05 &lt;</text>'

    with drawing():
        width = text_points("0.05 <")
    for anchor, share in (("end", 1), ("middle", 0.5)):
        set_ = from_their_starts(text(anchor))
        assert "text-anchor" not in set_ and "rotate" not in set_
        (x,) = re.findall(r'x="([\d.]+)"', set_)
        assert 100 - float(x) == pytest.approx(share * width, rel=0.02)
    for kept in (text("start"), text("middle", "-90")):
        assert from_their_starts(kept) == kept
