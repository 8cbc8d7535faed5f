"""The gate's reference, for packed tensors."""

from __future__ import annotations

import torch

from flashlab.benchmarks.attention.gate import reference


def reference_passes(
    qkv: torch.Tensor, grad: torch.Tensor, causal: bool, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, N, H, D) and gradient (B, N, 3, H, D) of standard attention, as float64."""
    B, H = qkv.shape[0], qkv.shape[3]
    every = (*qkv.detach().unbind(2), grad.detach())  # each (B, N, H, D)
    heads = [x.transpose(1, 2).flatten(0, 1)[:, None] for x in every]
    found = (x.unflatten(0, (B, H)).squeeze(2) for x in reference(heads, causal, dtype))
    out, *gradients = (x.transpose(1, 2) for x in found)
    return out, torch.stack(gradients, 2)
