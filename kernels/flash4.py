"""FlashAttention-4: flash-attn-4, where it is installed, through its own function.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import importlib.metadata

import torch

NAME = "Flash4"
LABEL = {"zh_TW": "FlashAttention-4", "en": "FlashAttention-4"}
PACKAGES = ("flash-attn-4", "nvidia-cutlass-dsl", "torch")
INPUTS = ("separate",)
TAKES = {"num_kv_heads": "in place"}


def provider(device: str) -> str:
    """The package that `attention` calls."""
    return f"flash-attn-4 {importlib.metadata.version('flash-attn-4')}"


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), to (B, N, H, D).

    float16 or bfloat16 on CUDA.
    NotImplementedError where the package or the GPU is missing.
    """
    if not q.is_cuda:
        raise NotImplementedError("flash-attn-4 runs on CUDA only")
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError as error:
        raise NotImplementedError(f"flash-attn-4 is not installed: {error}") from error
    out = flash_attn_func(
        q, k, v, causal=causal
    )  # (B, N, H, D), with the log-sum-exp in some versions
    return out[0] if isinstance(out, tuple) else out


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    return separate_attention(*qkv.unbind(dim=2), causal)
