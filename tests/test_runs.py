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


@given(st.text(min_size=1), shapes, st.sampled_from(["float16", "float32"]))
def test_a_run_survives_its_json(name: str, shape: Shape, dtype: str) -> None:
    run = attention_run(name, shape, dtype, "cuda")
    assert Run.of(ATTENTION, json.loads(json.dumps(run.to_json()))) == run


def test_a_run_describes_itself_in_one_line_and_maps_its_parameters_and_nothing_else() -> None:
    run = attention_run("Flash2", Shape(16, 1024, 32, 2048, False), "float16", "cuda")
    assert str(run) == "Flash2 B16 N1024 H32 E2048 full float16 cuda"
    assert run.slug == "flash2-b16-n1024-h32-e2048-full-float16-cuda"
    assert list(run) == ["batch_size", "seq_len", "num_heads", "emb_dim", "causal"]
    assert Shape.of(run).head_dim == 64
    with pytest.raises(KeyError):
        run["head_dim"]
