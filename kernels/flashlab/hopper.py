"""Launches the Hopper kernels: descriptors of the tensors, tiles, and the order of the passes."""

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
from kernels.flashlab import choices
from kernels.flashlab.hopper_backward import (
    finish_kernel,
    keys_kernel,
    prepare_kernel,
    queries_kernel,
)
from kernels.flashlab.hopper_backward_wide import wide_keys_kernel
from kernels.flashlab.hopper_forward import forward_kernel
from kernels.flashlab.launching import Boxes, Launch

PROBLEMS = 1024
"""How many problems' launches are kept: as many sequence lengths as a program is likely to use."""


class Problem(NamedTuple):
    """What decides the launches of a pass: the sizes, the mask, and where the tensors are.

    `lse_stride` is how far the rows of lse and Δ are apart.
    """

    B: int
    N: int
    H: int
    D: int
    causal: bool
    lse_stride: int
    dtype: torch.dtype
    device: torch.device

    def rows(self, width: int, rows: int) -> Boxes:
        """(B, N, width H D) in boxes of some rows of one head.

        The batch is a dimension of its own, so that what lies past N is not the next sequence.
        """
        columns = width * self.H * self.D
        shape, strides = (self.B, self.N, columns), (self.N * columns, columns, 1)
        return Boxes(self.dtype, shape, strides, (1, rows, self.D))

    def row_values(self, values: int) -> Boxes:
        """lse or Δ, (B H, N) float32, in boxes of some values of one head."""
        shape, strides = (self.B * self.H, self.N), (self.lse_stride, 1)
        return Boxes(torch.float32, shape, strides, (1, values))

    def float32_rows(self) -> Boxes:
        """(B H, N, D) float32 in boxes of 64 rows and at most 64 columns."""
        shape, strides = (self.B * self.H, self.N, self.D), (self.N * self.D, self.D, 1)
        return Boxes(torch.float32, shape, strides, (1, 64, min(self.D, 64)))

    def tiles(self, rows: int) -> int:
        """B H ⌈N / rows⌉."""
        return self.B * self.H * triton.cdiv(self.N, rows)

    def programs(self, tiles: int, each: int = 1) -> int:
        """So many programs for each multiprocessor, and no more than tiles."""
        properties = torch.cuda.get_device_properties(self.device)
        return min(tiles, each * properties.multi_processor_count)

    def heads_together(self, tensors: int) -> int:
        """How many heads go side by side with a mask, where `tensors` are read again."""
        return choices.heads_together(self.N, self.B * self.H, self.D, tensors)


def _problem(qkv: torch.Tensor, causal: bool, lse: torch.Tensor) -> Problem:
    B, N, _, H, D = qkv.shape
    return Problem(B, N, H, D, causal, lse.stride(0), qkv.dtype, qkv.device)


@lru_cache(PROBLEMS)
def _forward_launch(problem: Problem) -> Launch:
    _, N, H, D, causal, lse_stride, _, _ = problem
    tile = choices.hopper_forward(D, N, causal)
    tiles = problem.tiles(64 * tile.consumers)
    queued = choices.forward_queues(D, N, causal)
    return Launch(
        forward_kernel,
        problem.programs(tiles, tile.programs),
        [problem.rows(3, 64), problem.rows(3, tile.keys), problem.rows(1, 64), torch.float32,
         torch.int32 if queued else torch.float32],
        [lse_stride, N, H, tiles, problem.heads_together(tensors=2)],
        D=D, BN=tile.keys, C=tile.consumers, RING=tile.ring, CAUSAL=causal,
        RAGGED=N % tile.keys != 0, QUEUED=queued, REGISTERS=tile.registers, num_warps=4,
        maxnreg=tile.max_registers,
    )  # fmt: skip


def forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> None:
    """Fill out (B, N, H, D) and lse (B H, N) from qkv (B, N, 3, H, D)."""
    problem = _problem(qkv, causal, lse)
    queued = choices.forward_queues(problem.D, problem.N, causal)
    counter = qkv.new_zeros(1, dtype=torch.int32) if queued else lse
    _forward_launch(problem)(qkv, qkv, out, lse, counter)


