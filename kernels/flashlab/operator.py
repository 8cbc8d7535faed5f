"""Attention as `torch.library` operators with their gradient, which torch.compile takes whole.

Q, K and V come packed in one tensor or separately. The kernels are chosen here: those in CUDA C++
where the GPU is Hopper and NVRTC is there, else the plain ones in Triton. Where the former run, the
launcher runs the operators, if it is there; what it does not know comes here, to the same operators
with `unprepared_` before their names.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from operator import is_
from typing import Any

import torch
from kernels.flashlab import choices, compiling, launcher

DTYPES = (torch.float16, torch.bfloat16)

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def is_hopper(device: torch.device) -> bool:
    """True if the GPU is a Hopper, which the CUDA C++ kernels are for."""
    return torch.cuda.get_device_capability(device) == (9, 0)


def reason_for_plain(device: torch.device) -> str | None:
    """Why the plain kernels run on this GPU; None where those for Hopper do."""
    if not is_hopper(device):
        return f"the others are for Hopper, and this is {torch.cuda.get_device_name(device)}"
    return compiling.missing()


@cache
def _kernels(device: torch.device) -> Any:
    """The module whose kernels run on this GPU, which does not change."""
    if reason_for_plain(device) is None:
        from kernels.flashlab import hopper

        return hopper
    try:
        from kernels.flashlab import plain
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"FlashLab's plain kernels need Triton: {error}") from error
    return plain


# Registered key by key: what `torch.library.custom_op` checks at each call would take half as long
# again as all that is done here.
_library = torch.library.Library("flashlab", "FRAGMENT")
_SCHEMAS = (
    "attention(Tensor q, Tensor k, Tensor v, bool causal, bool deterministic) -> (Tensor, Tensor)",
    "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    "bool causal, bool deterministic) -> (Tensor, Tensor, Tensor)",
    "packed_attention(Tensor qkv, bool causal, bool deterministic) -> (Tensor, Tensor)",
    "packed_attention_backward(Tensor grad, Tensor qkv, Tensor out, Tensor lse, bool causal, "
    "bool deterministic) -> Tensor",
)
for _schema in _SCHEMAS:
    _library.define(_schema, tags=torch.Tag.pt2_compliant_tag)
    _library.define(f"unprepared_{_schema}")
separate_forward = torch.ops.flashlab.attention.default
separate_backward = torch.ops.flashlab.attention_backward.default
packed_forward = torch.ops.flashlab.packed_attention.default
packed_backward = torch.ops.flashlab.packed_attention_backward.default


# --- The passes -----------------------------------------------------------------------------------


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """q (B, N, H, D), k and v (B, N, H / G, D) → O (B, N, H, D), and lse.

    lse is log₂ of the row sums of exp(S), (B, H, N up to a multiple of 128), in an order of the
    kernels' own. `deterministic` is for the gradient; the output has the same bits at each call
    anyway.
    """
    out, lse = _outputs(q, *q.shape)
    if out.numel():
        with _on(q.device):
            taken = (_taken(q), _taken(k), _taken(v))
            ran = _kernels(q.device).forward(*taken, causal, out, lse)
            _keep_pass("attention", (q, k, v), taken, (causal, deterministic), (out, lse), ran)
    return out, lse


def _packed_forward(
    qkv: torch.Tensor, causal: bool, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_forward`, of (B, N, 3, H, D)."""
    B, N, _, H, D = qkv.shape
    out, lse = _outputs(qkv, B, N, H, D)
    if out.numel():
        with _on(qkv.device):
            taken = (_taken(qkv),)
            ran = _kernels(qkv.device).packed_forward(*taken, causal, out, lse)
            flags = (causal, deterministic)
            _keep_pass("packed_attention", (qkv,), taken, flags, (out, lse), ran)
    return out, lse


def _backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool,
) -> Gradients:  # fmt: skip
    """dO (B, N, H, D) → the gradients of q, k and v, each contiguous."""
    dq, dk, dv = (_like(x) for x in (q, k, v))
    if out.numel():
        with _on(q.device):
            given, flags, gradients = (
                (grad, q, k, v, out, lse),
                (causal, deterministic),
                (dq, dk, dv),
            )
            taken = (
                _contiguous(grad), _taken(q), _taken(k), _taken(v), _contiguous(out),
                _contiguous(lse),
            )  # fmt: skip
            ran = _kernels(q.device).backward(*taken, *flags, *gradients)
            _keep_pass("attention_backward", given, taken, flags, gradients, ran)
    return dq, dk, dv


def _packed_backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    """dO (B, N, H, D) → the gradient of qkv, (B, N, 3, H, D)."""
    dqkv = _like(qkv)
    if out.numel():
        with _on(qkv.device):
            given, flags = (grad, qkv, out, lse), (causal, deterministic)
            taken = (_contiguous(grad), _taken(qkv), _contiguous(out), _contiguous(lse))
            ran = _kernels(qkv.device).packed_backward(*taken, *flags, dqkv)
            _keep_pass("packed_attention_backward", given, taken, flags, (dqkv,), ran)
    return dqkv


