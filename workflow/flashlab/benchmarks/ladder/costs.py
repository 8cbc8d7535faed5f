"""The costs of an attention problem of the ladder: B batch_size, N seq_len, d head_dim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flops(parameters: Mapping[str, Any]) -> float:
    """4·B·N²·d: the products q·kᵀ and p·v, a multiplication and an addition each."""
    batch_size, seq_len, head_dim = (
        float(parameters[name]) for name in ("batch_size", "seq_len", "head_dim")
    )
    return 4 * batch_size * seq_len**2 * head_dim
