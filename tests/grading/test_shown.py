"""Texts of others, made safe to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab_grading.shown import MAX_CELL, MAX_CHARACTERS, cell, escaped, for_page, told_apart

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


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("ann", "ann ", ["ann", "ann\\u0020"]),
        ("José", "Jose\u0301", ["Jos\\u00e9", "Jose\\u0301"]),
        ("ann", "\u0430nn", ["ann", "\\u0430nn"]),
        ("王 明", "王\u3000明", ["\\u738b\\u0020\\u660e", "\\u738b\\u3000\\u660e"]),
    ],
)  # fmt: skip
def test_names_that_look_alike_are_told_apart(one: str, other: str, shown: list[str]) -> None:
    found = told_apart([one, other, "Анна"])
    assert found == dict(zip((one, other), shown, strict=True))


@given(st.lists(anything, unique=True))
def test_names_told_apart_are_all_different(names: list[str]) -> None:
    apart = told_apart(names)
    assert len({apart.get(name) or escaped(name) for name in names}) == len(names)


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
