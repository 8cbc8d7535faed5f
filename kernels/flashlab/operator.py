"""Attention as a `torch.library` operator with its gradient, which torch.compile takes whole.

The kernels are chosen here: those for Hopper where the GPU is one and Triton is a version that they
were tried with, else the plain ones.
"""

from functools import cache
from typing import Any

import torch
import triton
from kernels.flashlab import choices, plain
from torch.autograd.function import once_differentiable

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


# Registered key by key: what `torch.library.custom_op` checks at each call would take half as long
# again as all that is done here.
_library = torch.library.Library("flashlab", "FRAGMENT")
_library.define(
    "attention(Tensor qkv, bool causal, bool deterministic) -> (Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
_library.define(
    "attention_backward(Tensor grad, Tensor qkv, Tensor out, Tensor lse, bool causal, "
    "bool deterministic) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
attention_forward = torch.ops.flashlab.attention.default
attention_backward = torch.ops.flashlab.attention_backward.default


def _forward(
    qkv: torch.Tensor, causal: bool, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, N, 3, H, D) → O (B, N, H, D), and log₂ of the row sums of exp(S), (B H, N).

    `deterministic` is for the gradient; the output has the same bits at each call anyway.
    """
    qkv = _aligned(qkv)
    out, lse = _outputs(qkv)
    with torch.cuda.device(qkv.device):
        if _takes_hopper(qkv.device):
            hopper.forward(qkv, causal, out, lse)
        else:
            plain.forward(qkv, causal, out, lse)
    return out, lse


def _backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    """dO (B, N, H, D) → the gradient of qkv, (B, N, 3, H, D)."""
    grad, qkv, out, lse = _aligned(grad), _aligned(qkv), _aligned(out), _padded(lse)
    dqkv = torch.empty_like(qkv)
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    with torch.cuda.device(qkv.device):
        if _takes_hopper(qkv.device):
            hopper.backward(grad, qkv, out, lse, causal, deterministic, dqkv)
        else:
            plain.backward(grad, qkv, out, lse, causal, dqkv)
    return dqkv


@cache
def _takes_hopper(device: torch.device) -> bool:
    """Whether the kernels for Hopper run on this GPU, which does not change."""
    return reason_for_plain(device) is None


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, and at an address that the copy engine takes: a multiple of 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _outputs(qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for O and lse."""
    B, N, _, H, D = qkv.shape
    return qkv.new_empty(B, N, H, D), _row_values(B * H, N, qkv.device)


def _row_values(rows: int, N: int, device: torch.device) -> torch.Tensor:
    """Memory for (rows, N) float32. The copy engine wants rows at multiples of 16 bytes."""
    padded = (N + 3) // 4 * 4
    return torch.empty_strided((rows, N), (padded, 1), dtype=torch.float32, device=device)


def _padded(lse: torch.Tensor) -> torch.Tensor:
    """lse with its rows apart as `_row_values` has them, which a copy of it may have lost."""
    if lse.stride(0) % 4 == 0 and lse.stride(1) == 1 and lse.data_ptr() % 16 == 0:
        return lse
    return _row_values(*lse.shape, lse.device).copy_(lse)


class _Attention(torch.autograd.Function):
    """The operator with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, qkv: torch.Tensor, causal: bool, deterministic: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            out, lse = attention_forward(qkv, causal, deterministic)
        ctx.causal, ctx.deterministic = causal, deterministic
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # or lse would get a gradient of zeros
        ctx.save_for_backward(qkv, out, lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: torch.Tensor, _: torch.Tensor | None
    ) -> tuple[torch.Tensor, None, None]:
        qkv, out, lse = ctx.saved_tensors
        dqkv = attention_backward(grad, qkv, out, lse, ctx.causal, ctx.deterministic)
        return dqkv, None, None


# torch.compile takes the operators whole. Where it has given up a function and calls them from
# there, it would otherwise go on to compile what is in them.
for name, key, function in (
    ("attention", "CUDA", _forward),
    ("attention", "Autograd", _Attention.apply),
    ("attention_backward", "CUDA", _backward),
):
    _library.impl(name, torch.compiler.disable(function), key)


@torch.library.register_fake("flashlab::attention", lib=_library)
def _(qkv: torch.Tensor, causal: bool, deterministic: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(qkv)


@torch.library.register_fake("flashlab::attention_backward", lib=_library)
def _(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


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
