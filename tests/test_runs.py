"""Runs: their texts, names and JSON, also from before a parameter; shapes as people write them."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.checking.shapes import FORM, ShapeError, parse_shapes, shape_text
from flashlab.runs import Run

SIZES = st.integers(1, 2**40)
SHAPES = st.builds(
    lambda b, n, kv, group, d, causal: Shape(b, n, kv * group, kv * group * d, causal, kv),
    *(SIZES, SIZES, SIZES, st.integers(1, 64), SIZES, st.booleans()),
)
HEADLINE = Shape(16, 1024, 32, 2048, False)


@given(st.text(min_size=1), SHAPES, st.sampled_from(["float16", "float32"]))
def test_a_run_survives_its_json(name: str, shape: Shape, dtype: str) -> None:
    run = attention_run(name, shape, dtype, "cuda")
    assert Run.of(ATTENTION, json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("kv_heads", "text"), [(32, "H32 E2048"), (8, "H32 H_kv8 E2048")], ids=["alone", "shared keys"]
)
def test_a_run_names_itself_by_what_is_not_default(kv_heads: int, text: str) -> None:
    shape = replace(HEADLINE, num_kv_heads=kv_heads)
    run = attention_run("Flash2", shape, "float16", "cuda")
    assert str(run) == f"Flash2 B16 N1024 {text} full float16 cuda"
    slug = text.lower().replace(" ", "-")
    assert run.slug == f"flash2-b16-n1024-{slug}-full-float16-cuda"
    assert ("num_kv_heads" in run.to_json()) == (kv_heads != 32)
    assert Shape.of(run) == shape and Shape.of(run).head_dim == 64


def later(default: bool = True) -> Benchmark:
    """Attention with a parameter that records from before do not have."""
    of = (lambda given: given["seq_len"]) if default else None
    window = Parameter("window", "W", {"zh_TW": "窗口", "en": "window"}, default=of)
    return replace(ATTENTION, parameters=(*ATTENTION.parameters, window))


def test_a_run_from_before_a_parameter_stays_the_run_that_it_was() -> None:
    before = attention_run("Flash2", HEADLINE, "float16", "cuda")
    now = Run.of(later(), before.to_json())
    assert now["window"] == 1024
    assert (now.to_json(), now.slug, str(now)) == (before.to_json(), before.slug, str(before))
    assert now.to_row() == {**before.to_row(), "window": 1024}
    fewer = Run.of(later(), {**before.to_json(), "window": 256})
    assert fewer.to_json() == {**before.to_json(), "window": 256}
    assert fewer.slug == "flash2-b16-n1024-h32-e2048-full-w256-float16-cuda"
    with pytest.raises(KeyError, match="window"):
        Run.of(later(default=False), before.to_json())


def test_what_all_runs_have_by_default_says_nothing_of_them() -> None:
    runs = [attention_run("Flash2", Shape(1, 64, h, 64, False), "float32", "cpu") for h in (2, 4)]
    shared = attention_run("Flash2", Shape(1, 64, 4, 64, False, 2), "float32", "cpu")
    names = [parameter.name for parameter in ATTENTION.stated([*runs, shared])]
    assert names == [parameter.name for parameter in ATTENTION.parameters]
    assert [p.name for p in ATTENTION.stated(runs)] == [n for n in names if n != "num_kv_heads"]


# Shapes on a command line


def parse(text: str) -> list[Shape]:
    return parse_shapes(text, batch_size=[2], seq_len=[37, 128], num_heads=[3], head_dim=[64])


@given(SHAPES, st.randoms(), st.booleans())
def test_a_shape_is_read_in_any_order_and_case(shape: Shape, random: Random, lower: bool) -> None:
    text = ", ".join(random.sample(parts := shape_text(shape).split(","), len(parts)))
    assert parse(text.lower() if lower else text) == [shape]
    assert parse(text.replace(f"D{shape.head_dim}", f"E{shape.emb_dim}")) == [shape]


@given(st.text())
def test_any_other_text_is_an_error_that_shows_the_form(text: str) -> None:
    try:
        assert parse(text)
    except ShapeError as error:
        assert str(error).startswith(repr(text)) and str(error).endswith(f"the form is {FORM}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(("", "'' is neither a size such as N1024"), ("B16,,N8", "'' is neither")),
        *(("B16,N0", "'N0' is neither"), ("N１２", "is neither")),
        *(("N8,n8", "N is given twice"), ("full,causal", "mask is given twice")),
        ("D64,E2048", r"give D \(head_dim\) or E \(emb_dim\), not both"),
        *(("H3,E2048", "H3 does not divide E2048"), ("H12,KV5", "KV5 does not divide H12")),
        *(("KV2", "KV2 does not divide H3"), ("N" + "9" * 5000, "the form is")),
    ],
)
def test_a_malformed_shape_is_named_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        parse(text)
