"""FlashLab's own kernel with a gradient that has the same bits at each call.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import torch

NAME = "FlashLabDeterministic"
LABEL = {
    "zh_TW": "本專案自行開發的 kernel（可重現）",
    "en": "this project's own kernel, deterministic",
}
PACKAGES = ("torch", "triton", "cuda-bindings", "nvidia-cuda-nvrtc")
INPUTS = ("separate", "packed")
TAKES = {"num_kv_heads": "in place"}
TUNED_ON = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
SOURCES = (
    "flashlab/cuda/sm90.cuh", "flashlab/cuda/tiles.cuh", "flashlab/cuda/forward.cu",
    "flashlab/cuda/backward.cu", "flashlab/cuda/queries.cu", "flashlab/cuda/wide.cu",
    "flashlab/launcher.cpp",
)  # fmt: skip


def provider(device: str) -> str:
    """Which of the kernels `attention` calls, and why where they are not those for Hopper."""
    from kernels import flash_lab

    return flash_lab.provider(device)


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), float16 or bfloat16 on a GPU.

    Returns (B, N, H, D); otherwise as FlashLab's kernel. No float32 dQ takes memory.
    """
    if not q.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    from kernels.flashlab import operator

    return operator.separate_attention(q, k, v, causal, deterministic=True)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    if not qkv.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    from kernels.flashlab import operator

    return operator.attention(qkv, causal, deterministic=True)
