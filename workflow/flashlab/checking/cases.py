"""The cases of a check and their outcomes, without torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.shapes import shape_text

SEQ_LENS = (1, 37, 128, 129, 1000)
"""Such as fill a kernel's tiles, and such as do not."""


@dataclass(frozen=True)
class Grid:
    """The shapes and dtypes that a kernel is checked at unless the command line says otherwise.

    `dtypes` and `seq_lens` are by kind of device, since a simulator is slow. `more` are shapes
    beside the product of the others; only some kernels take those that share keys.
    """

    dtypes: Mapping[str, Sequence[str]]
    seq_lens: Mapping[str, Sequence[int]]
    head_dims: Sequence[int]
    masks: Sequence[bool] = (False, True)
    num_heads: int = 3
    more: Sequence[Shape] = ()

    def usual(self, device: str) -> dict[str, Sequence[int]]:
        """The values of each size."""
        sizes = {"seq_len": self.seq_lens[device], "num_heads": [self.num_heads]}
        return {"batch_size": [2], **sizes, "head_dim": self.head_dims}

    def shapes(self, device: str) -> list[Shape]:
        """Every head_dim, sequence length and mask, and the further shapes."""
        every = itertools.product(self.head_dims, self.seq_lens[device], self.masks)
        heads = self.num_heads
        return [*(Shape(2, n, heads, heads * d, mask) for d, n, mask in every), *self.more]


GRIDS = {
    "attention": Grid(
        dtypes={"cuda": ("float16", "bfloat16"), "cpu": ("float32", "bfloat16")},
        seq_lens={"cuda": SEQ_LENS, "cpu": SEQ_LENS},
        head_dims=(32, 64, 128, 256),
        more=[
            Shape(5 if kv == 12 else 2, 129, 12, 12 * 64, causal, kv)
            for kv in (12, 3, 1)
            for causal in (False, True)
        ],
    ),
    "ladder": Grid(
        dtypes={"cuda": ("float32",), "cpu": ("float32",)},
        seq_lens={"cuda": SEQ_LENS, "cpu": (1, 16, 33)},
        head_dims=(32, 64),
        masks=(False,),
        num_heads=1,
    ),
}
"""The grids by benchmark. A step of the ladder takes heads as further batches."""


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
        """True if the kernel was right, or does not support the case."""
        return self.status in ("ok", "unsupported")
