"""Launches the Hopper kernels: their constants, their arguments, and the order of the passes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from kernels.flashlab import choices, compiling, launcher, launching
from kernels.flashlab.choices import Backward, padded
from kernels.flashlab.launching import Boxes, Launch, Module, Pass, Run

PROBLEMS = 1024
"""How many problems' launches are kept: as many sequence lengths as a program is likely to use."""

Strides = tuple[int, ...]


class Problem(NamedTuple):
    """A pass as its launches depend on it: the sizes, the mask, and the tensors' strides.

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
        """The chunks of 64 columns of a tile."""
        return -(-self.D // 64)

    @property
    def last(self) -> int:
        """Columns of the last chunk."""
        return self.width - 64 * (self.chunks - 1)

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
        """The boxes of a tensor (B, N, heads, D)."""
        return Boxes.of(self.dtype, (self.B, self.N, heads, self.D), strides, rows)

    def together(self, tiles: int, heads: int, least: int = 6) -> int:
        """The heads, of so many of a sequence, that go side by side with a mask, and at least."""
        return choices.heads_together(
            self.N, self.B * heads, self.D, tiles // (self.B * heads),
            self.gpu.multi_processor_count, self.gpu.L2_cache_size, least,
        )  # fmt: skip

    def sizes(self, blocks: int, tiles: int, together: int) -> list[int]:
        """`Sizes` of cuda/tiles.cuh.

        Args:
            blocks: of a head's queries.
            tiles: of all heads, or what programs take in their place.
            together: heads that go side by side with a mask.
        """
        return [self.B, self.N, self.H, self.group, blocks, tiles, together, padded(self.N)]

    def module(self, name: str, constants: dict[str, int], sums: Sequence[int]) -> Module:
        """The kernels of cuda/NAME.cu, with the registers of the accumulators that they use."""
        given = {"D": self.width, "HEAD_DIM": self.D, "CAUSAL": self.causal,
                 "GROUPED": self.group > 1, "SPLIT": False, **constants}  # fmt: skip
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
    """Address and strides of Q, K or V, (B, N, heads, D); tensors as views would cost time."""

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
def _forward_pass(problem: Problem) -> Pass:
    B, N, H, kv_heads, D, causal = problem[:6]
    processors = problem.gpu.multi_processor_count
    tile = choices.forward(D, N, causal, B * H, processors)
    keys_bytes, q_bytes = (problem.chunks * 128 * n for n in (2 * tile.stages * tile.keys, 64))
    q_slots = choices.forward_q_slots(tile, keys_bytes, q_bytes)
    queued = choices.forward_queues(N)
    module = problem.module(
        "forward",
        {"KEYS": tile.keys, "CONSUMERS": tile.consumers, "STAGES": tile.stages,
         "PROGRAMS": tile.programs, "PINGPONG": tile.takes_turns, "Q_SLOTS": q_slots,
         "QUEUED": queued,
         "CONSUMER_REGISTERS": tile.registers[0], "PRODUCER_REGISTERS": tile.registers[1]},
        [tile.keys // 2],
    )  # fmt: skip
    shared = keys_bytes + q_slots * q_bytes + choices.BARRIERS_BYTES
    blocks = -(-padded(N) // (64 * tile.consumers))
    tiles = B * H * blocks
    programs = min(tiles, tile.programs * processors)
    least = choices.forward_together(tile, B * H, blocks, processors)
    together = max(problem.together(tiles, H), least)
    q, k, v = problem.strides
    function = module.function("forward", shared)
    run = Run(
        {"q": problem.boxes(H, q, 64), "k": problem.boxes(kv_heads, k, tile.keys),
         "v": problem.boxes(kv_heads, v, tile.keys), "o": problem.boxes(H, problem.like_q, 64)},
        problem.sizes(blocks, tiles, together),
        ("lse", "counter"),
        problem.device,
        [Launch(function, programs, 128 * (1 + tile.consumers), shared)],
    )  # fmt: skip
    return Pass((run,), queued=queued)


_counters: dict[tuple[int, int], torch.Tensor] = {}


def _counter(device: torch.device) -> torch.Tensor:
    """The counter of taken tiles: one for each stream, zero, as a kernel leaves it too.

    A graph that is being captured gets its own, since it may run beside what its stream runs then.
    """
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(2, dtype=torch.int32, device=device)
    stream = (device.index, torch._C._cuda_getCurrentRawStream(device.index))
    if stream not in _counters:
        _counters[stream] = torch.zeros(2, dtype=torch.int32, device=device)
        if launcher.loaded:
            launcher.loaded.count(_counters[stream], stream[1])
    return _counters[stream]


def _run(
    prepared: Pass, addresses: Mapping[str, int], device: torch.device, like: torch.Tensor
) -> Pass:
    """Run a pass with its tensors at these addresses; `like` is one of float32."""
    # Each has its name until all is launched, or its memory might be another's.
    memory = like.new_empty(prepared.floats) if prepared.floats else like
    counter = _counter(device) if prepared.queued else None
    sums = memory.data_ptr()
    given = {
        **addresses,
        "sums": sums,
        "delta": sums + 4 * prepared.sums,
        "counter": 0 if counter is None else counter.data_ptr(),
    }
    for run in prepared.runs:
        run.launch(given)
    return prepared


def _forward(
    inputs: Inputs, kv_heads: int, causal: bool, out: torch.Tensor, lse: torch.Tensor
) -> Pass:
    B, N, H, D = out.shape
    q, k, v = inputs
    device = out.device.index
    strides = (q.strides, k.strides, v.strides)
    problem = Problem(B, N, H, kv_heads, D, causal, out.dtype, device, strides)
    launching.bind(device)
    addresses = {"q": q.address, "k": k.address, "v": v.address, "o": out.data_ptr()}
    addresses["lse"] = lse.data_ptr()
    return _run(_forward_pass(problem), addresses, out.device, lse)


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, out: torch.Tensor,
    lse: torch.Tensor,
) -> Pass:  # fmt: skip
    """Fill out (B, N, H, D) and lse (B, H, padded) from q (B, N, H, D), k and v."""
    return _forward((_heads(q), _heads(k), _heads(v)), k.shape[2], causal, out, lse)


def packed_forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> Pass:
    """As `forward`, from (B, N, 3, H, D)."""
    return _forward(_packed_heads(qkv), qkv.shape[3], causal, out, lse)


# --- Backward, head_dim up to 128 -----------------------------------------------------------------


def _keys_pass(problem: Problem, deterministic: bool) -> Pass:
    """The pass of cuda/backward.cu, after that for dQ where it does not compute dQ."""
    B, N, H, kv_heads, D, causal = problem[:6]
    processors = problem.gpu.multi_processor_count
    mode = choices.backward(D, N, causal, B * kv_heads, processors, deterministic)
    shared = _keys_shared(problem, mode)
    if shared > choices.SHARED_BYTES:  # lse and Δ of so many heads
        mode = Backward.ALONE if deterministic else Backward.ADDED
        shared = _keys_shared(problem, mode)
    cache_bytes = problem.gpu.L2_cache_size
    split = mode == Backward.ADDED and problem.group > 1 and choices.splits(
        D, N, causal, B * H, B * kv_heads, processors, cache_bytes
    )  # fmt: skip
    heads, group = (B * H, 1) if split else (B * kv_heads, problem.group)
    tile = choices.backward_tile(D, mode)
    blocks = problem.blocks(tile.rows)
    own = mode == Backward.OWN_HEADS
    tiles = heads if own else heads * problem.blocks(128)
    together = problem.together(tiles, heads // B)
    # Cut tiles lie in the order of all heads side by side: with a mask, only where that is theirs.
    cuts = mode == Backward.ADDED and (not problem.causal or together == heads)
    # Those of several heads of Q are cut so that programs are at different ones.
    cuts = cuts and (group == 1 or choices.in_cache(N, B * H, D, cache_bytes, 2))
    shares = _shares(problem, tile.rows, heads, group) if cuts else None
    taken = shares.whole + shares.number if shares else tiles
    registers = (240, 24, 24) if mode == Backward.ALONE else (208, 64, 32)
    module = problem.module(
        "backward",
        {"ROWS": tile.rows, "MODE": mode, "SHARED": shares is not None, "RAGGED": N % 128 != 0,
         "GROUPED": group > 1, "SPLIT": split,
         "AHEAD": tile.ahead, "BEFORE_DP": tile.before_dp, "KEYS_REGISTERS": registers[0],
         "DQ_REGISTERS": registers[1], "PRODUCER_REGISTERS": registers[2]},
        [tile.rows // 2, 32, problem.last // 2],
    )  # fmt: skip
    programs = min(taken, processors)
    parts = tile.rows // 64 if D <= 64 else problem.chunks

    function, threads = module.function("backward", shared), 384 if mode == Backward.ALONE else 512
    launches = [Launch(function, programs, threads, shared, starts_early=not own)]
    if mode == Backward.ADDED:
        cut = tiles - shares.whole if shares else 0
        summed = B * kv_heads * problem.blocks(128) if split else cut
        launches = _with_sums(module, launches, B * H * blocks, parts, 4 * summed)
    q, k, v, dq, dk, dv = problem.strides
    run = Run(
        {"q": problem.boxes(H, q, tile.rows), "k": problem.boxes(kv_heads, k, 128),
         "v": problem.boxes(kv_heads, v, 128), "o": problem.boxes(H, problem.like_q, tile.rows),
         "do": problem.boxes(H, problem.like_q, tile.rows), "dq": problem.boxes(H, dq, 64),
         "dk": problem.boxes(kv_heads, dk, 64), "dv": problem.boxes(kv_heads, dv, 64)},
        problem.sizes(blocks, taken, together) + (shares.integers if shares else [0] * 4),
        ("o", "do", "lse", "delta", "sums", "counter"),
        problem.device,
        launches,
    )  # fmt: skip
    sums = {Backward.ALONE: 0, Backward.OWN_HEADS: programs * group, Backward.ADDED: B * H}[mode]
    kept = 2 * shares.number if shares else 0
    if split:
        kept = B * kv_heads * problem.blocks(128)
    return Pass(
        (_queries_run(problem), run) if mode == Backward.ALONE else (run,),
        sums=sums * blocks * parts * 64 * 64 + kept * 2 * 128 * problem.width,
        delta=0 if own else B * H * padded(N),
        queued=not own and not shares,
    )


def _with_sums(
    module: Module, launches: list[Launch], blocks: int, parts: int, more: int = 0
) -> list[Launch]:
    """Launches that add to dQ, with the kernel before them and that after them.

    Args:
        module: of all of them.
        launches: those that add.
        blocks: of queries, of all heads.
        parts: of 64 by 64 numbers in each.
        more: programs of the kernel after them for anything else.
    """
    staged = parts * 64 * 128
    before = Launch(module.function("prepare", 0), blocks, 128, 0)
    after = Launch(module.function("finish", staged), blocks + more, 128, staged, starts_early=True)
    return [before, *launches, after]


def _shares(problem: Problem, rows: int, heads: int, group: int) -> choices.Shares | None:
    """The shares of cuda/backward.cu where it adds to one dQ, with blocks of so many queries.

    The tiles are those of so many heads of all sequences, each with a group of heads of queries.
    """
    hidden = 128 // rows if problem.causal else 0  # from a tile, more than from the one before it
    works = [problem.blocks(rows) - n * hidden for n in range(problem.blocks(128))]
    tiles = [group * work for work in works]
    return choices.shares(tiles, heads, problem.D, problem.gpu.multi_processor_count)


def _keys_shared(problem: Problem, mode: Backward) -> int:
    """Bytes of shared memory of cuda/backward.cu."""
    rows = choices.backward_tile(problem.D, mode).rows
    lines = 128 * (3 if problem.D <= 64 else 2) + 4 * rows + 128  # K, V; Q, dO; dK or dV
    own = mode == Backward.OWN_HEADS
    ds = 0 if mode == Backward.ALONE else 2 * rows * 128 * 2
    stats = 2 * (problem.blocks(rows) * problem.group + 2) if own else 4
    return problem.chunks * 128 * (lines + own * rows) + ds + 256 + stats * rows * 4


# --- Backward, dQ by itself -----------------------------------------------------------------------


def _queries_run(problem: Problem) -> Run:
    B, _, H, kv_heads, D, _ = problem[:6]
    keys = 128 if D <= 128 else 64
    k_stages, v_stages = 2, 1 if D > 192 else 2
    stages = {"KEYS": keys, "K_STAGES": k_stages, "V_STAGES": v_stages}
    module = problem.module("queries", stages, [keys // 2])
    shared = problem.chunks * 128 * ((k_stages + v_stages) * keys + 4 * 64) + 256
    blocks = problem.blocks(128)
    tiles = B * H * blocks
    programs = min(tiles, problem.gpu.multi_processor_count)
    q, k, v, dq = problem.strides[:4]
    return Run(
        {"q": problem.boxes(H, q, 64), "k": problem.boxes(kv_heads, k, keys),
         "v": problem.boxes(kv_heads, v, keys), "do": problem.boxes(H, problem.like_q, 64),
         "dq": problem.boxes(H, dq, 64)},
        problem.sizes(blocks, tiles, problem.together(tiles, H)),
        ("o", "lse", "delta", "counter"),
        problem.device,
        [Launch(module.function("queries", shared), programs, 384, shared)],
    )  # fmt: skip


# --- Backward, head_dim over 128 ------------------------------------------------------------------


def _wide_pass(problem: Problem, deterministic: bool) -> Pass:
    """The pass of cuda/wide.cu, after that for dQ where it does not compute dQ."""
    B, N, H, kv_heads, D, causal = problem[:6]
    processors = problem.gpu.multi_processor_count
    way = choices.wide(D, N, causal, B * H, B * kv_heads, processors, deterministic)
    heads = B * H if way.splits else B * kv_heads
    module = problem.module(
        "wide",
        {"KEYS": way.keys, "DO_STAGES": way.stages, "ADDED": way.adds,
         "GROUPED": heads < B * H, "SPLIT": way.splits},
        [way.keys // 2, 32, problem.last // 2],
    )  # fmt: skip
    blocks = problem.blocks(64)
    tiles = heads * problem.blocks(way.keys)
    kept = B * kv_heads * problem.blocks(way.keys) * 2 * problem.chunks if way.splits else 0
    programs = min(tiles, processors)
    lines = 2 * way.keys + (2 + way.stages) * 64  # K, V; Q, dO
    shared = 128 * (problem.chunks * lines + 4 * way.keys) + 4 * 64 * 4 + 256
    launches = [Launch(module.function("wide", shared), programs, 384, shared, starts_early=True)]
    if way.adds:
        launches = _with_sums(module, launches, B * H * blocks, problem.chunks, kept)
    q, k, v, dq, dk, dv = problem.strides
    # Each head's Q and dO are read for every block of keys: two at N 4096 took 7% less time than
    # four.
    run = Run(
        {"q": problem.boxes(H, q, 64), "k": problem.boxes(kv_heads, k, way.keys),
         "v": problem.boxes(kv_heads, v, way.keys), "do": problem.boxes(H, problem.like_q, 64),
         "dq": problem.boxes(H, dq, 64), "dk": problem.boxes(kv_heads, dk, way.keys),
         "dv": problem.boxes(kv_heads, dv, way.keys)},
        problem.sizes(blocks, tiles, problem.together(tiles, heads // B, least=1)),
        ("o", "do", "lse", "delta", "sums", "counter"),
        problem.device,
        launches,
    )  # fmt: skip
    return Pass(
        (run,) if way.adds else (_queries_run(problem), run),
        sums=(B * H * blocks * problem.chunks * 64 * way.adds + kept * way.keys) * 64,
        delta=B * H * padded(N),
        queued=True,
    )


@lru_cache(PROBLEMS)
def _backward_pass(problem: Problem, deterministic: bool) -> Pass:
    return (_keys_pass if problem.D <= 128 else _wide_pass)(problem, deterministic)


def _backward(
    grad: torch.Tensor, inputs: Inputs, kv_heads: int, out: torch.Tensor, lse: torch.Tensor,
    causal: bool, deterministic: bool, gradients: Inputs,
) -> Pass:  # fmt: skip
    B, N, H, D = out.shape
    device = out.device.index
    strides = tuple(x.strides for x in (*inputs, *gradients))
    problem = Problem(B, N, H, kv_heads, D, causal, out.dtype, device, strides)
    launching.bind(device)
    names = ("q", "k", "v", "dq", "dk", "dv")
    addresses = {name: x.address for name, x in zip(names, (*inputs, *gradients), strict=True)}
    addresses |= {"do": grad.data_ptr(), "o": out.data_ptr(), "lse": lse.data_ptr()}
    return _run(_backward_pass(problem, deterministic), addresses, out.device, lse)


def backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool, dq: torch.Tensor, dk: torch.Tensor,
    dv: torch.Tensor,
) -> Pass:  # fmt: skip
    """Fill dq, dk and dv, which are like q, k and v, from dO and O (B, N, H, D) and lse."""
    inputs, gradients = (tuple(map(_heads, x)) for x in ((q, k, v), (dq, dk, dv)))
    return _backward(grad, inputs, k.shape[2], out, lse, causal, deterministic, gradients)


def packed_backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool, dqkv: torch.Tensor,
) -> Pass:  # fmt: skip
    """As `backward`: fill dqkv (B, N, 3, H, D)."""
    inputs, gradients = _packed_heads(qkv), _packed_heads(dqkv)
    return _backward(grad, inputs, qkv.shape[3], out, lse, causal, deterministic, gradients)
