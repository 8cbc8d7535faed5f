from __future__ import annotations

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.terminal.outcomes import aligned
from flashlab.terminal.progress import check_of

SHAPES = [Shape(16, 128, 32, 2048, False), Shape(1, 1024, 32, 2048, True)]


def test_runs_are_columns_with_blanks_where_one_has_a_default() -> None:
    plain = [attention_run("Pytorch", shape, "float16", "cuda") for shape in SHAPES]
    assert list(aligned(plain).values()) == [
        "Pytorch B16 N128  H32 E2048 full  ",
        "Pytorch B1  N1024 H32 E2048 causal",
    ]
    shared = attention_run("Flash2", Shape(1, 64, 32, 2048, True, 8), "float16", "cuda")
    assert list(aligned([*plain, shared]).values()) == [
        "Pytorch B16 N128  H32       E2048 full  ",
        "Pytorch B1  N1024 H32       E2048 causal",
        "Flash2  B1  N64   H32 H_kv8 E2048 causal",
    ]


def test_a_run_that_shares_keys_can_be_checked_at_its_shape() -> None:
    shared = attention_run("Flash2", Shape(1, 64, 32, 2048, True, 8), "float16", "cuda")
    call = "./run check Flash2 --shape B1,N64,H32,H_kv8,E2048,causal --dtype float16"
    assert check_of(shared) == call
