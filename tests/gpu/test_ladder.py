"""The kernel ladder on a GPU: every step right, alone and through the program."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from flashlab.hw4.judge import worst_error, write_case
from flashlab.hw4.program import find_step, run_program, steps
from flashlab.measuring.kernel import load_kernel

pytestmark = pytest.mark.gpu

CUDA_STEPS = [name for name in steps() if name != "Sequential"]


def inputs(*shape: int) -> list[torch.Tensor]:
    """Q, K and V on the GPU, uniform in [-3, 3)."""
    return [torch.rand(*shape, device="cuda") * 6 - 3 for _ in range(3)]


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q.double() @ k.double().transpose(1, 2) / q.shape[2] ** 0.5
    return scores.softmax(-1) @ v.double()


ROUNDED = 3 * 2 * 2**-11
"""Largest error of a step on tensor cores. Weights and values are rounded to 11 bits each, at most
2^-11 of them; the weights sum to 1 and the values are at most 3."""


@pytest.mark.parametrize("name", CUDA_STEPS)
@pytest.mark.parametrize("shape", [(3, 333, 64), (2, 1056, 32)])
def test_a_step_is_right_where_no_tile_is_full(name: str, shape: tuple[int, ...]) -> None:
    tolerance = ROUNDED if name in ("TensorTF32", "TensorFP16", "SplitKeys") else 2e-4
    step = load_kernel(find_step(name).path)
    q, k, v = inputs(*shape)
    out = torch.full_like(q, torch.nan)
    from numba import cuda

    torch.cuda.synchronize()
    step.attention(*map(cuda.as_cuda_array, (q, k, v, out)), cuda.stream())
    cuda.synchronize()
    assert float((out - reference(q, k, v)).abs().max()) < tolerance


def test_copies_that_overlap_the_kernel_lose_nothing() -> None:
    step = load_kernel(find_step("Streams").path)
    q, k, v = inputs(37, 128, 64)
    host = [step.host_array(q.shape) for _ in range(4)]
    for array, tensor in zip(host, (q, k, v), strict=False):
        array[:] = tensor.cpu().numpy()
    host[3][:] = np.nan
    step.attention_on_host(*host)
    assert np.abs(host[3] - reference(q, k, v).cpu().numpy()).max() < 2e-4


def test_the_program_computes_a_case_on_the_gpu(tmp_path: Path) -> None:
    source, target = tmp_path / "t06.bin", tmp_path / "t06.out"
    write_case(source, "t06", seed=0)
    parts = run_program(source, target, None)
    assert parts["overlapped"] > 0
    assert worst_error(source, target) < 5e-3
    assert "kernels.split_keys" in sys.modules
