"""Attention as a `torch.library` operator with its gradient, which torch.compile takes whole.

The kernels are chosen here: those for Hopper where the GPU is one and Triton is a version that they
were tried with, else the plain ones.
"""

from typing import Any

import torch
import triton
from kernels.flashlab import choices, plain

TRIED = ("3.6.0",)
"""Triton versions that the Hopper kernels were tried with; Gluon may change with any other."""

DTYPES = (torch.float16, torch.bfloat16)

if triton.__version__ in TRIED:
    from kernels.flashlab import hopper


def is_hopper(device: torch.device) -> bool:
    """Whether the GPU is of the generation that the Gluon kernels are for."""
    return torch.cuda.get_device_capability(device) == (9, 0)


def reason_for_plain(device: torch.device) -> str | None:
    """Why the plain kernels run on this GPU; None where those for Hopper do."""
    if not is_hopper(device):
        return f"the others are for Hopper, and this is {torch.cuda.get_device_name(device)}"
    if triton.__version__ not in TRIED:
        tried = ", ".join(TRIED)
        mine = triton.__version__
        return f"the kernels for Hopper were tried with Triton {tried}, and this is {mine}"
    return None


@torch.library.custom_op("flashlab::attention", mutates_args=())
def attention_forward(
    qkv: torch.Tensor, causal: bool, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, N, 3, H, D) → O (B, N, H, D), and log₂ of the row sums of exp(S), (B H, N).

    `deterministic` is for the gradient; the output has the same bits at each call anyway.
    """
    qkv = _aligned(qkv)
    out, lse = _forward_outputs(qkv)
    with torch.cuda.device(qkv.device):
        if reason_for_plain(qkv.device) is None:
            hopper.forward(qkv, causal, out, lse)
        else:
            plain.forward(qkv, causal, out, lse)
    return out, lse


@torch.library.custom_op("flashlab::attention_backward", mutates_args=())
def attention_backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    """dO (B, N, H, D) → the gradient of qkv, (B, N, 3, H, D)."""
    grad, qkv = _aligned(grad), _aligned(qkv)
    dqkv = torch.empty_like(qkv)
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    with torch.cuda.device(qkv.device):
        if reason_for_plain(qkv.device) is None and hopper.has_backward(qkv.shape[-1]):
            hopper.backward(grad, qkv, out, lse, causal, deterministic, dqkv)
        else:
            plain.backward(grad, qkv, out, lse, causal, dqkv)
    return dqkv


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, and at an address that the copy engine takes: a multiple of 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _forward_outputs(qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for O and lse. The copy engine wants rows of lse at multiples of 16 bytes."""
    B, N, _, H, D = qkv.shape
    out = qkv.new_empty(B, N, H, D)
    padded = (N + 3) // 4 * 4
    lse = torch.empty_strided((B * H, N), (padded, 1), dtype=torch.float32, device=qkv.device)
    return out, lse


@attention_forward.register_fake
def _(qkv: torch.Tensor, causal: bool, deterministic: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return _forward_outputs(qkv)


@attention_backward.register_fake
def _(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    qkv, ctx.causal, ctx.deterministic = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or lse would get a gradient of zeros
    ctx.save_for_backward(qkv, *output)


def _gradient(
    ctx: Any, grad: torch.Tensor, _: torch.Tensor | None
) -> tuple[torch.Tensor, None, None]:
    qkv, out, lse = ctx.saved_tensors
    dqkv = attention_backward(grad, qkv, out, lse, ctx.causal, ctx.deterministic)
    return dqkv, None, None


attention_forward.register_autograd(_gradient, setup_context=_save)


def attention(qkv: torch.Tensor, causal: bool, deterministic: bool = False) -> torch.Tensor:
    """softmax(Q Kᵀ / √D) V of a packed tensor.

    Args:
        qkv: (B, N, 3, H, D) on a GPU, float16 or bfloat16; D 16, 32, 64, 128 or 256, any N.
        causal: whether position t is kept from seeing positions after t.
        deterministic: whether the gradient is to have the same bits at each call, whatever that
            costs in time; torch.use_deterministic_algorithms(True) asks for it too.

    Returns:
        (B, N, H, D) in qkv's dtype.

    Raises:
        NotImplementedError: another dtype or head_dim, or no GPU.
    """
    if not qkv.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    if qkv.dtype not in DTYPES:
        raise NotImplementedError(f"FlashLab computes in float16 and bfloat16, not in {qkv.dtype}")
    if qkv.shape[-1] not in choices.HEAD_DIMS:
        known = ", ".join(map(str, choices.HEAD_DIMS))
        raise NotImplementedError(f"head_dim {qkv.shape[-1]}: FlashLab has kernels for {known}")
    return attention_forward(qkv, causal, deterministic)[0]