@lru_cache(PROBLEMS)
def _queries_launch(problem: Problem) -> Launch:
    _, N, H, D, causal, lse_stride, dtype, _ = problem
    tile = choices.hopper_backward(D, N, causal)
    tiles = problem.tiles(128)
    queued = choices.backward_queues(N, causal)
    return Launch(
        queries_kernel,
        problem.programs(tiles),
        [problem.rows(3, 64), problem.rows(3, tile.keys), problem.rows(1, 64), problem.rows(3, 64),
         dtype, torch.float32, torch.float32, torch.int32 if queued else torch.float32],
        [lse_stride, N, H, tiles, problem.heads_together(tensors=2)],
        D=D, BN=tile.keys, C=2, RING=tile.queries_ring, CAUSAL=causal, RAGGED=N % tile.keys != 0,
        CARRY=tile.carry, QUEUED=queued, REGISTERS=choices.TWO_CONSUMERS, num_warps=4, maxnreg=168,
    )  # fmt: skip


@lru_cache(PROBLEMS)
def _keys_launch(problem: Problem, reduced: bool) -> Launch:
    _, N, H, D, causal, _, _, _ = problem
    tile = choices.hopper_backward(D, N, causal)
    tiles = problem.tiles(128)
    queued = choices.backward_queues(N, causal)
    return Launch(
        keys_kernel,
        problem.programs(tiles),
        [problem.rows(3, tile.queries), problem.rows(3, 128), problem.rows(1, tile.queries),
         problem.row_values(tile.queries), problem.row_values(tile.queries), problem.rows(3, 64),
         problem.float32_rows() if reduced else torch.float32,
         torch.int32 if queued else torch.float32],
        [N, H, tiles, problem.heads_together(tensors=4)],
        D=D, BM=tile.queries, RING=tile.ring, CAUSAL=causal, RAGGED=N % 128 != 0, REDUCED=reduced,
        QUEUED=queued, REGISTERS=choices.TWO_CONSUMERS, num_warps=4, maxnreg=168,
    )  # fmt: skip


@lru_cache(PROBLEMS)
def _wide_keys_launch(problem: Problem) -> Launch:
    _, N, H, D, causal, _, _, _ = problem
    tile = choices.hopper_backward(D, N, causal)
    tiles = problem.tiles(64)
    queued = choices.backward_queues(N, causal)
    return Launch(
        wide_keys_kernel,
        problem.programs(tiles),
        [problem.rows(3, tile.queries), problem.rows(3, 64), problem.rows(1, tile.queries),
         problem.row_values(tile.queries), problem.row_values(tile.queries), problem.rows(3, 64),
         torch.int32 if queued else torch.float32],
        [N, H, tiles, problem.heads_together(tensors=4)],
        D=D, BM=tile.queries, RING=tile.ring, CAUSAL=causal, RAGGED=N % 64 != 0, QUEUED=queued,
        REGISTERS=choices.TWO_CONSUMERS, num_warps=4, maxnreg=168,
    )  # fmt: skip


@lru_cache(PROBLEMS)
def _prepare_launch(problem: Problem) -> Launch:
    _, N, H, D, _, lse_stride, dtype, _ = problem
    pointers = [dtype, dtype, torch.float32, torch.float32]
    return Launch(prepare_kernel, problem.tiles(64), pointers, [lse_stride, N, H], D=D, ROWS=64)


@lru_cache(PROBLEMS)
def _finish_launch(problem: Problem) -> Launch:
    _, N, H, D, _, _, dtype, _ = problem
    return Launch(finish_kernel, problem.tiles(64), [torch.float32, dtype], [N, H], D=D, ROWS=64)


def backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool, dqkv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dqkv (B, N, 3, H, D) from dO and O (B, N, H, D) and lse (B H, N)."""
    problem = _problem(qkv, causal, lse)
    B, N, H, D = problem[:4]
    delta = torch.empty_strided(lse.shape, lse.stride(), dtype=lse.dtype, device=lse.device)
    first = second = lse
    if choices.backward_queues(N, causal):
        # A counter for each of two kernels, both at multiples of 16 bytes.
        first, second = qkv.new_zeros(2, 4, dtype=torch.int32).unbind()
    reduced = choices.reduces(D, N) and not deterministic
    if reduced:
        dq = qkv.new_empty(B * H, N, D, dtype=torch.float32)
        _prepare_launch(problem)(out, grad, delta, dq)
    else:
        dq = lse
        _queries_launch(problem)(qkv, qkv, grad, dqkv, out, lse, delta, first)
    if D == 256:
        _wide_keys_launch(problem)(qkv, qkv, grad, lse, delta, dqkv, second)
    else:
        _keys_launch(problem, reduced)(qkv, qkv, grad, lse, delta, dqkv, dq, second)
    if reduced:
        _finish_launch(problem)(dq, dqkv)
