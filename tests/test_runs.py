from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.runs import Run

sizes = st.integers(1, 2**40)
shapes = st.builds(Shape, sizes, sizes, sizes, sizes, st.booleans())
runs = st.builds(
    attention_run,
    st.text(min_size=1),
    shapes,
    st.sampled_from(["float16", "bfloat16", "float32"]),
    st.sampled_from(["cuda", "cpu"]),
)


@given(runs)
def test_a_run_survives_its_json(run: Run) -> None:
    assert Run.of(ATTENTION, json.loads(json.dumps(run.to_json()))) == run


@given(runs, runs)
def test_equal_runs_have_equal_hashes_and_runs_have_an_order(a: Run, b: Run) -> None:
    assert (a == b) == (a.to_json() == b.to_json())
    assert len({a, b}) == 2 - (a == b)
    assert (a < b) or (b < a) or a == b


def test_a_run_describes_itself_in_one_line() -> None:
    run = attention_run("Flash2", Shape(16, 1024, 32, 2048, False), "float16", "cuda")
    assert str(run) == "Flash2 B16 N1024 H32 E2048 full float16 cuda"
    assert run.slug == "flash2-b16-n1024-h32-e2048-full-float16-cuda"


def test_a_run_maps_its_parameters_and_nothing_else() -> None:
    run = attention_run("Flash2", Shape(16, 1024, 32, 2048, True), "float16", "cuda")
    assert list(run) == ["batch_size", "seq_len", "num_heads", "emb_dim", "causal"]
    assert (run["seq_len"], run["causal"]) == (1024, True)
    assert Shape.of(run).head_dim == 64
    with pytest.raises(KeyError):
        run["head_dim"]


def test_a_parameter_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="emb_dim"):
        Run.of(ATTENTION, {"batch_size": 1, "seq_len": 2, "num_heads": 1, "causal": False})
