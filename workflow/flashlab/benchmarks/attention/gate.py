"""The correctness gate: an implementation against a float64 reference, before it is timed."""

from __future__ import annotations

import math
from typing import Any

import torch

from flashlab.benchmarks.attention.inputs import Attention, packed, random_inputs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.failures import IncorrectError

TOLERANCES = {"float16": 5e-3, "bfloat16": 2e-2, "float32": 1e-4}
"""Largest relative error, as the norm of the difference over the norm of the reference. A dtype's
own rounding stays several times below it; a wrong mask, scale or missing head lies far above."""

MAX_SCORES = {"cpu": 2**24, "cuda": 2**31}
"""Most elements of the score matrices, B·H·N², that the reference computes on a device."""

CHUNK_SCORES = {"cpu": 2**22, "cuda": 2**28}
"""Elements of the score matrices that the reference holds at once (8 bytes each, a few copies)."""

REMAINDER = 128
"""Kernels tile sequences by at most this; a smaller sequence keeps the remainder modulo it."""


OVERWRITTEN = "{} is overwritten, which the model that calls the kernel still needs; work on a copy"


def gate_shape(shape: Shape, device: str) -> Shape:
    """The shape itself where the reference fits, else one with fewer batches, heads, tiles.

    head_dim, causal and seq_len's remainder modulo 128 stay as they are.
    """
    batch_size, num_heads, seq_len = shape.batch_size, shape.num_heads, shape.seq_len
    limit = MAX_SCORES[device]
    if batch_size * num_heads * seq_len**2 <= limit:
        return shape
    batch_size = max(1, min(batch_size, limit // (num_heads * seq_len**2)))
    num_heads = max(1, min(num_heads, limit // (batch_size * seq_len**2)))
    tiles = math.isqrt(limit // (batch_size * num_heads)) // REMAINDER
    if batch_size * num_heads * seq_len**2 > limit:
        seq_len = seq_len % REMAINDER + (tiles - 1) * REMAINDER
    return Shape(batch_size, seq_len, num_heads, num_heads * shape.head_dim, shape.causal)


def reference_passes(
    qkv: torch.Tensor, grad: torch.Tensor, causal: bool, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, N, H, D) and gradient (B, N, 3, H, D) of standard attention, as float64.

    softmax(q·kᵀ/√D)·v and its derivative by hand, a few heads at a time, so that the score
    matrices never exceed `CHUNK_SCORES`. It is computed in `dtype`: in half precision as a plain
    implementation does, with the softmax in float32 and all that is stored rounded.
    """
    B, N, _, H, D = qkv.shape
    scale = D**-0.5
    heads = qkv.detach().permute(2, 0, 3, 1, 4).reshape(3, B * H, N, D)
    grads = grad.detach().permute(0, 2, 1, 3).reshape(B * H, N, D)
    out = torch.empty(B * H, N, D, dtype=torch.float64, device=qkv.device)
    dqkv = torch.empty(3, B * H, N, D, dtype=torch.float64, device=qkv.device)
    hidden = torch.ones(N, N, dtype=torch.bool, device=qkv.device).triu(1) if causal else None
    step = max(1, CHUNK_SCORES[qkv.device.type] // N**2)
    for i in range(0, B * H, step):
        q, k, v = heads[:, i : i + step].to(dtype)  # each (C, N, D)
        g = grads[i : i + step].to(dtype)  # (C, N, D)
        scores = q @ k.mT * scale  # (C, T, S)
        if hidden is not None:
            scores.masked_fill_(hidden, -torch.inf)
        p = torch.softmax(scores, dim=-1, dtype=torch.promote_types(dtype, torch.float32)).to(dtype)
        del scores
        o = p @ v  # (C, T, D)
        dp = g @ v.mT  # (C, T, S)
        ds = p * (dp - (g * o).sum(-1, keepdim=True))  # (C, T, S)
        out[i : i + step] = o
        dqkv[0, i : i + step] = ds @ k * scale
        dqkv[1, i : i + step] = ds.mT @ q * scale
        dqkv[2, i : i + step] = p.mT @ g
    return (
        out.view(B, H, N, D).transpose(1, 2),
        dqkv.view(3, B, H, N, D).permute(1, 3, 0, 2, 4),
    )


def relative_error(found: torch.Tensor, reference: torch.Tensor) -> float:
    """‖found − reference‖ / ‖reference‖ in float64; NaN where anything found is NaN."""
    difference = torch.linalg.vector_norm(found.double() - reference)
    return float(difference / torch.linalg.vector_norm(reference))


def _errors(
    found: tuple[torch.Tensor, torch.Tensor], reference: tuple[torch.Tensor, torch.Tensor]
) -> dict[str, float]:
    """The relative errors of the output and of the gradient."""
    pairs = zip(("out", "dqkv"), found, reference, strict=True)
    return {name: relative_error(one, other) for name, one, other in pairs}


def check_correctness(
    attention: Attention, shape: Shape, dtype: str, device: str, form: str | None = None
) -> dict[str, Any]:
    """Compare an implementation's output and gradient with the reference on fresh inputs.

    Returns what was compared, for the record: the shape, the seed, the tolerance, the relative
    errors of ``out`` (B, N, H, D) and ``dqkv`` (B, N, 3, H, D), None for one that is not finite;
    in half precision also those of the same computed plainly in it.

    Raises:
        IncorrectError: an error above the tolerance, NaN, or an output of the wrong form.
    """
    checked = gate_shape(shape, device)
    seed = torch.initial_seed()
    size = (checked.batch_size, checked.seq_len, 3, checked.num_heads, checked.head_dim)
    inputs = random_inputs(checked, dtype, device, form)
    given = packed(inputs).detach().clone()
    out = attention(*inputs, checked.causal)
    expected = (*size[:2], *size[3:])
    if not isinstance(out, torch.Tensor):  # a forgotten return, or (out, lse)
        raise IncorrectError(
            f"the output is {type(out).__name__}; it must be a tensor {expected} {given.dtype}"
        )
    if out.shape != expected or out.dtype != given.dtype:
        raise IncorrectError(
            f"the output is {tuple(out.shape)} {out.dtype}; it must be {expected} {given.dtype}"
        )
    names = "qkv" if len(inputs) == 1 else "q, k and v"
    grad = torch.randn_like(out)
    if out.requires_grad:
        out.backward(grad)
    gradients = tuple(leaf.grad for leaf in inputs if leaf.grad is not None)
    if len(gradients) < len(inputs):
        raise IncorrectError(f"the output has no gradient with respect to {names}")
    if not torch.equal(packed(inputs).detach(), given):
        raise IncorrectError(OVERWRITTEN.format(names))
    reference = reference_passes(given, grad, checked.causal)
    errors = _errors((out.detach(), packed(gradients)), reference)
    in_half = {}
    if given.dtype.itemsize == 2:
        plain = reference_passes(given, grad, checked.causal, given.dtype)
        in_half = {"plain_errors": _errors(plain, reference)}
    tolerance = TOLERANCES[dtype]
    compared = {
        "reference": "float64",
        "batch_size": checked.batch_size,
        "seq_len": checked.seq_len,
        "num_heads": checked.num_heads,
        "seed": seed,
        "tolerance": tolerance,
        "errors": {k: error if math.isfinite(error) else None for k, error in errors.items()},
        **in_half,
    }
    wrong = [name for name, error in errors.items() if not error <= tolerance]
    if wrong:
        found = ", ".join(f"{name} {errors[name]:.3g}" for name in wrong)
        raise IncorrectError(
            f"relative error against float64: {found}; at most {tolerance:g} is allowed "
            f"(batch_size {checked.batch_size}, seq_len {checked.seq_len}, "
            f"num_heads {checked.num_heads}, head_dim {checked.head_dim}, seed {seed})",
            compared,
        )
    return compared
