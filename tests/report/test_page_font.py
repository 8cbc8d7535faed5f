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


def test_they_have_the_characters_of_a_text_as_far_as_the_font_does_and_names() -> None:
    rules = embedded_font("序列長度 N = 1024，🚀")
    _, chinese, others = rules.split("@font-face")
    assert characters_of(chinese) == set("序列長度，") and '"Embedded TC"' in chinese
    assert characters_of(others) == set(" N=1024") and '"Embedded Latin"' in others
    assert rules == embedded_font("🚀，4201 = N 度長列序")
