"""Launches the Hopper kernels: their constants, their arguments, and the order of the passes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from kernels.flashlab import choices, compiling
from kernels.flashlab.choices import Backward, rounded_up
from kernels.flashlab.launching import Boxes, Launch, Module

PROBLEMS = 1024
"""How many problems' launches are kept: as many sequence lengths as a program is likely to use."""

Strides = tuple[int, ...]


class Problem(NamedTuple):
    """What decides the launches of a pass: the sizes, the mask, and where the tensors are.

    Q and all that is like it have H heads, K and V `kv_heads`. The strides are those of Q, K, V and,
    in the backward, of their gradients; O and dO are contiguous.
    """

    B: int
    N: int
    H: int
    kv_heads: int
    D: int
    causal: bool
    dtype: torch.dtype
    device: int
    strides: tuple[Strides, ...]

    @staticmethod
    def of(q: torch.Tensor, k: torch.Tensor, causal: bool, *tensors: torch.Tensor) -> "Problem":
        B, N, H, D = q.shape
        strides = tuple(tensor.stride() for tensor in tensors)
        return Problem(B, N, H, k.shape[2], D, causal, q.dtype, q.device.index, strides)

    @property
    def group(self) -> int:
        """Heads of Q that share one of K and V."""
        return self.H // self.kv_heads

    @property
    def padded(self) -> int:
        """How many values of lse and of Δ a head has."""
        return padded(self.N)

    @property
    def width(self) -> int:
        """D up to what products take; the copy engine fills up with zeros."""
        return rounded_up(self.D, 16)

    @property
    def chunks(self) -> int:
        """Of 64 columns, which a tile is made of."""
        return -(-self.D // 64)

    @property
    def processors(self) -> int:
        return torch.cuda.get_device_properties(self.device).multi_processor_count

    def blocks(self, rows: int) -> int:
        """⌈N / rows⌉."""
        return -(-self.N // rows)

    def boxes(self, heads: int, strides: Strides | None, rows: int) -> Boxes:
        """Of a tensor (B, N, heads, D), by default a contiguous one."""
        if strides is None:
            strides = (self.N * heads * self.D, heads * self.D, self.D, 1)
        return Boxes.of(self.dtype, (self.B, self.N, heads, self.D), strides, rows)

    def together(self, heads: int, tensors: int) -> int:
        """How many of B · heads go side by side with a mask."""
        if not self.causal:
            return 1
        return choices.heads_together(self.N, self.B * heads, self.D, tensors)

    @property
    def constants(self) -> dict[str, int]:
        """What every kernel takes as given."""
        return {"D": self.width, "HEAD_DIM": self.D, "CAUSAL": self.causal}


def padded(seq_len: int) -> int:
    """How many values of lse and of Δ a head has: the kernels read whole blocks of them."""
    return rounded_up(seq_len, 128)


@lru_cache(PROBLEMS)
def _module(
    name: str, constants: tuple[tuple[str, int], ...], bfloat16: bool, sums: tuple[int, ...],
    sums_from_registers: tuple[int, ...], device: int,
) -> Module:  # fmt: skip
    """A kernel's file compiled and loaded on the current GPU, `device`."""
    given = dict(constants)
    scale = given["HEAD_DIM"] ** -0.5
    text = compiling.source(name, given, scale, bfloat16, sums, sums_from_registers)
    return Module(compiling.cubin(name, text))


def _load(
    problem: Problem, name: str, constants: dict[str, int], sums: Sequence[int]
) -> Module:  # fmt: skip
    given = {**problem.constants, **constants}
    bfloat16 = problem.dtype == torch.bfloat16
    return _module(
        name, tuple(given.items()), bfloat16, tuple(sums), (problem.width // 2,), problem.device
    )


# --- Forward --------------------------------------------------------------------------------------


@lru_cache(PROBLEMS)
def _forward_launch(problem: Problem) -> Launch:
    B, N, H, kv_heads, D, causal = problem[:6]
    tile = choices.forward(D, N, causal)
    rows = 64 * tile.consumers
    separate = D <= 128
    module = _load(
        problem,
        "forward",
        {"KEYS": tile.keys, "CONSUMERS": tile.consumers, "STAGES": tile.stages,
         "PROGRAMS": tile.programs, "PINGPONG": tile.takes_turns, "SEPARATE_O": separate,
         "QUEUED": choices.forward_queues(D, N, causal),
         "CONSUMER_REGISTERS": tile.registers[0], "PRODUCER_REGISTERS": tile.registers[1]},
        [tile.keys // 2],
    )  # fmt: skip
    row_bytes = problem.chunks * 128
    shared = row_bytes * (2 * tile.stages * tile.keys + rows * (1 + separate)) + 512
    tiles = B * H * -(-problem.padded // rows)
    q, k, v = problem.strides
    return Launch(
        module.function("forward", shared),
        min(tiles, tile.programs * problem.processors),
        128 * (1 + tile.consumers),
        shared,
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, tile.keys),
         problem.boxes(kv_heads, v, tile.keys), problem.boxes(H, None, 64)],
        [B, N, H, problem.group, tiles, problem.together(H, 2), problem.padded],
        pointers=2,
    )  # fmt: skip


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, out: torch.Tensor,
    lse: torch.Tensor,
) -> None:  # fmt: skip
    """Fill out (B, N, H, D) and lse (B, H, padded) from q (B, N, H, D), k and v."""
    problem = Problem.of(q, k, causal, q, k, v)
    queued = choices.forward_queues(problem.D, problem.N, causal)
    counter = lse.new_zeros(1, dtype=torch.int32) if queued else lse
    _forward_launch(problem)(q, k, v, out, lse, counter)


# --- Backward, head_dim up to 128 -----------------------------------------------------------------


class _Keys(NamedTuple):
    """The launches of cuda/backward.cu, and the float32 values of dQ that it sums up in memory."""

    mode: Backward
    prepare: Launch | None
    main: Launch
    finish: Launch | None
    sums: int


@lru_cache(PROBLEMS)
def _keys_launches(problem: Problem, deterministic: bool) -> _Keys:
    B, N, H, kv_heads, D, causal = problem[:6]
    heads, group = B * kv_heads, problem.group
    mode = choices.backward(N, heads, problem.processors, deterministic)
    shared = _keys_shared(problem, mode)
    if shared > choices.SHARED_BYTES:  # lse and Δ of so many heads
        mode = Backward.ALONE if deterministic else Backward.ADDED
        shared = _keys_shared(problem, mode)
    tile = choices.backward_tile(D, mode)
    registers = (240, 24, 24) if mode == Backward.ALONE else (208, 64, 32)
    module = _load(
        problem,
        "backward",
        {"ROWS": tile.rows, "MODE": mode, "RAGGED": N % 128 != 0, "GROUPED": group > 1,
         "AHEAD": tile.ahead, "BEFORE_DP": tile.before_dp, "KEYS_REGISTERS": registers[0],
         "DQ_REGISTERS": registers[1], "PRODUCER_REGISTERS": registers[2]},
        [tile.rows // 2, 32],
    )  # fmt: skip
    blocks = problem.blocks(tile.rows)
    tiles = heads if mode == Backward.OWN_HEADS else heads * problem.blocks(128)
    programs = min(tiles, problem.processors)
    q, k, v, dq, dk, dv = problem.strides
    boxes = [
        problem.boxes(H, q, tile.rows), problem.boxes(kv_heads, k, 128),
        problem.boxes(kv_heads, v, 128), problem.boxes(H, None, tile.rows),
        problem.boxes(H, None, tile.rows), problem.boxes(H, dq, 64),
        problem.boxes(kv_heads, dk, 64), problem.boxes(kv_heads, dv, 64),
    ]  # fmt: skip
    integers = [B, N, H, heads, group, blocks, problem.together(kv_heads, 4), problem.padded]

    def launch(name: str, programs: int, threads: int, shared: int) -> Launch:
        function = module.function(name, shared)
        return Launch(function, programs, threads, shared, boxes, integers, pointers=6)

    parts = tile.rows // 64 if D <= 64 else problem.chunks
    each = {Backward.ALONE: 0, Backward.OWN_HEADS: programs * group, Backward.ADDED: B * H}
    around = mode == Backward.ADDED
    return _Keys(
        mode,
        launch("prepare", B * H * blocks, 128, 0) if around else None,
        launch("backward", programs, 384 if mode == Backward.ALONE else 512, shared),
        launch("finish", B * H * blocks, 128, parts * 64 * 128) if around else None,
        each[mode] * blocks * parts * 64 * 64,
    )


def _keys_shared(problem: Problem, mode: Backward) -> int:
    """Bytes of shared memory of cuda/backward.cu."""
    rows = choices.backward_tile(problem.D, mode).rows
    row_bytes = problem.chunks * 128
    lines = 128 * (3 if problem.D <= 64 else 2) + 4 * rows + 128  # K, V; Q, dO; dK or dV
    own = mode == Backward.OWN_HEADS
    ds = 0 if mode == Backward.ALONE else 2 * rows * 128 * 2
    stats = 2 * (problem.blocks(rows) * problem.group + 2) if own else 4
    return row_bytes * (lines + own * rows) + ds + 256 + stats * rows * 4


# --- Backward, dQ by itself -----------------------------------------------------------------------


@lru_cache(PROBLEMS)
def _queries_launch(problem: Problem) -> Launch:
    B, N, H, kv_heads, D, _ = problem[:6]
    keys = 128 if D <= 128 else 64
    k_stages, v_stages = 2, 1 if D > 192 else 2
    module = _load(
        problem, "queries", {"KEYS": keys, "K_STAGES": k_stages, "V_STAGES": v_stages}, [keys // 2]
    )
    shared = problem.chunks * 128 * ((k_stages + v_stages) * keys + 4 * 64) + 256
    tiles = B * H * problem.blocks(128)
    q, k, v, dq = problem.strides[:4]
    return Launch(
        module.function("queries", shared),
        min(tiles, problem.processors),
        384,
        shared,
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, keys),
         problem.boxes(kv_heads, v, keys), problem.boxes(H, None, 64), problem.boxes(H, dq, 64)],
        [B, N, H, problem.group, tiles, problem.together(H, 2), problem.padded],
        pointers=3,
    )  # fmt: skip


@lru_cache(PROBLEMS)
def _wide_launch(problem: Problem) -> Launch:
    B, N, H, kv_heads, _, _ = problem[:6]
    module = _load(problem, "wide", {}, [32])
    blocks = problem.blocks(64)
    tiles = B * kv_heads * blocks
    shared = problem.chunks * 128 * 6 * 64 + 2 * 64 * 64 * 2 + 4 * 64 * 4 + 256
    q, k, v, _, dk, dv = problem.strides
    return Launch(
        module.function("wide", shared),
        min(tiles, problem.processors),
        384,
        shared,
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, 64), problem.boxes(kv_heads, v, 64),
         problem.boxes(H, None, 64), problem.boxes(kv_heads, dk, 64),
         problem.boxes(kv_heads, dv, 64)],
        [B, N, H, problem.group, tiles, blocks, problem.padded],
        pointers=2,
    )  # fmt: skip


def backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool, dq: torch.Tensor, dk: torch.Tensor,
    dv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dq, dk and dv, which are like q, k and v, from dO and O (B, N, H, D) and lse."""
    problem = Problem.of(q, k, causal, q, k, v, dq, dk, dv)
    if problem.D > 128:
        delta = torch.empty_like(lse)
        _queries_launch(problem)(q, k, v, grad, dq, out, lse, delta)
        _wide_launch(problem)(q, k, v, grad, dk, dv, lse, delta)
        return
    keys = _keys_launches(problem, deterministic)
    # Where a tensor is not used, lse stands in.
    delta = lse if keys.mode == Backward.OWN_HEADS else torch.empty_like(lse)
    sums = lse.new_empty(keys.sums) if keys.sums else lse
    if keys.mode == Backward.ALONE:
        _queries_launch(problem)(q, k, v, grad, dq, out, lse, delta)
    counter = lse
    if keys.mode != Backward.OWN_HEADS:
        new = lse.new_empty if keys.prepare else lse.new_zeros  # `prepare` clears it
        counter = new(1, dtype=torch.int32)
    tensors = (q, k, v, out, grad, dq, dk, dv, out, grad, lse, delta, sums, counter)
    if keys.prepare:
        keys.prepare(*tensors)
    keys.main(*tensors)
    if keys.finish:
        keys.finish(*tensors)
