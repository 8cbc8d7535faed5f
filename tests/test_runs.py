from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.model import Benchmark, Parameter
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
    sizes = ["batch_size", "seq_len", "num_heads", "num_kv_heads", "emb_dim"]
    assert list(run) == [*sizes, "causal"]
    assert Shape.of(run).head_dim == 64
    with pytest.raises(KeyError):
        run["head_dim"]


def later(default: bool = True) -> Benchmark:
    """Attention with a parameter that records from before do not have."""
    window = Parameter(
        "window",
        "W",
        {"zh_TW": "窗口", "en": "window"},
        default=(lambda given: given["seq_len"]) if default else None,
    )
    return replace(ATTENTION, parameters=(*ATTENTION.parameters, window))


def test_a_run_from_before_a_parameter_stays_the_run_that_it_was() -> None:
    shape = Shape(16, 1024, 32, 2048, False)
    before = attention_run("Flash2", shape, "float16", "cuda")
    now = Run.of(later(), before.to_json())
    assert now["window"] == 1024
    assert (now.to_json(), now.slug, str(now)) == (before.to_json(), before.slug, str(before))
    assert now.to_row() == {**before.to_row(), "window": 1024}
    fewer = Run.of(later(), {**before.to_json(), "window": 256})
    assert fewer.to_json() == {**before.to_json(), "window": 256}
    assert fewer.slug == "flash2-b16-n1024-h32-e2048-full-w256-float16-cuda"
    assert Run.of(later(), fewer.to_json()) == fewer != now
    with pytest.raises(KeyError, match="window"):
        Run.of(later(default=False), before.to_json())


def test_what_all_runs_have_by_default_says_nothing_of_them() -> None:
    runs = [attention_run("Flash2", Shape(1, 64, h, 64, False), "float32", "cpu") for h in (2, 4)]
    shared = attention_run("Flash2", Shape(1, 64, 4, 64, False, 2), "float32", "cpu")
    names = [parameter.name for parameter in ATTENTION.stated([*runs, shared])]
    assert names == [parameter.name for parameter in ATTENTION.parameters]
    assert [p.name for p in ATTENTION.stated(runs)] == [n for n in names if n != "num_kv_heads"]


def test_a_run_that_shares_keys_is_named_by_it() -> None:
    shared = attention_run("Flash2", Shape(16, 1024, 32, 2048, False, 8), "float16", "cuda")
    assert str(shared) == "Flash2 B16 N1024 H32 H_kv8 E2048 full float16 cuda"
    assert Shape.of(shared) == Shape(16, 1024, 32, 2048, False, 8)
    assert (
        "num_kv_heads"
        not in attention_run(
            "Flash2", Shape(16, 1024, 32, 2048, False, 32), "float16", "cuda"
        ).to_json()
    )
