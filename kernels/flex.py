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

# The backward pass is called again on one graph, so its buffers may not be reused.
torch._functorch.config.donated_buffer = False
compiled = torch.compile(flex_attention, dynamic=False)


def _keep(b: torch.Tensor, h: torch.Tensor, t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return t >= s


@cache
def _causal_mask(seq_len: int, device: torch.device) -> BlockMask:
    return create_block_mask(_keep, None, None, seq_len, seq_len, device=str(device))


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention from one packed tensor, qkv (B, N, 3, H, D), to (B, N, H, D).

    The block mask depends on seq_len alone and is made once for it, outside later calls.
    """
    if not qkv.is_cuda:
        raise NotImplementedError("flex_attention has no backward pass on the CPU")
    q, k, v = qkv.transpose(1, 3).unbind(dim=2)  # each (B, H, N, D)
    mask = _causal_mask(qkv.shape[1], qkv.device) if causal else None
    out = compiled(q, k, v, block_mask=mask)  # (B, H, N, D)
    return out.transpose(1, 2)  # (B, N, H, D)
