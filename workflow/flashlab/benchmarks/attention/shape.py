"""The size of one attention problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, order=True)
class Shape:
    """The size of one attention problem: B batch_size, N seq_len, H num_heads, E emb_dim."""

    batch_size: int
    seq_len: int
    num_heads: int
    emb_dim: int
    causal: bool

    @property
    def head_dim(self) -> int:
        """D = E / H, the size of one head."""
        return self.emb_dim // self.num_heads

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Shape:
        """The shape among the keys of a mapping; KeyError for one that is missing."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls)})
