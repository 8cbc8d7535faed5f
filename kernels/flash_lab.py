"""FlashLab's own kernel: Gluon on Hopper, plain Triton on other GPUs.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import torch

NAME = "FlashLab"
LABEL = {"zh_TW": "FlashLab 核心", "en": "FlashLab's kernel"}
PACKAGES = ("torch", "triton")


def provider(device: str) -> str:
    """Which of the kernels `attention` calls, and why where they are not those for Hopper."""
    if device != "cuda":
        return "FlashLab"
    import triton
    from kernels.flashlab.operator import reason_for_plain

    reason = reason_for_plain(torch.device(device))
    kernels = "Gluon for Hopper" if reason is None else f"plain Triton: {reason}"
    return f"FlashLab ({kernels}), triton {triton.__version__}"


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention from one packed tensor, qkv (B, N, 3, H, D) float16 or bfloat16 on a GPU.

    Returns (B, N, H, D). The gradient is computed in the fastest way, or with the same bits at each
    call where torch.use_deterministic_algorithms(True) asks for it. NotImplementedError where the
    GPU or Triton is missing, and for head_dims other than 16, 32, 64, 128 and 256.
    """
    if not qkv.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    try:
        from kernels.flashlab import operator
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"FlashLab's kernels need Triton: {error}") from error
    return operator.attention(qkv, causal)
