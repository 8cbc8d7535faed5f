"""Naive attention: the course's `Pytorch` implementation, which holds the N × N scores in memory.

B batch_size, T queries, S keys (T = S = N), H num_heads, D head_dim.
"""

import torch
from torch.nn import functional

NAME = "Pytorch"
LABEL = {"zh_TW": "Pytorch（直接實作）", "en": "Pytorch (naive)"}
PACKAGES = ("torch",)
INPUTS = ("separate", "packed")
TAKES = {"num_kv_heads": "repeated"}
STORES_SCORES = True


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q, k and v.

    Args:
        q: (B, N, H, D), any floating dtype.
        k, v: (B, N, H / G, D), each head repeated for G of q.
        causal: whether position t may see positions after t; the mask is made at each call and
            adds -10000, as in the course's script, so that memory and time are comparable to it.

    Returns:
        (B, N, H, D) in q's dtype.
    """
    B, N, H, D = q.shape
    if k.shape[2] < H:
        k, v = (x.repeat_interleave(H // k.shape[2], 2) for x in (k, v))  # each (B, N, H, D)
    q = q.transpose(1, 2).reshape(B * H, N, D)  # (B·H, T, D)
    k = k.permute(0, 2, 3, 1).reshape(B * H, D, N)  # (B·H, D, S)
    scores = torch.empty(B * H, N, N, dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(scores, q, k, beta=0, alpha=D**-0.5)  # (B·H, T, S)
    scores = scores.view(B, H, N, N)
    if causal:
        mask = torch.triu(torch.full((N, N), -10000.0, device=q.device), 1)  # (T, S)
        scores = scores + mask.to(dtype=scores.dtype)
    weights = torch.softmax(scores, dim=-1, dtype=v.dtype)  # (B, H, T, S)
    weights = functional.dropout(weights, 0.0)
    return torch.einsum("bhts,bshd->bthd", weights, v)  # (B, T, H, D)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    return separate_attention(*qkv.unbind(dim=2), causal)
