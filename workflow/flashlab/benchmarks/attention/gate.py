"""The correctness gate: an implementation against a float64 reference, before and after timing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from flashlab.benchmarks.attention.inputs import Attention, large_inputs, random_inputs, separated
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.failures import IncorrectError

TOLERANCES = {"float16": 5e-3, "bfloat16": 2e-2, "float32": 1e-4}
"""Largest relative error, as the norm of the difference over the norm of the reference. A dtype's
own rounding stays several times below it; a wrong mask, scale or missing head lies far above."""

LARGE_TOLERANCES = TOLERANCES | {"float16": 1e-2, "float32": 5e-4}
"""The same where scores are large: in float16 standard attention itself is 7e-3 off at N 16384; in
float32 the logarithm of a sum near 1000 is 3e-5 off, by which a softmax computed again from it is,
too."""

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
    """These heads of k and v of every batch, with those of q that share them, copied.

    From (B, N, H, D) each to (C, G, N, D): of the `kv_heads` that k and v have, C are taken of all
    batches together, and G heads of the tensor belong to each.
    """
    picked = []
    for x in tensors:
        mine = x.detach().unflatten(2, (kv_heads, -1))[:, :, heads].permute(0, 2, 3, 1, 4)
        picked.append(mine.clone(memory_format=torch.contiguous_format).flatten(0, 1))
    return picked


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, rows: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """Output and gradient of q from q, g (…, T, D), of `rows` (T,) if causal, and k, v (…, S, D).

    Beside them the gradient of the scores, scaled, and the weights, (…, T, S) each: with them
    these queries add dsᵀ·q to the gradient of k, and pᵀ·g to that of v. In half precision the
    softmax is in float32, as a plain implementation has it.
    """
    scale = q.shape[-1] ** -0.5
    p = q @ k.mT * scale  # (…, T, S)
    if rows is not None:
        p.masked_fill_(torch.arange(k.shape[-2], device=k.device) > rows[:, None], -torch.inf)
    p = p.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(q.dtype)
    out = p @ v
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
    return out, ds @ k, ds, p


def reference(
    given: Sequence[torch.Tensor], causal: bool, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, ...]:
    """Output and gradients of q, k and v of standard attention, computed in `dtype`, as float64.

    `given` are q (C, G, N, D), k and v (C, 1, N, D), and the output's gradient. softmax(q·kᵀ/√D)·v
    and its derivative by hand, a few heads or rows at a time, so that the score matrices never
    exceed `CHUNK_SCORES`.
    """
    q, k, v, grad = given
    out, dq, dk, dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, q, k, v))
    heads, group, N, _ = q.shape
    chunk = CHUNK_SCORES[q.device.type] // group
    step, rows = max(1, chunk // N**2), min(N, max(1, chunk // N))
    position = torch.arange(N, device=q.device)
    for i, row in itertools.product(range(0, heads, step), range(0, N, rows)):
        mine, block = slice(i, i + step), slice(row, row + rows)
        keys, values = k[mine].to(dtype), v[mine].to(dtype)
        some, g = q[mine, :, block].to(dtype), grad[mine, :, block].to(dtype)  # (C, G, T, D)
        found = attend(some, keys, values, g, position[block] if causal else None)
        out[mine, :, block], dq[mine, :, block], ds, p = found
        dk[mine] += (ds.mT @ some).sum(1, keepdim=True)
        dv[mine] += (p.mT @ g).sum(1, keepdim=True)
    return out, dq, dk, dv


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
    grad: torch.Tensor,
    results: Mapping[str, Sequence[torch.Tensor]],
    shape: Shape,
    heads: slice,
    plainly: bool = False,
    tolerances: Mapping[str, float] = TOLERANCES,
) -> dict[str, Any]:
    """Compare results with the reference on the inputs that they were computed from.

    `results` has the output as ``out`` or the gradients as ``dqkv``, or both, in the inputs' form;
    they are read at once, on the current stream. `grad` is the gradient of the output.

    Returns the comparison for the record: the shape, the number of heads, the tolerance, the
    relative errors, None for one that is not finite; with `plainly`, in half precision, also those
    of standard attention in the same dtype.

    Raises:
        IncorrectError: an error above the tolerance, or NaN.
    """
    pick = partial(_pick, heads=heads, kv_heads=shape.kv_heads)
    mine = {name: pick(separated(tensors)) for name, tensors in results.items()}
    given = [*pick(separated(inputs)), *pick((grad,))]
    right, dtype = reference(given, shape.causal), inputs[0].dtype
    tolerance = tolerances[str(dtype).removeprefix("torch.")]

    def errors_of(results: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, float]:
        parts = {"out": right[:1], "dqkv": right[1:]}
        every = {name: (tensors, parts[name]) for name, tensors in results.items()}
        return {
            name: relative_error(*(torch.cat([x.flatten() for x in side]) for side in both))
            for name, both in every.items()
        }

    errors = errors_of(mine)
    compared: dict[str, Any] = {
        "reference": "float64",
        "batch_size": shape.batch_size,
        "seq_len": shape.seq_len,
        "num_heads": shape.num_heads,
        "heads": given[0][:, :, 0, 0].numel(),
        "seed": torch.initial_seed(),
        "tolerance": tolerance,
        "errors": {name: error if math.isfinite(error) else None for name, error in errors.items()},
    }
    if dtype.itemsize == 2 and plainly:
        out, *gradients = reference(given, shape.causal, dtype)
        compared["plain_errors"] = errors_of({"out": (out,), "dqkv": gradients})
    wrong = [f"{name} {error:.3g}" for name, error in errors.items() if not error <= tolerance]
    if wrong:
        sizes = {**shape.parameters, "head_dim": shape.head_dim, "seed": compared["seed"]}
        raise IncorrectError(
            f"relative error against float64: {', '.join(wrong)}; at most {tolerance:g} is allowed "
            f"({', '.join(f'{name} {size}' for name, size in sizes.items())})",
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

    def checked(
        inputs: Sequence[torch.Tensor], again: bool, tolerances: Mapping[str, float]
    ) -> dict[str, Any]:
        heads = heads_compared(shape, device, again)
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

    compared = checked(random_inputs(shape, dtype, device, form), again, TOLERANCES)
    if not again:
        try:
            checked(large_inputs(shape, dtype, device, form), True, LARGE_TOLERANCES)
        except IncorrectError as error:
            message = f"where scores are large: {error}"
            raise IncorrectError(message, error.compared) from error
    return compared
