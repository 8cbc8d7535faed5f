"""What an implementation is given: q, k and v as leaves of their own, or packed in one tensor."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from flashlab.benchmarks.attention.shape import Shape

SEPARATE = "separate"

Attention = Callable[..., torch.Tensor]
"""Takes the inputs of its form, then whether there is a causal mask, and gives (B, N, H, D)."""


def attention_of(kernel: ModuleType, form: str | None) -> Attention:
    """The function of a kernel that takes inputs of a form."""
    found: Attention = kernel.separate_attention if form == SEPARATE else kernel.attention
    return found


def random_inputs(
    shape: Shape, dtype: str, device: str, form: str | None
) -> tuple[torch.Tensor, ...]:
    """q, k and v, each (B, N, H, D), or the packed qkv (B, N, 3, H, D): contiguous leaves."""
    B, N, H, D = shape.batch_size, shape.seq_len, shape.num_heads, shape.head_dim
    sizes = [(B, N, H, D)] * 3 if form == SEPARATE else [(B, N, 3, H, D)]
    return tuple(
        torch.randn(size, dtype=getattr(torch, dtype), device=device, requires_grad=True)
        for size in sizes
    )


def packed(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Inputs of either form, or their gradients, as (B, N, 3, H, D)."""
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors, dim=2)
