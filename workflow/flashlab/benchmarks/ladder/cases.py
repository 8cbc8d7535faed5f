"""The test cases of homework 4, by number, and the parts of its program.

B batch_size, N seq_len, d head_dim. Source: the assignment's published sizes (docs/ladder.md).
"""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """B batch_size, N seq_len and d head_dim of a case, or of a file of one."""

    batch_size: int
    seq_len: int
    head_dim: int

    @property
    def matrix_bytes(self) -> int:
        """Bytes of one batch of Q, K, V or the output."""
        return 4 * self.seq_len * self.head_dim

    def __str__(self) -> str:
        return f"B {self.batch_size}, N {self.seq_len}, d {self.head_dim}"


_ASSIGNMENT = {
    **{1: (320, 128, 32), 2: (160, 128, 64), 3: (160, 256, 32), 4: (80, 256, 64)},
    **{5: (80, 512, 32), 6: (40, 512, 64), 7: (40, 1024, 32), 8: (20, 1024, 64)},
    **{9: (20, 2048, 32), 10: (10, 2048, 64), 11: (13600, 128, 32), 12: (9600, 128, 64)},
    **{13: (6400, 256, 32), 14: (2000, 256, 64), 15: (2000, 512, 32), 16: (800, 512, 64)},
    **{17: (800, 1024, 32), 18: (300, 1024, 64), 19: (300, 2048, 32), 20: (100, 2048, 64)},
    **{21: (500, 2048, 32), 22: (500, 2048, 64), 23: (100, 4096, 32), 24: (100, 4096, 64)},
    **{25: (30, 8192, 32), 26: (10, 8192, 64), 27: (10, 16384, 32), 28: (4, 16384, 64)},
    **{29: (4, 32768, 32), 30: (2, 32768, 64)},
}

ASSIGNMENT = {number: Sizes(*sizes) for number, sizes in _ASSIGNMENT.items()}

TINY = {101: Sizes(1, 8, 32), 102: Sizes(1, 16, 32)}
"""Our own, which numba's simulator of CUDA ends within seconds; N is no multiple of a tile."""

CASES = {**ASSIGNMENT, **TINY}

_NUMBERS = {sizes: number for number, sizes in CASES.items()}


def case_of(batch_size: int, seq_len: int, head_dim: int) -> int:
    """The number of the case with these sizes; 0 where there is none."""
    return _NUMBERS.get(Sizes(batch_size, seq_len, head_dim), 0)


PARTS = (
    *("start", "compilation", "buffers", "file_in", "copy_in", "kernel", "copy_out", "overlapped"),
    "file_out",
)
"""The parts of the whole process in order, as the program itself times them."""
