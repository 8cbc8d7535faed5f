from __future__ import annotations

import gc

import pytest
import torch

from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.memory import peak_memory

MIB = 2**20


def peak_of(name: str, shape: Shape, form: str = "packed") -> int:
    kernel = load_kernel(find_implementations()[name].path)
    run = {**vars(shape), "dtype": "float32", "device": "cpu", "inputs": form}
    return measure.peak_memory(kernel, run)


@pytest.mark.parametrize(
    ("shape", "form", "matrices", "inputs"),
    [
        # In the softmax's backward: weights, their gradient, the scores' gradient; qkv (3), copies
        # of q, k, v, out, dout, dv.
        (Shape(2, 256, 4, 64, False), "packed", 3, 9),
        (Shape(2, 256, 4, 64, False), "separate", 3, 9),
        # With wide heads where dqkv is put together: weights; qkv (3), copies of q, k, v, out,
        # dout, dq, dk, dv, dqkv (3).
        (Shape(2, 128, 4, 1024, False), "packed", 1, 14),
    ],
)
def test_the_naive_passs_peak_is_that_of_its_tensors(
    shape: Shape, form: str, matrices: int, inputs: int
) -> None:
    scores = 4 * shape.batch_size * shape.num_heads * shape.seq_len**2  # (B, H, N, N)
    one = 4 * shape.batch_size * shape.seq_len * shape.emb_dim  # (B, N, H, D)
    assert peak_of("Pytorch", shape, form) == matrices * scores + inputs * one


def test_flash_never_holds_the_scores() -> None:
    short, long = (peak_of("Flash2", Shape(1, n, 2, 64, False)) for n in (512, 2048))
    assert 3.9 < long / short < 4.1


@pytest.mark.parametrize(
    ("steps", "peak"), [((5,), 5), ((5, -5, 3), 5), ((5, 2, -5, 4, 1), 7), ((1, 2, 3, -2, 8), 12)]
)
def test_the_peak_is_what_was_held_at_once_beside_what_was_held_before(
    steps: tuple[int, ...], peak: int
) -> None:
    """Of steps that each allocate, or free where they are negative, this many MiB."""
    before: list[object] = [torch.empty(50 * MIB, dtype=torch.int8)]
    before.append(before)
    del before  # which the collector frees

    def both_passes() -> None:
        gc.collect()
        held: dict[int, torch.Tensor] = {}
        for step in steps:
            if step > 0:
                held[step] = torch.empty(step * MIB, dtype=torch.int8)
            else:
                del held[-step]

    assert peak_memory(both_passes, "cpu") == peak * MIB
