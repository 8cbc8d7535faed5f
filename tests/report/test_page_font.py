"""The font inside a web page: the characters of its text, and no others."""

from __future__ import annotations

import base64
import io

from fontTools.ttLib import TTFont

from flashlab.report.render import embedded_font


def characters_of(rule: str) -> set[str]:
    """The characters that a rule's font has."""
    data = rule.split("base64,")[1].split('"')[0]
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    return {chr(code) for code in font.getBestCmap()}


def test_it_has_the_characters_of_a_text_as_far_as_the_font_does_and_a_name() -> None:
    rule = embedded_font("序列長度 N = 1024，🚀")
    assert characters_of(rule) == set("序列長度 N = 1024，")
    assert 'font-family:"Embedded TC"' in rule
    assert rule == embedded_font("🚀，4201 = N 度長列序")
