"""FlashLab's own kernel: CUDA C++ on Hopper, plain Triton on other GPUs.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import torch

NAME = "FlashLab"
LABEL = {"zh_TW": "本專案自行開發的 kernel", "en": "this project's own kernel"}
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
    """Which of the kernels `attention` calls and how, and why not in the fastest way."""
    if device != "cuda":
        return "FlashLab"
    from kernels.flashlab.launcher import reason_for_python
    from kernels.flashlab.operator import reason_for_plain

    reason = reason_for_plain(torch.device(device))
    if reason is None:
        slower = reason_for_python()
        launched = f", launched from Python: {slower}" if slower else ""
        return f"FlashLab (CUDA C++ for Hopper{launched})"
    import triton

    return f"FlashLab (plain Triton: {reason}), triton {triton.__version__}"


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), float16 or bfloat16 on a GPU.

    Returns (B, N, H, D). The gradient is computed in the fastest way, or with the same bits at each
    call where torch.use_deterministic_algorithms(True) asks for it. NotImplementedError where there
    is no GPU, or none of Hopper and no Triton, and for head_dims that are no multiple of 8 or over
    256.
    """
    if not q.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    from kernels.flashlab import operator

    return operator.separate_attention(q, k, v, causal)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    if not qkv.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    from kernels.flashlab import operator

    return operator.attention(qkv, causal)
