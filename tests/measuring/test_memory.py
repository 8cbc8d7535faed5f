from __future__ import annotations

import gc
from collections.abc import Callable

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


def sizes(shape: Shape) -> tuple[int, int]:
    """Bytes of the score matrices (B, H, N, N) and of one of q, k, v, out (B, N, H, D)."""
    return (
        4 * shape.batch_size * shape.num_heads * shape.seq_len**2,
        4 * shape.batch_size * shape.seq_len * shape.emb_dim,
    )


def test_naive_with_long_sequences_peaks_in_the_softmaxs_backward() -> None:
    shape = Shape(2, 256, 4, 64, False)
    scores, one = sizes(shape)
    # weights, their gradient, the scores' gradient; qkv (3), copies of q, k, v, out, dout, dv
    for form in ("packed", "separate"):
        assert peak_of("Pytorch", shape, form) == 3 * scores + 9 * one


def test_naive_with_wide_heads_peaks_where_dqkv_is_put_together() -> None:
    shape = Shape(2, 128, 4, 1024, False)
    scores, one = sizes(shape)
    # weights; qkv (3), copies of q, k, v, out, dout, dq, dk, dv, dqkv (3)
    assert peak_of("Pytorch", shape) == scores + 14 * one
    # With separate inputs nothing is put together.
    assert peak_of("Pytorch", shape, "separate") < scores + 14 * one


def test_flash_never_holds_the_scores() -> None:
    short, long = (peak_of("Flash2", Shape(1, n, 2, 64, False)) for n in (512, 2048))
    assert 3.9 < long / short < 4.1


def allocating(*steps: int) -> Callable[[], None]:
    """Allocates (positive) and frees (negative) this many MiB, one after the other."""

    def both_passes() -> None:
        held: dict[int, torch.Tensor] = {}
        for step in steps:
            if step > 0:
                held[step] = torch.empty(step * MIB, dtype=torch.int8)
            else:
                del held[-step]

    return both_passes


@pytest.mark.parametrize(
    ("steps", "peak"), [((5,), 5), ((5, -5, 3), 5), ((5, 2, -5, 4, 1), 7), ((1, 2, 3, -2, 8), 12)]
)
def test_the_peak_is_what_was_held_at_once(steps: tuple[int, ...], peak: int) -> None:
    assert peak_memory(allocating(*steps), "cpu") == peak * MIB


def test_what_was_held_before_does_not_count() -> None:
    before = torch.empty(50 * MIB, dtype=torch.int8)
    assert peak_memory(allocating(5), "cpu") == 5 * MIB
    assert before.numel() == 50 * MIB


def test_what_earlier_work_left_to_the_collector_does_not_count() -> None:
    circle: list[object] = [torch.empty(50 * MIB, dtype=torch.int8)]
    circle.append(circle)
    del circle

    def both_passes() -> None:
        gc.collect()
        allocating(5)()

    assert peak_memory(both_passes, "cpu") == 5 * MIB
