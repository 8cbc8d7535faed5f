"""The correctness gate: an implementation against a float64 reference, before and after timing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from flashlab.benchmarks.attention.inputs import (
    Attention,
    large_inputs,
    random_inputs,
    separated,
)
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.failures import IncorrectError

TOLERANCES = {"float16": 5e-3, "bfloat16": 2e-2, "float32": 1e-4}
"""Largest relative error, as the norm of the difference over the norm of the reference. A dtype's
own rounding stays several times below it; a wrong mask, scale or missing head lies far above."""

LARGE_TOLERANCES = TOLERANCES | {"float32": 5e-4}
"""The same where scores are large: in float32 the logarithm of a sum near 1000 is 3e-5 off, by
which a softmax that is computed again from it is, too."""

MAX_SCORES = {"cpu": 2**24, "cuda": 2**27}
"""Elements of the score matrices, B·H·N², up to which the reference computes every head; above,
some heads of every batch, and one at least."""

MAX_SCORES_AGAIN = {"cpu": 2**19, "cuda": 2**26}
"""The same for the comparisons after the timing, several in each process."""

CHUNK_SCORES = {"cpu": 2**22, "cuda": 2**28}
"""Elements of the score matrices that the reference holds at once (8 bytes each, a few copies)."""

OVERWRITTEN = "{} is overwritten, which the model that calls the kernel still needs; work on a copy"


def heads_compared(shape: Shape, device: str, again: bool) -> slice:
    """The heads of k and v of every batch whose results are compared: as many as fit, at least one.

    Those of q that share them are compared with them. Where they begin is random. Fewer may be
    compared `again`.
    """
    most_scores = (MAX_SCORES_AGAIN if again else MAX_SCORES)[device]
    fitting = most_scores // (shape.batch_size * shape.seq_len**2)
    count = max(1, min(shape.kv_heads, fitting // shape.group))
    first = int(torch.randint(shape.kv_heads - count + 1, ()))
    return slice(first, first + count)


def _pick(tensors: Sequence[torch.Tensor], heads: slice, kv_heads: int) -> list[torch.Tensor]:
    """These heads of k and v of every batch, or those of q that share them, copied: (C, N, D) each.

    `kv_heads` is how many k and v have, of which each tensor (B, N, H, D) has a multiple.
    """
    picked = []
    for x in tensors:
        group = x.shape[2] // kv_heads
        mine = x.detach()[:, :, heads.start * group : heads.stop * group].transpose(1, 2)
        picked.append(mine.clone(memory_format=torch.contiguous_format).flatten(0, 1))
    return picked


def _reference(
    inputs: Sequence[torch.Tensor], grads: torch.Tensor | None, causal: bool, dtype: torch.dtype
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Output (C, N, D) and gradients of q (C, N, D), k and v (C / G, N, D), as `reference_passes`.

    Each head of k and v is repeated for the G of q that share it. Without the output's gradient
    (C, N, D), the gradients stay 0.
    """
    C, N, D = inputs[0].shape
    scale, device = D**-0.5, inputs[0].device
    group = C // len(inputs[1])
    heads = [x.repeat_interleave(C // len(x), 0) for x in inputs]  # each (C, N, D)
    out = torch.empty(C, N, D, dtype=torch.float64, device=device)
    gradient = torch.zeros(3, C, N, D, dtype=torch.float64, device=device)
    chunk = CHUNK_SCORES[device.type]
    step, rows = max(1, chunk // N**2), min(N, max(1, chunk // N))
    position = torch.arange(N, device=device)
    for i, row in itertools.product(range(0, C, step), range(0, N, rows)):
        q, k, v = (x[i : i + step].to(dtype) for x in heads)  # each (C, N, D)
        block = slice(row, row + rows)
        q = q[:, block]  # (C, T, D)
        scores = q @ k.mT * scale  # (C, T, S)
        if causal:
            scores.masked_fill_(position > position[block, None], -torch.inf)
        p = torch.softmax(scores, dim=-1, dtype=torch.promote_types(dtype, torch.float32)).to(dtype)
        del scores
        out[i : i + step, block] = o = p @ v  # (C, T, D)
        if grads is None:
            continue
        g = grads[i : i + step, block].to(dtype)  # (C, T, D)
        dp = g @ v.mT  # (C, T, S)
        ds = p * (dp - (g * o).sum(-1, keepdim=True))  # (C, T, S)
        gradient[0, i : i + step, block] = ds @ k * scale
        gradient[1, i : i + step] += ds.mT @ q * scale
        gradient[2, i : i + step] += p.mT @ g
    dq, *shared = gradient
    return out, [dq, *(x.unflatten(0, (-1, group)).sum(1) for x in shared)]


def reference_passes(
    qkv: torch.Tensor, grad: torch.Tensor, causal: bool, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, N, H, D) and gradient (B, N, 3, H, D) of standard attention, as float64.

    softmax(q·kᵀ/√D)·v and its derivative by hand, a few heads or rows at a time, so that the score
    matrices never exceed `CHUNK_SCORES`. It is computed in `dtype`: in half precision as a plain
    implementation does, with the softmax in float32 and all that is stored rounded.
    """
    B, N, _, H, D = qkv.shape
    heads = [*qkv.detach().permute(2, 0, 3, 1, 4).reshape(3, B * H, N, D)]
    grads = grad.detach().transpose(1, 2).reshape(B * H, N, D)
    out, gradient = _reference(heads, grads, causal, dtype)
    return (
        out.view(B, H, N, D).transpose(1, 2),
        torch.stack(gradient).view(3, B, H, N, D).permute(1, 3, 0, 2, 4),
    )


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All numbers of some tensors."""
    return torch.cat([x.flatten() for x in tensors])


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """‖result − reference‖ / ‖reference‖ in float64; NaN where any element of the result is NaN."""
    difference = torch.linalg.vector_norm(result.double() - reference)
    return float(difference / torch.linalg.vector_norm(reference))


def refuse_form(out: Any, shape: Shape, dtype: str) -> None:
    """IncorrectError where an output is no tensor of the shape and dtype that it must have.

    A tensor of a class of its own could be computed when somebody looks at it.
    """
    expected = (shape.batch_size, shape.seq_len, shape.num_heads, shape.head_dim)
    form = type(out).__name__  # a forgotten return, or (out, lse)
    if type(out) is torch.Tensor:
        form = f"{tuple(out.shape)} {out.dtype}"
        if out.shape == expected and out.dtype == getattr(torch, dtype):
            return
    raise IncorrectError(f"the output is {form}; it must be a tensor {expected} torch.{dtype}")


def _names(inputs: Sequence[torch.Tensor]) -> str:
    return "qkv" if len(inputs) == 1 else "q, k and v"


def gradients_of(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients with respect to inputs; IncorrectError where one has none."""
    gradients = [leaf.grad for leaf in inputs if leaf.grad is not None]
    if len(gradients) < len(inputs):
        raise IncorrectError(f"the output has no gradient with respect to {_names(inputs)}")
    for leaf, x in zip(inputs, gradients, strict=True):
        if type(x) is not torch.Tensor or (x.shape, x.dtype) != (leaf.shape, leaf.dtype):
            raise IncorrectError(f"a gradient is {type(x).__name__}; it must be a plain tensor")
    return gradients


def refuse_overwritten(inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
    """IncorrectError where inputs were overwritten."""
    if not all(map(torch.equal, inputs, given)):
        raise IncorrectError(OVERWRITTEN.format(_names(inputs)))


def compare(
    inputs: Sequence[torch.Tensor],
    grad: torch.Tensor | None,
    given: Mapping[str, Sequence[torch.Tensor]],
    shape: Shape,
    heads: slice,
    plainly: bool = False,
    tolerances: Mapping[str, float] = TOLERANCES,
) -> dict[str, Any]:
    """Compare results with the reference on the inputs that they were computed from.

    `given` has the output as ``out`` or the gradients as ``dqkv``, or both, in the inputs' form;
    they are read at once, on the current stream. `grad` is the gradient of the output, not needed
    for ``out`` alone.

    Returns the comparison for the record: the shape, the number of heads, the tolerance, the
    relative errors, None for one that is not finite; with `plainly`, in half precision, also those
    of standard attention in the same dtype.

    Raises:
        IncorrectError: an error above the tolerance, or NaN.
    """
    pick = partial(_pick, heads=heads, kv_heads=shape.kv_heads)
    results = {name: pick(separated(tensors)) for name, tensors in given.items()}
    qkv = pick(separated(inputs))
    grads = None if grad is None else pick((grad,))[0]
    dtype = qkv[0].dtype
    tolerance = tolerances[str(dtype).removeprefix("torch.")]

    def computed(dtype: torch.dtype) -> dict[str, Sequence[torch.Tensor]]:
        out, gradients = _reference(qkv, grads, shape.causal, dtype)
        return {"out": (out,), "dqkv": gradients}

    def errors(results: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, float]:
        both = ((name, results[name], reference[name]) for name in results)
        return {name: relative_error(_joined(mine), _joined(right)) for name, mine, right in both}

    reference = computed(torch.float64)
    mine = errors(results)
    compared: dict[str, Any] = {
        "reference": "float64",
        "batch_size": shape.batch_size,
        "seq_len": shape.seq_len,
        "num_heads": shape.num_heads,
        "heads": len(qkv[0]),
        "seed": torch.initial_seed(),
        "tolerance": tolerance,
        "errors": {name: error if math.isfinite(error) else None for name, error in mine.items()},
    }
    if dtype.itemsize == 2 and plainly:
        compared["plain_errors"] = errors(computed(dtype))
    wrong = [name for name, error in mine.items() if not error <= tolerance]
    if wrong:
        listed = ", ".join(f"{name} {mine[name]:.3g}" for name in wrong)
        more = "".join(f"{name} {shape.parameters[name]}, " for name in sorted(shape.beyond))
        raise IncorrectError(
            f"relative error against float64: {listed}; at most {tolerance:g} is "
            f"allowed (batch_size {shape.batch_size}, seq_len {shape.seq_len}, "
            f"num_heads {shape.num_heads}, {more}head_dim {shape.head_dim}, "
            f"seed {compared['seed']})",
            compared,
        )
    return compared


def check_correctness(
    attention: Attention,
    shape: Shape,
    dtype: str,
    device: str,
    form: str | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """Compare an implementation's output and gradient with the reference on fresh inputs.

    Unless it is done `again`, inputs with large scores follow (`inputs.large_inputs`). Returns what
    was compared at first, for the record (`compare`).

    Raises:
        IncorrectError: an error above the tolerance, NaN, or an output of the wrong form.
    """
    compared = _compared(attention, shape, random_inputs(shape, dtype, device, form), again)
    if not again:
        inputs = large_inputs(shape, dtype, device, form)
        try:
            _compared(attention, shape, inputs, again=True, tolerances=LARGE_TOLERANCES)
        except IncorrectError as error:
            message = f"where scores are large: {error}"
            raise IncorrectError(message, error.compared) from error
    return compared


def _compared(
    attention: Attention,
    shape: Shape,
    inputs: Sequence[torch.Tensor],
    again: bool,
    tolerances: Mapping[str, float] = TOLERANCES,
) -> dict[str, Any]:
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    heads = heads_compared(shape, inputs[0].device.type, again)
    given = [leaf.detach().clone() for leaf in inputs]
    out = attention(*inputs, shape.causal)
    refuse_form(out, shape, dtype)
    grad = torch.randn_like(out)
    if out.requires_grad:
        out.backward(grad)
    results = {"out": (out.detach(),), "dqkv": gradients_of(inputs)}
    refuse_overwritten(inputs, given)
    del out
    return compare(inputs, grad, results, shape, heads, not again, tolerances)
