from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.shapes import FORM, ShapeError, parse_shapes, shape_text

SIZES = st.integers(1, 2**40)
SHAPES = st.builds(
    lambda b, n, h, d, causal: Shape(b, n, h, h * d, causal),
    *(SIZES, SIZES, SIZES, SIZES, st.booleans()),
)
SHARED = st.builds(
    lambda b, n, kv, group, d, causal: Shape(b, n, kv * group, kv * group * d, causal, kv),
    *(SIZES, SIZES, SIZES, st.integers(2, 64), SIZES, st.booleans()),
)


def parse(text: str) -> list[Shape]:
    return parse_shapes(text, batch_size=[2], seq_len=[37, 128], num_heads=[3], head_dim=[64])


@given(SHAPES | SHARED, st.randoms(), st.booleans())
def test_a_shape_is_read_from_its_own_text_in_any_order_case_and_spaces(
    shape: Shape, random: Random, lower: bool
) -> None:
    parts = shape_text(shape).split(",")
    text = ", ".join(random.sample(parts, len(parts)))
    assert parse(text.lower() if lower else text) == [shape]


@given(SHAPES)
def test_emb_dim_may_stand_in_place_of_head_dim(shape: Shape) -> None:
    text = shape_text(shape).replace(f"D{shape.head_dim}", f"E{shape.emb_dim}")
    assert parse(text) == [shape]


@given(st.text())
def test_any_other_text_is_an_error_that_shows_the_form(text: str) -> None:
    try:
        assert parse(text)
    except ShapeError as error:
        assert FORM in str(error)


def test_what_is_left_out_takes_every_value_given_for_it() -> None:
    assert parse("B4,D32") == [
        Shape(4, 37, 3, 96, False),
        Shape(4, 37, 3, 96, True),
        Shape(4, 128, 3, 96, False),
        Shape(4, 128, 3, 96, True),
    ]
    assert parse("N5,causal") == [Shape(2, 5, 3, 192, True)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is neither a size such as N1024"),
        ("B16,,N8", "'' is neither"),
        ("B16,N0", "'N0' is neither"),
        ("N1.5", "'N1.5' is neither"),
        ("N１２", "is neither"),
        ("casual", "'casual' is neither"),
        ("N8,n8", "N is given twice"),
        ("full,causal", "mask is given twice"),
        ("D64,E2048", "give D (head_dim) or E (emb_dim), not both"),
        ("H3,E2048", "H3 does not divide E2048"),
        ("H12,KV5", "KV5 does not divide H12"),
        ("KV2", "KV2 does not divide H3"),
        ("N" + "9" * 5000, "the form is"),
    ],
)
def test_a_malformed_shape_is_named_with_its_problem_and_the_form(text: str, problem: str) -> None:
    with pytest.raises(ShapeError) as caught:
        parse(text)
    assert str(caught.value).startswith(repr(text))
    assert problem in str(caught.value)
    assert str(caught.value).endswith(f"the form is {FORM}")
