"""Naive attention: the course's `Pytorch` implementation, which holds the N × N scores in memory.

B batch_size, T queries, S keys (T = S = N), H num_heads, D head_dim.
"""

import torch
from torch.nn import functional

NAME = "Pytorch"
LABEL = {"zh_TW": "Pytorch（直接實作）", "en": "Pytorch (naive)"}
PACKAGES = ("torch",)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention from one packed tensor.

    Args:
        qkv: (B, N, 3, H, D), any floating dtype.
        causal: whether position t may see positions after t; the mask is made at each call and
            adds -10000, as in the course's script, so that memory and time are comparable to it.

    Returns:
        (B, N, H, D) in qkv's dtype.
    """
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.unbind(dim=2)  # each (B, N, H, D)
    q = q.transpose(1, 2).reshape(B * H, N, D)  # (B·H, T, D)
    k = k.permute(0, 2, 3, 1).reshape(B * H, D, N)  # (B·H, D, S)
    scores = torch.empty(B * H, N, N, dtype=qkv.dtype, device=qkv.device)
    scores = torch.baddbmm(scores, q, k, beta=0, alpha=D**-0.5)  # (B·H, T, S)
    scores = scores.view(B, H, N, N)
    if causal:
        mask = torch.triu(torch.full((N, N), -10000.0, device=qkv.device), 1)  # (T, S)
        scores = scores + mask.to(dtype=scores.dtype)
    weights = torch.softmax(scores, dim=-1, dtype=v.dtype)  # (B, H, T, S)
    weights = functional.dropout(weights, 0.0)
    return torch.einsum("bhts,bshd->bthd", weights, v)  # (B, T, H, D)
