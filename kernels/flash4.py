"""FlashAttention-4: flash-attn-4, where it is installed, through its own function.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import importlib.metadata

import torch

NAME = "Flash4"
LABEL = {"zh_TW": "FlashAttention-4", "en": "FlashAttention-4"}
PACKAGES = ("flash-attn-4", "nvidia-cutlass-dsl", "torch")


def provider(device: str) -> str:
    """The package that `attention` calls."""
    return f"flash-attn-4 {importlib.metadata.version('flash-attn-4')}"


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention from one packed tensor, qkv (B, N, 3, H, D) float16 or bfloat16 on CUDA.

    Returns (B, N, H, D). NotImplementedError where the package or the GPU is missing.
    """
    if not qkv.is_cuda:
        raise NotImplementedError("flash-attn-4 runs on CUDA only")
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError as error:
        raise NotImplementedError(f"flash-attn-4 is not installed: {error}") from error
    q, k, v = qkv.unbind(dim=2)  # each (B, N, H, D)
    out = flash_attn_func(
        q, k, v, causal=causal
    )  # (B, N, H, D), with the log-sum-exp in some versions
    return out[0] if isinstance(out, tuple) else out
