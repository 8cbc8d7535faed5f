"""The size of one attention problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

SHARED = "num_kv_heads"
"""The parameter that not every kernel takes, and that may be left out."""


@dataclass(frozen=True, order=True)
class Shape:
    """The size of one attention problem: B batch_size, N seq_len, H num_heads, E emb_dim.

    Each of H_kv heads of keys and values is shared by H / H_kv of queries. `num_kv_heads` is 0
    where nothing is shared, whatever H becomes; `kv_heads` is their number.
    """

    batch_size: int
    seq_len: int
    num_heads: int
    emb_dim: int
    causal: bool
    num_kv_heads: int = 0

    def __post_init__(self) -> None:
        if self.num_kv_heads == self.num_heads:
            object.__setattr__(self, SHARED, 0)

    @property
    def head_dim(self) -> int:
        """D = E / H, the size of one head."""
        return self.emb_dim // self.num_heads

    @property
    def kv_heads(self) -> int:
        """H_kv, the heads of keys and values."""
        return self.num_kv_heads or self.num_heads

    @property
    def group(self) -> int:
        """H / H_kv, the heads of queries that share one of keys and values."""
        return self.num_heads // self.kv_heads

    @property
    def beyond(self) -> set[str]:
        """The parameters that not every kernel takes, of those that are not as by default."""
        return {SHARED} & {*self.parameters}

    @property
    def parameters(self) -> dict[str, Any]:
        """The sizes and the mask by name, without what is as by default."""
        values = asdict(self)
        return values if self.num_kv_heads else {n: values[n] for n in values if n != SHARED}

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Shape:
        """The shape among the keys of a mapping; KeyError for one without a default."""
        given = {field.name: parameters[field.name] for field in fields(cls)[:-1]}
        return cls(**given, num_kv_heads=parameters.get(SHARED, 0))
