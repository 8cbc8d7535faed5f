"""The operations and bytes of attention, and where a model of its peak memory is exact.

What the model gives is held against recorded datasets (`test_datasets`).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from exact_memory import exact_peak_memory

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape

HEADLINE = Shape(batch_size=32, seq_len=1024, num_heads=32, emb_dim=2048, causal=False)
TENSOR = 32 * 1024 * 2048
"""The elements of q, of an output, of a gradient."""


@pytest.mark.parametrize(("causal", "forward"), [(False, 2**38), (True, 2**37)])
def test_operations_are_4bn2hd_and_backward_two_and_a_half(causal: bool, forward: int) -> None:
    expected = {"forward": 1, "backward": 2.5, "forward_backward": 3.5}
    for shape in (replace(HEADLINE, causal=causal, num_kv_heads=kv) for kv in (32, 8)):
        found = costs.flops(shape)
        assert {name: found[name] / forward for name in expected} == expected


@pytest.mark.parametrize(("kv_heads", "forward", "backward"), [(32, 4, 7), (8, 2.5, 4)])
def test_each_tensor_moves_once(kv_heads: int, forward: float, backward: float) -> None:
    tensors = costs.compulsory_tensors(replace(HEADLINE, num_kv_heads=kv_heads))
    moved = {name: sum(of) / 2 / TENSOR for name, of in tensors.items()}
    assert moved == {"forward": forward, "backward": backward}


@pytest.mark.parametrize(("head_dim", "columns"), [(32, 32), (40, 64), (96, 96), (160, 192)])
def test_the_dq_accumulator_is_padded_as_flash_attn_pads_it(head_dim: int, columns: int) -> None:
    plain = 1024 * head_dim * (2 * 6 + 2 * 2) + 4 * 1024 + 4 * 1024 + 512
    peak = costs.flash2_peak_memory(Shape(1, 1024, 1, head_dim, False))
    assert peak == plain + 4 * 1024 * columns


FLASH, TORCH, H200 = "flash-attn 2.8.3", "torch 2.11.0", "NVIDIA H200"
SMALL, SDPA = Shape(2, 128, 4, 128, False), "torch 2.11.0 SDPBackend.FLASH_ATTENTION (CUDA)"


@pytest.mark.parametrize(
    ("name", "shape", "provider", "device_name", "is_known"),
    [
        *((name, SMALL, by, H200, True) for name, by in (("Flash2", FLASH), ("Pytorch", TORCH))),
        ("Pytorch", SMALL, TORCH, "NVIDIA GeForce RTX 3070", True),
        ("Flash2", Shape(1, 16384, 1, 64, True), FLASH, H200, True),
        ("Pytorch", Shape(1, 16384, 1, 64, True), TORCH, H200, False),  # its peak is in the forward
        ("Flash2", Shape(1, 127, 4, 256, False), FLASH, H200, False),  # N < 2d
        ("Flash2", Shape(1, 256, 4, 4 * 60, False), FLASH, H200, False),  # flash-attn pads d
        ("Flash2", Shape(1, 130, 1, 64, False), FLASH, H200, False),  # the allocator rounds up
        ("Pytorch", Shape(2, 1024, 2, 256, False), TORCH, H200, False),  # 1 MiB was held more
        *(("Flash2", SMALL, SDPA, H200, False), ("SdpaMath", SMALL, FLASH, H200, False)),
        *(("Pytorch", SMALL, TORCH, device, False) for device in ("Abacus", "NVIDIA B200", None)),
    ],
)
def test_the_model_covers_the_runs_whose_allocations_are_known(
    name: str, shape: Shape, provider: str, device_name: str | None, is_known: bool
) -> None:
    run = attention_run(name, shape, "float16", "cuda")
    assert exact_peak_memory(replace(run, dtype="bfloat16"), provider, device_name) is None
    assert (exact_peak_memory(run, provider, device_name) is not None) == is_known
