"""The cases of a check and their outcomes, without torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.shapes import parse_shapes, shape_text

DTYPES = {"cuda": ("float16", "bfloat16"), "cpu": ("float32", "bfloat16")}
HEAD_DIMS = (32, 64, 128, 256)
SEQ_LENS = (1, 37, 128, 129, 1000)
"""Lengths that fill a kernel's tiles, and lengths that do not."""

BATCH_SIZE, NUM_HEADS = 2, 3


@dataclass(frozen=True)
class Case:
    """One comparison to make."""

    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True)
class Outcome:
    """The result of a comparison.

    `status` and `message` are a record's; `errors` are the relative errors of ``out`` and
    ``dqkv``, and `tolerance` the largest that is allowed, where they are known. `traceback` is
    the kernel's part of an exception's. After a `fatal` outcome, the checking process
    has died or is unusable.
    """

    status: str
    message: str = ""
    errors: Mapping[str, float] = field(default_factory=dict)
    tolerance: float | None = None
    traceback: str = ""
    fatal: bool = False

    @property
    def passed(self) -> bool:
        """Whether the kernel was right, or declined the case."""
        return self.status in ("ok", "unsupported")


def shapes_of(text: str) -> list[Shape]:
    """The shapes that a text names; dimensions that it omits are the grid's. Raises ShapeError."""
    return parse_shapes(
        text,
        batch_size=[BATCH_SIZE],
        seq_len=SEQ_LENS,
        num_heads=[NUM_HEADS],
        head_dim=HEAD_DIMS,
    )


def grid() -> list[Shape]:
    """Every head_dim, sequence length and mask."""
    return [
        Shape(BATCH_SIZE, seq_len, NUM_HEADS, NUM_HEADS * head_dim, causal)
        for head_dim, seq_len, causal in itertools.product(HEAD_DIMS, SEQ_LENS, (False, True))
    ]


def cases_of(shapes: Iterable[Shape], dtypes: Sequence[str]) -> list[Case]:
    """Every shape in every dtype, each once."""
    return [Case(*pair) for pair in itertools.product(dict.fromkeys(dtypes), dict.fromkeys(shapes))]
