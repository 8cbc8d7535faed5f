"""What an implementation is given: q, k and v as leaves of their own, or packed in one tensor."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from flashlab.benchmarks.attention.shape import Shape

SEPARATE = "separate"

LARGE = 8.0
"""More than random numbers ever are."""

Attention = Callable[..., torch.Tensor]
"""Takes the inputs of its form, then whether there is a causal mask, and gives (B, N, H, D)."""


def attention_of(kernel: ModuleType, form: str | None) -> Attention:
    """The function of a kernel that takes inputs of a form."""
    found: Attention = kernel.separate_attention if form == SEPARATE else kernel.attention
    return found


def random_inputs(
    shape: Shape, dtype: str, device: str, form: str | None
) -> tuple[torch.Tensor, ...]:
    """q, k and v, each (B, N, H, D), or the packed qkv (B, N, 3, H, D): contiguous leaves.

    They are normally distributed, but for a `LARGE` number in the last query of each head, and one
    in a key and value, which make a large score, too.
    """
    B, N, H, D = shape.batch_size, shape.seq_len, shape.num_heads, shape.head_dim
    sizes = [(B, N, H, D)] * 3 if form == SEPARATE else [(B, N, 3, H, D)]
    inputs = [torch.randn(size, dtype=getattr(torch, dtype), device=device) for size in sizes]
    q, k, v = inputs if form == SEPARATE else inputs[0].unbind(dim=2)
    q[:, -1, :, 0] = k[:, N // 2, :, 0] = v[:, N // 2, :, 0] = LARGE
    return tuple(each.requires_grad_() for each in inputs)


def packed(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Inputs of either form, or their gradients, as (B, N, 3, H, D)."""
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors, dim=2)
