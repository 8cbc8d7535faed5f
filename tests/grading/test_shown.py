"""Texts of others, made safe to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab_grading.shown import MAX_CELL, MAX_CHARACTERS, cell, escaped, for_page

anything = st.text(st.characters(codec=None), max_size=60)


@given(anything)
@settings(deadline=None)  # the first example reads the fonts
def test_nothing_shown_can_steer_a_terminal_or_turn_text_round(text: str) -> None:
    for shown in (escaped(text), for_page(text), cell(text)):
        shown.encode("utf-8")
        assert all(c == " " or unicodedata.category(c)[0] in "LMNPS" for c in shown)


@given(anything, anything)
def test_two_names_never_look_alike(a: str, b: str) -> None:
    assert (escaped(a) == escaped(b)) == (a == b)


@given(anything, st.sampled_from("=+-@\t\r"))
def test_no_cell_is_a_formula(text: str, start: str) -> None:
    assert not cell(start + text).startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb", "a\\u000ab"), ("\x1b[0m", "\\u001b[0m"), ("a\\b", "a\\\\b"), ("結果", "結果"),
     ("\udcff", "\\xff"), ("🙂", "\\U0001f642")],
)  # fmt: skip
def test_a_page_shows(text: str, shown: str) -> None:
    assert for_page(text) == shown


def test_what_is_too_long_is_shortened() -> None:
    shown = for_page("a" * 200 + "b" * 200)
    assert len(shown) <= MAX_CHARACTERS
    assert shown.startswith("aaa") and shown.endswith("bbb") and " … " in shown
    assert cell("x" * MAX_CELL) == "x" * MAX_CELL
    assert cell("x" * (MAX_CELL + 1)) == "x" * (MAX_CELL - 1) + "…"