def _keep_pass(
    name: str, given: Sequence[torch.Tensor], taken: Sequence[torch.Tensor],
    flags: Sequence[bool], returned: Sequence[torch.Tensor], ran: Any,
) -> None:  # fmt: skip
    """Let the launcher run what an operator ran, from the next call on, if nothing was copied."""
    if launcher.loaded and ran and all(map(is_, given, taken)):
        launcher.loaded.keep(name, given, flags, returned, ran)


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current one where it is not."""
    return (
        nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)
    )


def _taken(x: torch.Tensor) -> torch.Tensor:
    """As the copy engine takes it: rows of D side by side, all else at multiples of 16 bytes."""
    *strides, last = x.stride()
    if last == 1 and x.data_ptr() % 16 == 0 and all(s > 0 and s % 8 == 0 for s in strides):
        return x
    return x.clone(memory_format=torch.contiguous_format)


def _contiguous(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, and at a multiple of 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _like(x: torch.Tensor) -> torch.Tensor:
    """Memory for the gradient of x."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _outputs(
    like: torch.Tensor, B: int, N: int, H: int, D: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for O and lse."""
    lse = like.new_empty(B, H, choices.padded(N), dtype=torch.float32)
    return like.new_empty(B, N, H, D), lse


# --- Their gradients ------------------------------------------------------------------------------


def _runs_now(x: torch.Tensor) -> bool:
    """True if nothing traces, so that the gradient's function needs no dispatcher."""
    return (
        type(x) is torch.Tensor
        and not torch.compiler.is_compiling()
        and not torch._C._len_torch_dispatch_stack()
    )


def _runs_here(x: torch.Tensor) -> bool:
    """True if the functions above run without the dispatcher, which finds the launcher.

    That saves 14 of the 42 µs that a forward takes on the host.
    """
    return launcher.loaded is None and _runs_now(x)


def _is_deterministic(asked: bool) -> bool:
    """True if the gradient has to have the same bits at each call."""
    return asked or torch.are_deterministic_algorithms_enabled()


def _once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's decorator, without its cost where no graph of the gradient is made."""
    refusing = torch.autograd.function.once_differentiable(backward)

    def run(*given: Any) -> Any:
        return (refusing if torch.is_grad_enabled() else backward)(*given)

    return run


class _Attention(torch.autograd.Function):
    """The operator of separate tensors with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
        deterministic: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        if _runs_here(q):
            out, lse = _forward(q, k, v, causal, deterministic)
        else:
            with torch._C._AutoDispatchBelowAutograd():
                out, lse = separate_forward(q, k, v, causal, deterministic)
        _keep(ctx, causal, deterministic, (q, k, v), out, lse)
        return out, lse

    @staticmethod
    @_once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor | None) -> tuple[Any, ...]:
        run = _backward if _runs_here(grad) else separate_backward
        deterministic = _is_deterministic(ctx.deterministic)
        gradients = run(grad, *ctx.saved_tensors, ctx.causal, deterministic)
        return *gradients, None, None


class _PackedAttention(torch.autograd.Function):
    """The operator of one packed tensor with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, qkv: torch.Tensor, causal: bool, deterministic: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if _runs_here(qkv):
            out, lse = _packed_forward(qkv, causal, deterministic)
        else:
            with torch._C._AutoDispatchBelowAutograd():
                out, lse = packed_forward(qkv, causal, deterministic)
        _keep(ctx, causal, deterministic, (qkv,), out, lse)
        return out, lse

    @staticmethod
    @_once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor | None) -> tuple[Any, ...]:
        run = _packed_backward if _runs_here(grad) else packed_backward
        deterministic = _is_deterministic(ctx.deterministic)
        dqkv = run(grad, *ctx.saved_tensors, ctx.causal, deterministic)
        return dqkv, None, None


def _keep(
    ctx: Any, causal: bool, deterministic: bool, inputs: tuple[torch.Tensor, ...],
    out: torch.Tensor, lse: torch.Tensor,
) -> None:  # fmt: skip
    """Save for the backward what it needs."""
    ctx.causal, ctx.deterministic = causal, deterministic
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)  # or lse would get a gradient of zeros
    ctx.save_for_backward(*inputs, out, lse)


