"""The inputs of an implementation: q, k and v as leaves of their own, or packed in one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import torch

from flashlab.benchmarks.attention.shape import Shape

SEPARATE, PACKED = "separate", "packed"

LARGE = 8.0
"""More than random numbers ever are."""

Attention = Callable[..., torch.Tensor]
"""Takes the inputs of its form, then whether there is a causal mask, and gives (B, N, H, D)."""


def forms_of(kernel: ModuleType, shape: Shape) -> list[str]:
    """The forms of inputs that a kernel takes at a shape: packed wherever that can be, as well."""
    own = getattr(kernel, "INPUTS", (PACKED,))
    return [SEPARATE] if shape.beyond else [*dict.fromkeys((PACKED, *own))]


def attention_of(kernel: ModuleType, form: str | None, shape: Shape) -> Attention:
    """The function of a kernel that takes inputs of a form.

    NotImplementedError where the shape has what the kernel's file does not say that it takes, with
    separate inputs.
    """
    untaken = sorted(shape.beyond - {*getattr(kernel, "TAKES", {})})
    if untaken:
        raise NotImplementedError(f"its file does not say that it TAKES {', '.join(untaken)}")
    if shape.beyond and form != SEPARATE:
        raise NotImplementedError(f"{', '.join(sorted(shape.beyond))}: separate q, k and v alone")
    function: Attention = kernel.separate_attention if form == SEPARATE else kernel.attention
    return function


def empty_inputs(
    shape: Shape, dtype: str, device: str, form: str | None
) -> tuple[torch.Tensor, ...]:
    """Storage for q (B, N, H, D), k and v (B, N, H_kv, D), or qkv (B, N, 3, H, D): contiguous."""
    B, N, H, D = shape.batch_size, shape.seq_len, shape.num_heads, shape.head_dim
    kv = (B, N, shape.kv_heads, D)
    sizes = [(B, N, H, D), kv, kv] if form == SEPARATE else [(B, N, 3, H, D)]
    return tuple(torch.empty(size, dtype=getattr(torch, dtype), device=device) for size in sizes)


def random_inputs(
    shape: Shape, dtype: str, device: str, form: str | None
) -> tuple[torch.Tensor, ...]:
    """Random inputs (`empty_inputs`) as leaves.

    They are normally distributed, but for a `LARGE` number in the last query of each head, and one
    in a key and value, which make a large score, too.
    """
    inputs = tuple(tensor.normal_() for tensor in empty_inputs(shape, dtype, device, form))
    q, k, v = separated(inputs)
    q[:, -1, :, 0] = k[:, shape.seq_len // 2, :, 0] = v[:, shape.seq_len // 2, :, 0] = LARGE
    return tuple(tensor.requires_grad_() for tensor in inputs)


TOPS = (0.0, 100.0, -1000.0, 1000.0, -100.0)
"""The largest scores of rows with large ones, one row after the other."""

GAP, CLASSES = 64.0, 4
"""By how much the scores of other keys are less; one key of so many has a row's largest,
of fewer where a head is that small."""


def large_inputs(
    shape: Shape, dtype: str, device: str, form: str | None
) -> tuple[torch.Tensor, ...]:
    """Leaves whose scores reach ±10² and ±10³, with rows that lie far below 0 as a whole.

    Row t's largest scores are `TOPS[t % 5]`. Which keys have them is random, and all of these have
    the same score, so that softmax is their mean in any precision: rounding a score of 1000, by 4
    in bfloat16, moves all of them or none. Coordinate 0 shifts a row's scores, the next ones tell
    a row's or key's class. The others are random in queries, and 0 in keys.
    """
    inputs = tuple(x.normal_() for x in empty_inputs(shape, dtype, device, form))
    q, k, _ = separated(inputs)
    root = shape.head_dim**0.5
    shift, mark = (1000 * root) ** 0.5, (GAP * root) ** 0.5
    kinds = min(CLASSES, shape.head_dim - 1)
    tops = torch.tensor(TOPS, device=device).repeat(-(-shape.seq_len // len(TOPS)))
    k.zero_()
    q[..., : kinds + 1] = 0
    q[..., 0] = ((tops[: shape.seq_len] - GAP) * root / shift)[:, None]
    k[..., 0] = shift
    for x in (q, k) if kinds else ():
        classes = torch.randint(1, kinds + 1, (*x.shape[:3], 1), device=device)
        x.scatter_(3, classes, mark)
    return tuple(x.requires_grad_() for x in inputs)


def separated(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Inputs of either form, or their gradients, as q, k and v; a single (B, N, H, D) as it is."""
    return tensors[0].unbind(dim=2) if tensors[0].dim() == 5 else tensors
