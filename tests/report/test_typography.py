from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from flashlab.labels import messages
from flashlab.report.render import typeset, unbroken


def test_an_equation_and_a_quantity_stay_on_one_line() -> None:
    assert unbroken("at N = 1024 it takes 0.9 ms, 3 times as long") == (
        "at N\u00a0=\u00a01024 it takes 0.9\u00a0ms, 3 times as long"
    )
    assert unbroken("the N × N scores at B 16") == "the N\u00a0×\u00a0N scores at B\u00a016"


def test_two_full_width_marks_in_a_row_are_set_closer() -> None:
    assert typeset("前向（完整）：快", "zh_TW") == (
        '前向（完整<span class="pair"><span class="half">）</span>：</span>快'
    )
    assert "span" not in typeset("forward (full): fast", "en")


@given(st.text(alphabet=st.sampled_from("<>&\"'（）：，快 a1=N;")))
def test_whatever_is_written_stays_text(text: str) -> None:
    for language in ("zh_TW", "en"):
        without_ours = re.sub(
            r'</?span(?: class="(?:pair|half|unit)")?>', "", typeset(text, language)
        )
        assert not re.search("[<>\"']", without_ours)


def test_scripts_are_a_space_apart_in_chinese_labels_and_full_width_marks_are_not() -> None:
    for domain in ("report", "figures"):
        for key, text in messages("zh_TW", domain).items():
            whole = re.sub(r"\{\w+\}", "〓", text)
            assert not re.search("[，。；：（）] | [，。；：（）]", whole), (key, text)
            assert not re.search("[一-龥][A-Za-z0-9]|[A-Za-z0-9%][一-龥]", whole), (key, text)
