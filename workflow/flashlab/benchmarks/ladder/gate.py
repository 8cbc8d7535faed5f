"""The correctness gate of the ladder: elements against float64, before and after the timing."""

from __future__ import annotations

import math
from typing import Any

import torch

from flashlab.benchmarks.ladder.step import Array
from flashlab.measuring.failures import IncorrectError

TOLERANCE = 5e-3
"""Largest difference of an element, as the assignment judges it."""

CHUNK_SCORES = {"cpu": 2**22, "cuda": 2**27}
"""Elements of the scores that the reference holds at once (8 bytes each, a few copies)."""

MAX_SCORES = {"cpu": 2**24, "cuda": 2**36}
"""Most scores, B·N², that are computed; of a larger problem the last batches are left out."""

MAX_SCORES_AGAIN = {"cpu": 2**22, "cuda": 2**30}
"""The same after the timing."""


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax(q·kᵀ/√d)·v in float64, (C, N, d) of a few batches, a block of rows at a time."""
    batch_size, seq_len, head_dim = q.shape
    rows = max(1, CHUNK_SCORES[q.device.type] // (batch_size * seq_len))
    keys, values = k.double(), v.double()
    blocks = [
        torch.softmax(block.double() @ keys.mT / math.sqrt(head_dim), dim=-1) @ values
        for block in q.split(rows, dim=1)
    ]
    return torch.cat(blocks, dim=1)


def worst_error(q: Array, k: Array, v: Array, out: Array, device: str) -> float:
    """The largest difference of an element from the reference, (B, N, d) each, on the host.

    Infinite where one is not finite.
    """
    together = max(1, CHUNK_SCORES[device] // q.shape[1] ** 2)
    worst = 0.0
    for first in range(0, len(q), together):
        part = slice(first, first + together)
        *given, result = (torch.from_numpy(tensor[part]).to(device) for tensor in (q, k, v, out))
        error = float((result.double() - reference(*given)).abs().max())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def check_correctness(
    q: Array, k: Array, v: Array, out: Array, device: str, again: bool = False
) -> dict[str, Any]:
    """Compare an output with the reference, element by element: (B, N, d) each, on the host.

    Returns what was compared, for the record: how many batches, the seed, the tolerance, and the
    largest error of ``out``, None where it is not finite.

    Raises:
        IncorrectError: an element is off by more than the tolerance, or is not finite.
    """
    most_scores = (MAX_SCORES_AGAIN if again else MAX_SCORES)[device]
    checked = max(1, min(len(q), most_scores // q.shape[1] ** 2))
    worst = worst_error(q[:checked], k[:checked], v[:checked], out[:checked], device)
    compared = {
        "reference": "float64",
        "batches": checked,
        "seed": torch.initial_seed(),
        "tolerance": TOLERANCE,
        "errors": {"out": worst if math.isfinite(worst) else None},
    }
    if not worst <= TOLERANCE:
        raise IncorrectError(
            f"an element is off by {worst:.3g} from float64; at most {TOLERANCE:g} is allowed",
            compared,
        )
    return compared
