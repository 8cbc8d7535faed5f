"""The operations and bytes of attention, and its peak memory where a model of it is exact."""

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


def test_the_peaks_at_the_headline_shape_are_those_that_were_published() -> None:
    assert costs.flash2_peak_memory(HEADLINE) / costs.MIB == 1288.00048828125
    parts = costs.naive_memory_parts(HEADLINE, workspaces=64 * costs.MIB)
    assert {name: size / costs.MIB for name, size in parts.items()} == {
        **{"scores": 8192, "inputs": 768, "output": 384, "workspaces": 64}
    }


@pytest.mark.parametrize(("causal", "forward"), [(False, 2**38), (True, 2**37)])
def test_operations_are_4bn2hd_and_backward_two_and_a_half(causal: bool, forward: int) -> None:
    expected = {"forward": 1, "backward": 2.5, "forward_backward": 3.5}
    for shape in (replace(HEADLINE, causal=causal, num_kv_heads=kv) for kv in (32, 8)):
        found = costs.flops(shape)
        assert {name: found[name] / forward for name in expected} == expected


@pytest.mark.parametrize(
    ("kv_heads", "dtype", "forward", "backward"),
    [(32, "float16", 4, 7), (32, "float32", 8, 14), (8, "bfloat16", 2.5, 4)],
)
def test_each_tensor_moves_once(kv_heads: int, dtype: str, forward: float, backward: float) -> None:
    tensors = costs.compulsory_tensors(replace(HEADLINE, num_kv_heads=kv_heads), dtype)
    moved = {name: sum(of) / 2 / TENSOR for name, of in tensors.items()}
    assert moved == {"forward": forward, "backward": backward}


@pytest.mark.parametrize(("head_dim", "columns"), [(32, 32), (40, 64), (96, 96), (160, 192)])
def test_the_dq_accumulator_is_padded_as_flash_attn_pads_it(head_dim: int, columns: int) -> None:
    shape = Shape(1, 1024, 1, head_dim, False)
    plain = 1024 * head_dim * (2 * 6 + 2 * 2) + 4 * 1024 + 4 * 1024 + 512
    assert costs.flash2_peak_memory(shape) == plain + 4 * 1024 * columns


@pytest.mark.parametrize("kv_heads", [8, 1])
def test_memory_that_sharing_saves_is_that_of_k_and_v_and_their_gradients(kv_heads: int) -> None:
    """Flash2 computes gradients of k and v for each head of q; the naive one repeats k and v."""
    shared, saved = replace(HEADLINE, num_kv_heads=kv_heads), 2 * TENSOR * (1 - kv_heads / 32)
    assert costs.flash2_memory_is_exact(shared) and costs.naive_memory_is_exact(shared)
    flash2 = [costs.flash2_peak_memory(shape) for shape in (HEADLINE, shared)]
    assert flash2[1] == flash2[0] - 4 * saved + 4 * TENSOR
    naive = [costs.naive_peak_memory(shape, 0) for shape in (HEADLINE, shared)]
    assert naive[1] == naive[0] - 2 * saved


FLASH, TORCH, H200 = "flash-attn 2.8.3", "torch 2.11.0", "NVIDIA H200"
SMALL, SDPA = Shape(2, 128, 4, 128, False), "torch 2.11.0 SDPBackend.FLASH_ATTENTION (CUDA)"


@pytest.mark.parametrize(
    ("name", "shape", "provider", "device_name", "workspaces"),
    [
        *((name, SMALL, by, H200, 64) for name, by in (("Flash2", FLASH), ("Pytorch", TORCH))),
        ("Pytorch", SMALL, TORCH, "NVIDIA GeForce RTX 3070", 16.25),
        ("Flash2", Shape(1, 16384, 1, 64, True), FLASH, H200, 64),
        ("Pytorch", Shape(1, 16384, 1, 64, True), TORCH, H200, None),  # its peak is in the forward
        ("Flash2", Shape(1, 127, 4, 256, False), FLASH, H200, None),  # N < 2d
        ("Flash2", Shape(1, 256, 4, 4 * 60, False), FLASH, H200, None),  # flash-attn pads d
        ("Flash2", Shape(1, 130, 1, 64, False), FLASH, H200, None),  # the allocator rounds up
        ("Pytorch", Shape(2, 1024, 2, 256, False), TORCH, H200, None),  # 1 MiB was held more
        *(("Flash2", SMALL, SDPA, H200, None), ("SdpaMath", SMALL, FLASH, H200, None)),
        *(("Pytorch", SMALL, TORCH, device, None) for device in ("Abacus", "NVIDIA B200", None)),
    ],
)
def test_the_model_covers_the_runs_whose_allocations_are_known(
    name: str, shape: Shape, provider: str, device_name: str | None, workspaces: float | None
) -> None:
    run = attention_run(name, shape, "float16", "cuda")
    found = exact_peak_memory(run, provider, device_name)
    assert exact_peak_memory(replace(run, dtype="bfloat16"), provider, device_name) is None
    if workspaces is None:
        assert found is None
    else:
        naive = costs.naive_peak_memory(shape, int(workspaces * costs.MIB))
        expected = costs.flash2_peak_memory(shape) if name == "Flash2" else naive
        assert found == expected / costs.MIB
