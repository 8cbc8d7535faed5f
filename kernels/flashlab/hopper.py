"""Launches the Hopper kernels: their constants, their arguments, and the order of the passes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from kernels.flashlab import choices, compiling, launching
from kernels.flashlab.choices import Backward, padded
from kernels.flashlab.launching import Arguments, Boxes, Launch, Module

PROBLEMS = 1024
"""How many problems' launches are kept: as many sequence lengths as a program is likely to use."""

Strides = tuple[int, ...]


class Problem(NamedTuple):
    """What decides the launches of a pass: the sizes, the mask, and where the tensors are.

    Q and all that is like it have H heads, K and V `kv_heads`. The strides are those of Q, K, V
    and, in the backward, of their gradients, in numbers; O and dO are contiguous.
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

    @property
    def group(self) -> int:
        """Heads of Q that share one of K and V."""
        return self.H // self.kv_heads

    @property
    def width(self) -> int:
        """D up to what products take; the copy engine fills up with zeros."""
        return choices.rounded_up(self.D, 16)

    @property
    def chunks(self) -> int:
        """Of 64 columns, which a tile is made of."""
        return -(-self.D // 64)

    @property
    def gpu(self) -> Any:
        """The GPU's properties."""
        return torch.cuda.get_device_properties(self.device)

    @property
    def like_q(self) -> Strides:
        """The strides of a contiguous (B, N, H, D)."""
        return (self.N * self.H * self.D, self.H * self.D, self.D, 1)

    def blocks(self, rows: int) -> int:
        """⌈N / rows⌉."""
        return -(-self.N // rows)

    def boxes(self, heads: int, strides: Strides, rows: int) -> Boxes:
        """Of a tensor (B, N, heads, D)."""
        return Boxes.of(self.dtype, (self.B, self.N, heads, self.D), strides, rows)

    def sizes(self, blocks: int, tiles: int, heads: int, least_together: int = 6) -> list[int]:
        """`Sizes` of cuda/tiles.cuh.

        Args:
            blocks: of a head's queries.
            tiles: of all heads.
            heads: of a sequence, of which the tiles are.
            least_together: heads that go side by side with a mask.
        """
        together = choices.heads_together(
            self.N, self.B * heads, self.D, tiles // (self.B * heads),
            self.gpu.multi_processor_count, self.gpu.L2_cache_size, least_together,
        )  # fmt: skip
        return [self.B, self.N, self.H, self.group, blocks, tiles, together, padded(self.N)]

    def module(self, name: str, constants: dict[str, int], sums: Sequence[int]) -> Module:
        """The kernels of cuda/NAME.cu, with the registers of the accumulators that they use."""
        given = {"D": self.width, "HEAD_DIM": self.D, "CAUSAL": self.causal,
                 "GROUPED": self.group > 1, **constants}  # fmt: skip
        bfloat16 = self.dtype == torch.bfloat16
        return _module(name, tuple(given.items()), bfloat16, tuple(sums), self.device)


@lru_cache(PROBLEMS)
def _module(
    name: str, constants: tuple[tuple[str, int], ...], bfloat16: bool, sums: tuple[int, ...],
    device: int,
) -> Module:  # fmt: skip
    """Compiled and loaded on the current GPU, `device`."""
    given = dict(constants)
    scale = given["HEAD_DIM"] ** -0.5
    text = compiling.source(name, given, scale, bfloat16, sums, [given["D"] // 2])
    return Module(compiling.cubin(name, text))


class Heads(NamedTuple):
    """Where Q, K or V, (B, N, heads, D), lies in memory: no more, since views cost time."""

    address: int
    strides: Strides


Inputs = tuple[Heads, Heads, Heads]


def _heads(x: torch.Tensor) -> Heads:
    return Heads(x.data_ptr(), x.stride())


def _packed_heads(qkv: torch.Tensor) -> Inputs:
    """Q, K and V of (B, N, 3, H, D)."""
    b, n, third, h, d = qkv.stride()
    start, step, strides = qkv.data_ptr(), third * qkv.element_size(), (b, n, h, d)
    return Heads(start, strides), Heads(start + step, strides), Heads(start + 2 * step, strides)


# --- Forward --------------------------------------------------------------------------------------


@lru_cache(PROBLEMS)
def _forward_launch(problem: Problem) -> tuple[Arguments, Launch]:
    B, N, H, kv_heads, D, causal = problem[:6]
    processors = problem.gpu.multi_processor_count
    tile = choices.forward(D, N, causal, B * H, processors)
    keys_bytes, q_bytes = (problem.chunks * 128 * n for n in (2 * tile.stages * tile.keys, 64))
    q_slots = choices.forward_q_slots(tile, keys_bytes, q_bytes)
    module = problem.module(
        "forward",
        {"KEYS": tile.keys, "CONSUMERS": tile.consumers, "STAGES": tile.stages,
         "PROGRAMS": tile.programs, "PINGPONG": tile.takes_turns, "Q_SLOTS": q_slots,
         "QUEUED": choices.forward_queues(N),
         "CONSUMER_REGISTERS": tile.registers[0], "PRODUCER_REGISTERS": tile.registers[1]},
        [tile.keys // 2],
    )  # fmt: skip
    shared = keys_bytes + q_slots * q_bytes + choices.BARRIERS_BYTES
    blocks = -(-padded(N) // (64 * tile.consumers))
    tiles = B * H * blocks
    programs = min(tiles, tile.programs * processors)
    q, k, v = problem.strides
    arguments = Arguments(
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, tile.keys),
         problem.boxes(kv_heads, v, tile.keys), problem.boxes(H, problem.like_q, 64)],
        problem.sizes(blocks, tiles, H),
        pointers=2,
        device=problem.device,
    )  # fmt: skip
    function = module.function("forward", shared)
    return arguments, Launch(function, programs, 128 * (1 + tile.consumers), shared)


_counters: dict[tuple[int, int], torch.Tensor] = {}


def _counter(device: torch.device) -> torch.Tensor:
    """Of the tiles that are taken: one for each stream, zeros, as a kernel leaves them too.

    A graph that is being captured gets its own, since it may run beside what its stream runs then.
    """
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(2, dtype=torch.int32, device=device)
    stream = (device.index, torch._C._cuda_getCurrentRawStream(device.index))
    if stream not in _counters:
        _counters[stream] = torch.zeros(2, dtype=torch.int32, device=device)
    return _counters[stream]


def _forward(
    inputs: Inputs, kv_heads: int, causal: bool, out: torch.Tensor, lse: torch.Tensor
) -> None:
    B, N, H, D = out.shape
    q, k, v = inputs
    device = out.device.index
    strides = (q.strides, k.strides, v.strides)
    problem = Problem(B, N, H, kv_heads, D, causal, out.dtype, device, strides)
    launching.bind(device)
    arguments, launch = _forward_launch(problem)
    counter = _counter(out.device) if choices.forward_queues(N) else lse
    addresses = (out.data_ptr(), lse.data_ptr(), counter.data_ptr())
    arguments.launch((launch,), q.address, k.address, v.address, *addresses)


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, out: torch.Tensor,
    lse: torch.Tensor,
) -> None:  # fmt: skip
    """Fill out (B, N, H, D) and lse (B, H, padded) from q (B, N, H, D), k and v."""
    _forward((_heads(q), _heads(k), _heads(v)), k.shape[2], causal, out, lse)


def packed_forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> None:
    """As `forward`, from (B, N, 3, H, D)."""
    _forward(_packed_heads(qkv), qkv.shape[3], causal, out, lse)


# --- Backward, head_dim up to 128 -----------------------------------------------------------------


class _Keys(NamedTuple):
    """The launches of cuda/backward.cu, and the float32 values of dQ that it sums up in memory."""

    mode: Backward
    arguments: Arguments
    launches: tuple[Launch, ...]
    sums: int


@lru_cache(PROBLEMS)
def _keys_launches(problem: Problem, deterministic: bool) -> _Keys:
    B, N, H, kv_heads, D, _ = problem[:6]
    heads, group = B * kv_heads, problem.group
    mode = choices.backward(N, heads, problem.gpu.multi_processor_count, deterministic)
    shared = _keys_shared(problem, mode)
    if shared > choices.SHARED_BYTES:  # lse and Δ of so many heads
        mode = Backward.ALONE if deterministic else Backward.ADDED
        shared = _keys_shared(problem, mode)
    tile = choices.backward_tile(D, mode)
    registers = (240, 24, 24) if mode == Backward.ALONE else (208, 64, 32)
    module = problem.module(
        "backward",
        {"ROWS": tile.rows, "MODE": mode, "RAGGED": N % 128 != 0, "AHEAD": tile.ahead,
         "BEFORE_DP": tile.before_dp, "KEYS_REGISTERS": registers[0],
         "DQ_REGISTERS": registers[1], "PRODUCER_REGISTERS": registers[2]},
        [tile.rows // 2, 32],
    )  # fmt: skip
    blocks = problem.blocks(tile.rows)
    tiles = heads if mode == Backward.OWN_HEADS else heads * problem.blocks(128)
    programs = min(tiles, problem.gpu.multi_processor_count)
    q, k, v, dq, dk, dv = problem.strides
    arguments = Arguments(
        [problem.boxes(H, q, tile.rows), problem.boxes(kv_heads, k, 128),
         problem.boxes(kv_heads, v, 128), problem.boxes(H, problem.like_q, tile.rows),
         problem.boxes(H, problem.like_q, tile.rows), problem.boxes(H, dq, 64),
         problem.boxes(kv_heads, dk, 64), problem.boxes(kv_heads, dv, 64)],
        problem.sizes(blocks, tiles, kv_heads),
        pointers=6,
        device=problem.device,
    )  # fmt: skip

    def launch(name: str, programs: int, threads: int, shared: int) -> Launch:
        early = name != "prepare" and mode != Backward.OWN_HEADS
        return Launch(module.function(name, shared), programs, threads, shared, early)

    parts = tile.rows // 64 if D <= 64 else problem.chunks
    launches = [launch("backward", programs, 384 if mode == Backward.ALONE else 512, shared)]
    if mode == Backward.ADDED:
        before = launch("prepare", B * H * blocks, 128, 0)
        launches = [before, *launches, launch("finish", B * H * blocks, 128, parts * 64 * 128)]
    sums = {Backward.ALONE: 0, Backward.OWN_HEADS: programs * group, Backward.ADDED: B * H}[mode]
    return _Keys(mode, arguments, tuple(launches), sums * blocks * parts * 64 * 64)


def _keys_shared(problem: Problem, mode: Backward) -> int:
    """Bytes of shared memory of cuda/backward.cu."""
    rows = choices.backward_tile(problem.D, mode).rows
    lines = 128 * (3 if problem.D <= 64 else 2) + 4 * rows + 128  # K, V; Q, dO; dK or dV
    own = mode == Backward.OWN_HEADS
    ds = 0 if mode == Backward.ALONE else 2 * rows * 128 * 2
    stats = 2 * (problem.blocks(rows) * problem.group + 2) if own else 4
    return problem.chunks * 128 * (lines + own * rows) + ds + 256 + stats * rows * 4


# --- Backward, dQ by itself -----------------------------------------------------------------------


@lru_cache(PROBLEMS)
def _queries_launch(problem: Problem) -> tuple[Arguments, Launch]:
    B, _, H, kv_heads, D, _ = problem[:6]
    keys = 128 if D <= 128 else 64
    k_stages, v_stages = 2, 1 if D > 192 else 2
    stages = {"KEYS": keys, "K_STAGES": k_stages, "V_STAGES": v_stages}
    module = problem.module("queries", stages, [keys // 2])
    shared = problem.chunks * 128 * ((k_stages + v_stages) * keys + 4 * 64) + 256
    blocks = problem.blocks(128)
    tiles = B * H * blocks
    q, k, v, dq = problem.strides[:4]
    arguments = Arguments(
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, keys),
         problem.boxes(kv_heads, v, keys), problem.boxes(H, problem.like_q, 64),
         problem.boxes(H, dq, 64)],
        problem.sizes(blocks, tiles, H),
        pointers=4,
        device=problem.device,
    )  # fmt: skip
    programs = min(tiles, problem.gpu.multi_processor_count)
    function = module.function("queries", shared)
    return arguments, Launch(function, programs, 384, shared)


@lru_cache(PROBLEMS)
def _wide_launch(problem: Problem) -> tuple[Arguments, Launch]:
    B, _, H, kv_heads = problem[:4]
    module = problem.module("wide", {}, [32])
    blocks = problem.blocks(64)
    tiles = B * kv_heads * blocks
    shared = problem.chunks * 128 * 6 * 64 + 2 * 64 * 64 * 2 + 4 * 64 * 4 + 256
    q, k, v, _, dk, dv = problem.strides
    # Each head's Q and dO are read for every 64 keys: two at N 4096 took 7% less time than four.
    arguments = Arguments(
        [problem.boxes(H, q, 64), problem.boxes(kv_heads, k, 64), problem.boxes(kv_heads, v, 64),
         problem.boxes(H, problem.like_q, 64), problem.boxes(kv_heads, dk, 64),
         problem.boxes(kv_heads, dv, 64)],
        problem.sizes(blocks, tiles, kv_heads, least_together=1),
        pointers=3,
        device=problem.device,
    )  # fmt: skip
    programs = min(tiles, problem.gpu.multi_processor_count)
    function = module.function("wide", shared)
    return arguments, Launch(function, programs, 384, shared, starts_early=True)


def _backward(
    grad: torch.Tensor, inputs: Inputs, kv_heads: int, out: torch.Tensor, lse: torch.Tensor,
    causal: bool, deterministic: bool, gradients: Inputs,
) -> None:  # fmt: skip
    B, N, H, D = out.shape
    device = out.device.index
    strides = tuple(x.strides for x in (*inputs, *gradients))
    problem = Problem(B, N, H, kv_heads, D, causal, out.dtype, device, strides)
    launching.bind(device)
    q, k, v = (x.address for x in inputs)
    dq, dk, dv = (x.address for x in gradients)
    do, o, lse_at = grad.data_ptr(), out.data_ptr(), lse.data_ptr()
    keys = None if D > 128 else _keys_launches(problem, deterministic)
    # Where a tensor is not used, lse stands in. Each has its name until all is launched, or its
    # memory might be another's.
    own = keys is not None and keys.mode == Backward.OWN_HEADS
    sums = keys.sums if keys else 0
    memory = lse.new_empty(sums + (0 if own else lse.numel()))
    counter = lse if own else _counter(out.device)
    sums_at, counter_at = memory.data_ptr(), counter.data_ptr()
    delta_at = sums_at + 4 * sums
    if keys is None or keys.mode == Backward.ALONE:
        arguments, launch = _queries_launch(problem)
        arguments.launch((launch,), q, k, v, do, dq, o, lse_at, delta_at, counter_at)
    if keys is None:
        arguments, launch = _wide_launch(problem)
        arguments.launch((launch,), q, k, v, do, dk, dv, lse_at, delta_at, counter_at)
        return
    keys.arguments.launch(
        keys.launches, q, k, v, o, do, dq, dk, dv, o, do, lse_at, delta_at, sums_at, counter_at
    )


def backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool, dq: torch.Tensor, dk: torch.Tensor,
    dv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dq, dk and dv, which are like q, k and v, from dO and O (B, N, H, D) and lse."""
    inputs, gradients = (tuple(map(_heads, x)) for x in ((q, k, v), (dq, dk, dv)))
    _backward(grad, inputs, k.shape[2], out, lse, causal, deterministic, gradients)


def packed_backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool, dqkv: torch.Tensor,
) -> None:  # fmt: skip
    """As `backward`: fill dqkv (B, N, 3, H, D)."""
    inputs, gradients = _packed_heads(qkv), _packed_heads(dqkv)
    _backward(grad, inputs, qkv.shape[3], out, lse, causal, deterministic, gradients)
