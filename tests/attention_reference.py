"""The gate's reference, for tensors as kernels take them."""

from __future__ import annotations

import torch
from torch import Tensor

from flashlab.benchmarks.attention.gate import reference


def separate_passes(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, causal: bool) -> list[Tensor]:
    """Output and gradients of q (B, N, H, D), k and v (B, N, H_kv, D), as float64."""
    B, kv_heads = q.shape[0], k.shape[2]
    every = (x.detach().transpose(1, 2).unflatten(1, (kv_heads, -1)) for x in (q, k, v, grad))
    found = reference([x.flatten(0, 1) for x in every], causal)
    return [x.unflatten(0, (B, kv_heads)).flatten(1, 2).transpose(1, 2) for x in found]


def reference_passes(qkv: Tensor, grad: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Output (B, N, H, D) and gradient (B, N, 3, H, D) of standard attention, as float64."""
    out, *gradients = separate_passes(*qkv.unbind(2), grad, causal)
    return out, torch.stack(gradients, 2)
