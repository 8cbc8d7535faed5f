"""FlashAttention-3, the reference on Hopper: its own package, or the operators that xformers has.

B batch_size, N seq_len, H num_heads, D head_dim.
"""

import ctypes
import importlib.metadata
from pathlib import Path

import torch

NAME = "Flash3"
LABEL = {"zh_TW": "FlashAttention-3", "en": "FlashAttention-3"}
PACKAGES = ("flash-attn-3", "xformers", "torch")
INPUTS = ("separate", "packed")
TAKES = {"num_kv_heads": "in place"}

CARRIERS = ("flash-attn-3", "xformers")
"""The packages that have the operators, the first one first."""


def _carrier() -> str | None:
    """The installed package that has the operators."""
    for package in CARRIERS:
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        return package
    return None


def _file(package: str, pattern: str) -> Path | None:
    """A file of an installed package, None where there is none."""
    try:
        found = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in found if file.match(pattern)), None)


def provider(device: str) -> str:
    """The package whose operators `attention` calls."""
    package = _carrier()
    return f"{package} {importlib.metadata.version(package)}" if package else "FlashAttention-3"


def _load() -> None:
    """Register the operators; NotImplementedError where there are none."""
    if hasattr(torch.ops.flash_attn_3, "fwd"):
        return
    package = _carrier()
    library = package and _file(package, "flash_attn_3/_C*.so")
    if not library:
        raise NotImplementedError(f"neither {' nor '.join(CARRIERS)} is installed")
    # Built with CUDA 12, whatever torch was built with.
    runtime = _file("nvidia-cuda-runtime-cu12", "lib/libcudart.so.12")
    try:
        if runtime:
            ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
        torch.ops.load_library(str(library))
    except OSError as error:
        raise NotImplementedError(f"{library} cannot be loaded: {error}") from error


class _Attention(torch.autograd.Function):
    """The operators with their gradient, of (q, k, v) or of one packed tensor."""

    @staticmethod
    def forward(ctx, causal, *inputs):
        q, k, v = inputs if len(inputs) == 3 else inputs[0].unbind(dim=2)
        scale = q.shape[-1] ** -0.5
        out, lse, *_ = torch.ops.flash_attn_3.fwd(
            q, k, v, softmax_scale=scale, is_causal=causal, num_splits=1
        )
        ctx.save_for_backward(*inputs, out, lse)
        ctx.causal, ctx.scale = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        *inputs, out, lse = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in inputs]
        q, k, v = inputs if len(inputs) == 3 else inputs[0].unbind(dim=2)
        dq, dk, dv = gradients if len(inputs) == 3 else gradients[0].unbind(dim=2)
        torch.ops.flash_attn_3.bwd(
            *(grad, q, k, v, out, lse, dq, dk, dv),
            softmax_scale=ctx.scale,
            is_causal=ctx.causal,
        )
        return None, *gradients


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Attention from q (B, N, H, D), k and v (B, N, H / G, D), to (B, N, H, D).

    float16 or bfloat16 on CUDA.
    NotImplementedError where there is no FlashAttention-3 or no Hopper GPU.
    """
    _refuse(q)
    return _Attention.apply(causal, q, k, v)


def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """As `separate_attention`, from a packed qkv (B, N, 3, H, D) to (B, N, H, D)."""
    _refuse(qkv)
    return _Attention.apply(causal, qkv)


def _refuse(x: torch.Tensor) -> None:
    if not x.is_cuda or torch.cuda.get_device_capability(x.device) != (9, 0):
        raise NotImplementedError("FlashAttention-3 is for Hopper GPUs")
    _load()
