"""The runs that the exact model of memory covers, and the bytes of the naive implementation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from exact_memory import exact_peak_memory

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape

SHAPE = Shape(batch_size=2, seq_len=128, num_heads=4, emb_dim=128, causal=False)
FLASH, TORCH = "flash-attn 2.8.3", "torch 2.11.0"
SDPA = "torch 2.11.0 SDPBackend.FLASH_ATTENTION (CUDA)"
MIB = costs.MIB


def modelled(
    name: str,
    provider: str,
    device_name: str | None = "NVIDIA H200",
    dtype: str = "float16",
    device: str = "cuda",
    **shape: int,
) -> float | None:
    run = attention_run(name, replace(SHAPE, **shape), dtype, device)
    return exact_peak_memory(run, provider, device_name)


@pytest.mark.parametrize(
    ("name", "provider", "changes"),
    [
        ("Flash2", FLASH, {"device": "cpu"}),
        ("Flash2", FLASH, {"dtype": "bfloat16"}),
        ("Flash2", FLASH, {"seq_len": 63}),
        ("Flash2", SDPA, {}),
        ("SdpaMath", FLASH, {}),
        ("Pytorch", TORCH, {"device_name": "Abacus"}),
        ("Pytorch", TORCH, {"device_name": "NVIDIA B200"}),
        ("Pytorch", TORCH, {"device_name": None}),
        # The allocator leaves a remainder.
        ("Pytorch", TORCH, {"num_heads": 2, "seq_len": 1024, "emb_dim": 256}),
    ],
)
def test_the_model_covers_no_other_runs(name: str, provider: str, changes: dict[str, Any]) -> None:
    assert modelled(name, provider, **changes) is None


@pytest.mark.parametrize(
    ("device", "workspaces"),
    [
        ("NVIDIA H200", 64 * MIB),
        ("NVIDIA A100-SXM4-40GB", 16.25 * MIB),
        ("NVIDIA GeForce RTX 3070", 16.25 * MIB),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_model_covers_both_implementations_with_the_devices_workspaces(
    device: str, workspaces: float, batch_size: int
) -> None:
    shape = replace(SHAPE, batch_size=batch_size)
    naive = costs.naive_peak_memory(shape, int(workspaces)) / MIB
    assert modelled("Pytorch", TORCH, device, batch_size=batch_size) == naive
    flash = costs.flash2_peak_memory(shape) / MIB
    assert modelled("Flash2", FLASH, device, batch_size=batch_size) == flash
