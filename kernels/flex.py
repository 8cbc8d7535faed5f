"""PyTorch's flex_attention, compiled: a Triton kernel made for the mask.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

from functools import cache

import torch
import torch._functorch.config
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

NAME = "Flex"
LABEL = {"zh_TW": "FlexAttention", "en": "FlexAttention"}
PACKAGES = ("torch", "triton")
INPUTS = ("separate",)
TAKES = {"num_kv_heads": "in place"}

# The backward pass is called again on one graph, so its buffers may not be reused.
torch._functorch.config.donated_buffer = False
compiled = torch.compile(flex_attention, dynamic=False)


def _keep(b: torch.Tensor, h: torch.Tensor, t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return t >= s


@cache
def _causal_mask(seq_len: int, device: torch.device) -> BlockMask:
    return create_block_mask(_keep, None, None, seq_len, seq_len, device=str(device))


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), to (B, N, H, D).

    The block mask depends on seq_len alone and is made once for it, outside later calls.
    """
    if not q.is_cuda:
        raise NotImplementedError("flex_attention has no backward pass on the CPU")
    mask = _causal_mask(q.shape[1], q.device) if causal else None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, N, D), (B, H / G, N, D)
    out = compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])  # (B, H, N, D)
    return out.transpose(1, 2)  # (B, N, H, D)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    return separate_attention(*qkv.unbind(dim=2), causal)