def _with_gradient(
    function: type[torch.autograd.Function], name: str
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The dispatcher's function, which records a gradient only where one is enabled."""
    run = getattr(torch.ops.flashlab, name).default

    def with_gradient(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled():
            return function.apply(*given)
        with torch._C._AutoDispatchBelowAutograd():
            return run(*given)

    return with_gradient


_PASSES: dict[str, Callable[..., Any]] = {
    "attention": _forward,
    "attention_backward": _backward,
    "packed_attention": _packed_forward,
    "packed_attention_backward": _packed_backward,
}


def _implement(library: torch.library.Library, key: str) -> None:
    """Let the passes above run under a dispatch key: all, or what the launcher does not know.

    torch.compile takes the operators whole. Where it has given up a function and calls them from
    there, it would otherwise go on to compile what is in them.
    """
    for name, function in _PASSES.items():
        called = torch.compiler.disable(function)
        library.impl(f"unprepared_{name}", called, key)
        if launcher.loaded is None:
            library.impl(name, called, key)


if torch.cuda.is_available() and reason_for_plain(torch.device("cuda")) is None:
    launcher.load()
_implement(_library, "CUDA")
for _name, _function in {"attention": _Attention, "packed_attention": _PackedAttention}.items():
    _called = torch.compiler.disable(_with_gradient(_function, _name))
    _library.impl(_name, _called, "Autograd")


@torch.library.register_fake("flashlab::attention", lib=_library)
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, deterministic: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(q, *q.shape)


@torch.library.register_fake("flashlab::packed_attention", lib=_library)
def _(qkv: torch.Tensor, causal: bool, deterministic: bool) -> tuple[torch.Tensor, torch.Tensor]:
    B, N, _, H, D = qkv.shape
    return _outputs(qkv, B, N, H, D)


@torch.library.register_fake("flashlab::attention_backward", lib=_library)
def _(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool,
) -> Gradients:  # fmt: skip
    return _like(q), _like(k), _like(v)


@torch.library.register_fake("flashlab::packed_attention_backward", lib=_library)
def _(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool,
) -> torch.Tensor:  # fmt: skip
    return _like(qkv)


# --- What others call -----------------------------------------------------------------------------


def attention(qkv: torch.Tensor, causal: bool, deterministic: bool = False) -> torch.Tensor:
    """softmax(Q Kᵀ / √D) V of a packed tensor.

    Args:
        qkv: (B, N, 3, H, D) on a GPU, float16 or bfloat16; D a multiple of 8 up to 256, any N.
        causal: whether position t is kept from seeing positions after t.
        deterministic: whether the gradient is to have the same bits at each call, whatever that
            costs in time; torch.use_deterministic_algorithms(True) asks for it too.

    Returns:
        (B, N, H, D) in qkv's dtype.

    Raises:
        NotImplementedError: another dtype or head_dim, or no GPU.
        ValueError: qkv has another shape.
    """
    _refuse(qkv)
    if qkv.ndim != 5 or qkv.shape[2] != 3:
        raise ValueError(f"qkv must be (B, N, 3, H, D), not {tuple(qkv.shape)}")
    run = _PackedAttention.apply if _runs_now(qkv) else packed_forward
    return run(qkv, causal, deterministic)[0]


def separate_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, deterministic: bool = False
) -> torch.Tensor:
    """softmax(Q Kᵀ / √D) V of three tensors, which may be views of others.

    Args:
        q: (B, N, H, D), as `attention` takes qkv.
        k, v: (B, N, H / G, D): G heads of q share one of k and v, head h has number h // G.
        causal, deterministic: as for `attention`.

    Returns:
        (B, N, H, D); NotImplementedError as for `attention`, ValueError where shapes, dtypes or
        devices do not fit together.
    """
    _refuse(q)
    if not _fit(q, k, v):
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"q must be (B, N, H, D), k and v (B, N, H / G, D), not {shapes}")
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        raise ValueError("q, k and v must have one dtype and be on one device")
    run = _Attention.apply if _runs_now(q) else separate_forward
    return run(q, k, v, causal, deterministic)[0]


def _fit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """True if the shapes of q, k and v fit together."""
    if not q.ndim == k.ndim == 4 or k.shape != v.shape:
        return False
    heads, kv_heads = q.shape[2], k.shape[2]
    shared = 0 < kv_heads < heads and heads % kv_heads == 0
    return (*q.shape[:2], q.shape[3]) == (*k.shape[:2], k.shape[3]) and (
        heads == kv_heads or shared
    )


def _refuse(x: torch.Tensor) -> None:
    """NotImplementedError where there is no kernel."""
    if not x.is_cuda:
        raise NotImplementedError("FlashLab's kernels need a GPU; this tensor is on the CPU")
    if x.dtype not in DTYPES:
        raise NotImplementedError(f"FlashLab computes in float16 and bfloat16, not in {x.dtype}")
    if x.shape[-1] % 8 or not 0 < x.shape[-1] <= choices.MAX_HEAD_DIM:
        raise NotImplementedError(
            f"head_dim {x.shape[-1]}: FlashLab has kernels for multiples of 8 up to "
            f"{choices.MAX_HEAD_DIM}"
        )
