"""The gradient gate: the gradients of the model as trained, against the same model in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from flashlab.benchmarks.training.loop import Forward, autocast
from flashlab.benchmarks.training.model import GPT, CausalSelfAttention
from flashlab.measuring.failures import IncorrectError

TOLERANCES = {"float16": 3e-2, "bfloat16": 3e-2, "float32": 1e-3}
"""Largest relative error, as the norm of the difference over the norm of the reference, of
gradients that have passed through every layer in a dtype. Its own rounding stays several times
below (8e-3 in bfloat16 on an H200, 1.4e-2 in float16 on a CPU); a mask left out gives 0.3, a scale
of q·k that is 20% off 0.2."""


def reference_attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Softmax of the scaled scores, times v, from a packed tensor; in its dtype, any autocast off.

    (B, T, 3, H, D) to (B, T, H, D).
    """
    q, k, v = qkv.transpose(1, 3).unbind(dim=2)  # each (B, H, T, D)
    scores = q @ k.mT * qkv.shape[-1] ** -0.5  # (B, H, T, S)
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=qkv.device).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ v).transpose(1, 2)  # (B, T, H, D)


def reference_gradients(
    model: GPT, tokens: torch.Tensor, targets: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The gradient of each weight in float64, one sequence after the other to spare memory."""
    reference = copy.deepcopy(model).double()
    reference.zero_grad(set_to_none=True)
    for part in reference.modules():
        if isinstance(part, CausalSelfAttention):
            part.attention = reference_attention
    for inputs, expected in zip(tokens.split(1), targets.split(1), strict=True):
        (reference(inputs, expected) / len(tokens)).backward()
    return {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}


def _relative_error(pairs: Collection[Sequence[torch.Tensor]]) -> float:
    """‖gradients − reference‖ / ‖reference‖ over several tensors, each with its reference."""
    squares = sum(float((mine.double() - theirs).square().sum()) for mine, theirs in pairs)
    return math.sqrt(squares / sum(float(theirs.square().sum()) for _, theirs in pairs))


def check_gradients(
    model: GPT,
    forward: Forward,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """Compare the gradients of `forward`, the model or the model compiled, with the reference's.

    `tokens` and `targets` are a micro-batch, (B, T). Returns what was compared, for the record.

    Raises:
        IncorrectError: an error above the tolerance, or one that is not finite.
    """
    model.zero_grad(set_to_none=True)
    with autocast(run):
        loss = forward(tokens, targets)
    loss.backward()
    found = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }
    reference = reference_gradients(model, tokens, targets)
    pairs = {name: (found[name], right) for name, right in reference.items()}
    # A wrong scale shows in those of q and k alone, and hardly changes the others.
    attention = [pair for name, pair in pairs.items() if ".c_attn." in name]
    errors = {
        "gradient": _relative_error(pairs.values()),
        "query_key_gradient": _relative_error(
            [[x[: 2 * len(x) // 3] for x in pair] for pair in attention]
        ),
    }
    tolerance = TOLERANCES[run["dtype"]]
    compared = {
        "reference": "float64",
        "tolerance": tolerance,
        "errors": {name: e if math.isfinite(e) else None for name, e in errors.items()},
    }
    wrong = [f"{name} {error:.3g}" for name, error in errors.items() if not error <= tolerance]
    if wrong:
        raise IncorrectError(
            f"relative error against float64: {', '.join(wrong)}; at most {tolerance:g} is allowed",
            compared,
        )
    return compared
