"""The cases of a check and their outcomes, without torch."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.shapes import ShapeError, parse_shapes, shape_text


@dataclass(frozen=True)
class Grid:
    """The shapes and dtypes that a kernel is checked at unless the command line says otherwise.

    `dtypes` and `seq_lens` are by kind of device, since a simulator is slow. Lengths are such as
    fill a kernel's tiles, and such as do not. `more` are shapes beside the product of the others;
    `beyond` are those that only some kernels take.
    """

    dtypes: Mapping[str, Sequence[str]]
    seq_lens: Mapping[str, Sequence[int]]
    head_dims: Sequence[int]
    masks: Sequence[bool]
    batch_size: int = 2
    num_heads: int = 3
    more: Sequence[Shape] = ()
    beyond: Sequence[Shape] = ()

    def shapes(self, device: str, takes: Collection[str] = ()) -> list[Shape]:
        """Every head_dim, sequence length and mask, and the further shapes.

        `takes` are the parameters that the kernel takes beyond those that every one does.
        """
        product = [
            Shape(self.batch_size, seq_len, self.num_heads, self.num_heads * head_dim, causal)
            for head_dim, seq_len, causal in itertools.product(
                self.head_dims, self.seq_lens[device], self.masks
            )
        ]
        return [*product, *self.more, *(s for s in self.beyond if s.beyond <= {*takes})]

    def parse(self, text: str, device: str) -> list[Shape]:
        """The shapes that a text names; a dimension that it omits is the grid's.

        Raises ShapeError.
        """
        shapes = parse_shapes(
            text,
            batch_size=[self.batch_size],
            seq_len=self.seq_lens[device],
            num_heads=[self.num_heads],
            head_dim=self.head_dims,
        )
        kept = [shape for shape in shapes if shape.causal in self.masks]
        if not kept:
            raise ShapeError(f"{text!r}: a step of the ladder has no mask; leave out causal")
        if not self.beyond and any(shape.beyond for shape in kept):
            raise ShapeError(f"{text!r}: a step of the ladder takes B, N, H and D alone")
        return kept


SEQ_LENS = (1, 37, 128, 129, 1000)

GRIDS = {
    "attention": Grid(
        dtypes={"cuda": ("float16", "bfloat16"), "cpu": ("float32", "bfloat16")},
        seq_lens={"cuda": SEQ_LENS, "cpu": SEQ_LENS},
        head_dims=(32, 64, 128, 256),
        masks=(False, True),
        more=[Shape(5, 129, 12, 12 * 64, causal) for causal in (False, True)],
        beyond=[
            Shape(2, 129, 12, 12 * 64, causal, kv_heads)
            for kv_heads in (3, 1)
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
