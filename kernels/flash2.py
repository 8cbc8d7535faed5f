"""FlashAttention-2: flash-attn where it is installed, else the kernel that PyTorch carries.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import importlib.metadata

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

NAME = "Flash2"
LABEL = {"zh_TW": "FlashAttention-2", "en": "FlashAttention-2"}
LABEL_CPU = {"zh_TW": "PyTorch 的 CPU flash kernel", "en": "PyTorch's CPU flash kernel"}
PACKAGES = ("flash-attn", "torch")
INPUTS = ("separate", "packed")
TAKES = {"num_kv_heads": "in place"}
PRELOADS = ("flash_attn",)

try:
    from flash_attn import flash_attn_func, flash_attn_qkvpacked_func
except ImportError:  # nor does flash-attn-4 alone have them, which shares the folder
    flash_attn_func = None


def provider(device: str) -> str:
    """Whose FlashAttention-2 `attention` calls on this kind of device (``cuda`` or ``cpu``)."""
    if device == "cuda" and flash_attn_func is not None:
        return f"flash-attn {importlib.metadata.version('flash-attn')}"
    place = "CUDA" if device == "cuda" else "CPU"
    return f"torch {torch.__version__} SDPBackend.FLASH_ATTENTION ({place})"


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q, k and v.

    Args:
        q: (B, N, H, D); float16 or bfloat16 on CUDA, float32 too on the CPU.
        k, v: (B, N, H / G, D), each head for G of q.
        causal: whether position t is kept from seeing positions after t.

    Returns:
        (B, N, H, D) in q's dtype.

    Raises:
        RuntimeError: "No available kernel" for this dtype or head_dim; the reasons are warnings.
    """
    if q.is_cuda and flash_attn_func is not None:
        return flash_attn_func(q, k, v, causal=causal)  # (B, N, H, D)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, N, D), (B, H / G, N, D)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )  # (B, H, N, D)
    return out.transpose(1, 2)  # (B, N, H, D)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    if qkv.is_cuda and flash_attn_func is not None:
        return flash_attn_qkvpacked_func(qkv, causal=causal)  # (B, N, H, D)
    return separate_attention(*qkv.unbind(dim=2), causal)
