"""PyTorch's scaled_dot_product_attention, pinned to cuDNN's fused kernel.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

NAME = "SdpaCudnn"
LABEL = {"zh_TW": "SDPA cuDNN", "en": "SDPA cuDNN"}
PACKAGES = ("torch", "nvidia-cudnn-cu13")
INPUTS = ("separate",)
TAKES = {"num_kv_heads": "in place"}


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), to (B, N, H, D).

    RuntimeError "No available kernel" where the backend does not serve this device, dtype or
    head_dim; its reasons are warnings.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, N, D), (B, H / G, N, D)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )  # (B, H, N, D)
    return out.transpose(1, 2)  # (B, N, H, D)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    return separate_attention(*qkv.unbind(dim=2), causal)
