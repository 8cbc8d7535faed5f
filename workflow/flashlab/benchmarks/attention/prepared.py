"""Inputs with references, to compare calls with while they are timed.

The signs of coordinates are changed at random, one choice for q and k, another for v and the
gradient of the output. That changes outputs and gradients by signs alone, exactly: references stay
known while contents do not repeat.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from flashlab.benchmarks.attention.gate import TOLERANCES, attend, reference
from flashlab.benchmarks.attention.inputs import random_inputs, separated
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.failures import IncorrectError

ROWS, ROW_ELEMENTS = 16, 2**25
"""Rows of every head that have a reference; of q, k and v, the elements up to which all batches'
have one."""

WHOLE = 1 / 8
"""The share of comparisons with a whole head, and the share of those with all results."""

NOTHING = 1e-6
"""References that are smaller, such as gradients where there is one key, are rounding alone."""

NAMES = ("out", "dq", "dk", "dv")

Entry = tuple[int, object, torch.Tensor, float]
"""Which of `NAMES`, an index into it, what is right there, and the norm of that."""

_norm, _mul = torch.linalg.vector_norm, torch.mul

_random = random.Random()  # a kernel may seed the module's


def _entries(*known: tuple[int, object, torch.Tensor]) -> list[Entry]:
    """What is known with its norm; without what is nothing."""
    with_norms = [(*entry, float(_norm(entry[2]))) for entry in known]
    return [entry for entry in with_norms if entry[3] > NOTHING * entry[2].numel() ** 0.5]


class Prepared:
    """Inputs, the output's gradient, and what is right: in some rows of all heads, in one head.

    `first` is all that the kernel gave for them before the timing, once it agrees with both.
    """

    def __init__(
        self, shape: Shape, dtype: str, device: str, form: str | None, with_head: bool
    ) -> None:
        self.dtype = dtype
        self.inputs = [x.detach() for x in random_inputs(shape, dtype, device, form)]
        qkv = separated(self.inputs)
        self.grad = torch.randn_like(qkv[0], memory_format=torch.contiguous_format)
        self.rows = self._rows(shape, (*qkv, self.grad))
        self.head = self._head(shape, (*qkv, self.grad)) if with_head else []
        self.first: list[Entry] = []
        self.renew()

    def _rows(self, shape: Shape, given: Sequence[torch.Tensor]) -> list[Entry]:
        """Output and gradient of q in random rows, in float64."""
        one = shape.seq_len * shape.emb_dim
        batches = slice(0, max(1, min(shape.batch_size, ROW_ELEMENTS // one)))
        q, k, v, g = (x[batches].transpose(1, 2) for x in given)  # each (B, H, N, D)
        rows = torch.randperm(shape.seq_len, device=q.device)[:ROWS]
        k, v = (x.double().repeat_interleave(shape.group, 1) for x in (k, v))
        some = q[:, :, rows].double(), k, v, g[:, :, rows].double()
        right = attend(*some, rows if shape.causal else None)
        return _entries(*((i, (batches, rows), right[i].transpose(1, 2)) for i in (0, 1)))

    def _head(self, shape: Shape, given: Sequence[torch.Tensor]) -> list[Entry]:
        """All of a random head of k and v, and of those of q that share it.

        In float64 on a GPU, which has loaded what that takes; in float32 on a CPU.
        """
        b, h = _random.randrange(shape.batch_size), _random.randrange(shape.kv_heads)
        mine = slice(h * shape.group, (h + 1) * shape.group)
        dtype = torch.float64 if given[0].is_cuda else torch.float32
        q, k, v, g = (x.transpose(1, 2)[b] for x in given)  # each (H, N, D)
        some = q[mine][None], k[h][None, None], v[h][None, None], g[mine][None]
        out, dq, dk, dv = (x[0].to(dtype) for x in reference(some, shape.causal, dtype))
        return _entries(
            *((i, (b, slice(None), mine), x.transpose(0, 1)) for i, x in enumerate((out, dq))),
            *((i, (b, slice(None), h), x[0]) for i, x in ((2, dk), (3, dv))),
        )

    def renew(self) -> None:
        """Other signs."""
        x = self.grad
        self.qk, self.v = (torch.randint(2, (2, x.shape[-1]), device=x.device) * 2 - 1).to(x.dtype)

    def put_grad(self, storage: torch.Tensor) -> None:
        """Copy the output's gradient with its signs into this storage."""
        torch.mul(self.grad, self.v, out=storage.data)  # PyTorch's version stays

    def put(self, storage: Sequence[torch.Tensor]) -> None:
        """Copy the inputs with their signs into this storage."""
        packed = torch.stack((self.qk, self.qk, self.v))[:, None]
        signs = (packed,) if len(storage) == 1 else (self.qk, self.qk, self.v)
        for x, sign, target in zip(self.inputs, signs, storage, strict=True):
            torch.mul(x, sign, out=target)

    def _unsigned(self, i: int, result: torch.Tensor) -> torch.Tensor:
        """A result of the inputs with signs as that of the inputs without."""
        return _mul(result, self.qk if i in (1, 2) else self.v)

    def keep(self, results: Sequence[torch.Tensor]) -> None:
        """Check results before the timing, and keep them as those that others are compared with."""
        self.compare(results, [*self.rows, *self.head])
        every = (self._unsigned(i, x.detach()) for i, x in enumerate(results))
        self.first = _entries(*((i, ..., x) for i, x in enumerate(every)))

    def compare(self, results: Sequence[torch.Tensor], entries: Sequence[Entry]) -> None:
        """IncorrectError where results, of `NAMES` from the first on, are not what is right."""
        tolerance = TOLERANCES[self.dtype] * (2 if entries is self.first else 1)
        for i, index, right, norm in entries:
            if i < len(results):
                mine = self._unsigned(i, results[i][index])  # type: ignore[index]
                error = float(_norm(mine.to(right.dtype) - right)) / norm
                if not error <= tolerance:
                    raise IncorrectError(
                        f"relative error against float64: {NAMES[i]} {error:.3g}; at most "
                        f"{tolerance:g} is allowed"
                    )

    def check(self, results: Sequence[torch.Tensor]) -> None:
        """Compare with some rows; now and then with a whole head, or all of the first results."""
        kind = _random.random()
        whole = self.head if kind < WHOLE else self.first if kind < 2 * WHOLE else []
        self.compare(results, whole or self.rows)
