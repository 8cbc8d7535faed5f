"""Which kernels and tile sizes a problem gets: measured once and kept, see docs/kernel.md.

Nothing is tuned when a program starts, so that two runs of one problem run the same code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from heapq import heapreplace

import torch

MAX_HEAD_DIM = 256
"""Any multiple of 8 up to it."""

SHARED_BYTES = 227 * 1024
"""Shared memory that a program can have on Hopper."""


BARRIERS_BYTES = 512
"""Of it, at most, for the forward's barriers."""


def rounded_up(n: int, multiple: int) -> int:
    """The first multiple that is not less."""
    return (n + multiple - 1) // multiple * multiple


def padded(seq_len: int) -> int:
    """The length of lse and of Δ of a head: the Hopper kernels read whole blocks of them."""
    return rounded_up(seq_len, 128)


# --- Plain Triton ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainTile:
    """A tile of a plain Triton kernel: query rows, key columns, warps, and stages of loads."""

    rows: int
    cols: int
    warps: int
    stages: int


@dataclass(frozen=True)
class PlainTiles:
    """The tiles of the plain path at one head_dim."""

    forward: PlainTile
    queries: PlainTile
    keys: PlainTile


PLAIN = {
    64: PlainTiles(PlainTile(128, 64, 4, 2), PlainTile(64, 64, 4, 2), PlainTile(64, 64, 4, 2)),
    128: PlainTiles(PlainTile(128, 64, 8, 2), PlainTile(64, 64, 8, 1), PlainTile(32, 64, 8, 1)),
    256: PlainTiles(PlainTile(64, 32, 8, 1), PlainTile(64, 32, 8, 1), PlainTile(32, 32, 8, 1)),
}
"""The plain path's tiles by head_dim up to so much; all fit 99 KB of shared memory, as smaller GPUs
have."""


def plain_tiles(head_dim: int, dtype: torch.dtype) -> PlainTiles:
    """The plain path's tiles; in float32 they are small, as they are for tests alone."""
    if dtype == torch.float32:
        tile = PlainTile(32, 32, 4, 1)
        return PlainTiles(tile, tile, tile)
    return next(tiles for most, tiles in PLAIN.items() if head_dim <= most)


# --- Hopper ---------------------------------------------------------------------------------------

FORWARD_REGISTERS = {
    (1, 2): (216, 32), (1, 3): (136, 24), (1, 4): (104, 24), (2, 1): (240, 24), (2, 2): (104, 24),
    (3, 1): (160, 32),
}  # fmt: skip
"""Of a consumer's thread and a producer's, by consumers and programs that share the 64 K of a
multiprocessor."""


@dataclass(frozen=True)
class Forward:
    """The Hopper forward: 64 query rows for each of the consumers, and a ring of blocks of keys.

    `programs` share a multiprocessor, and with it the registers. Where `takes_turns`, consumers
    issue their products one after the other.
    """

    consumers: int
    keys: int
    stages: int
    programs: int = 1
    takes_turns: bool = False

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread: a consumer's and a producer's."""
        return FORWARD_REGISTERS[self.consumers, self.programs]

    def rows_in_turn(self, seq_len: int, causal: bool, heads: int, processors: int) -> float:
        """The rows of queries of B·H heads that a multiprocessor computes one after the other.

        With a mask these see half of the keys, and tiles even out but for a quarter of one, unless
        the longest takes longer than all do on average. Where a multiprocessor has fewer programs
        than it could have, each takes less time, but more than its part.
        """
        rows = 64 * self.consumers
        tiles = -(-seq_len // rows) * heads

        def at_once(tiles: int) -> float:
            programs = min(self.programs, -(-tiles // processors))
            return rows * (self.programs + programs) / 2 if tiles else 0

        if causal:
            return max(at_once(tiles), seq_len * heads / (2 * processors) + rows / 4)
        rounds, rest = divmod(tiles, self.programs * processors)
        return rows * self.programs * rounds + at_once(rest)


def forward(head_dim: int, seq_len: int, causal: bool, heads: int, processors: int) -> Forward:
    """The Hopper forward's tile, for B·H heads on a GPU of so many multiprocessors."""
    if head_dim > 192:
        return Forward(consumers=2, keys=64, stages=2)
    if head_dim > 128:
        return Forward(consumers=2, keys=96, stages=2)
    if head_dim <= 32:
        # So little of the work is products that more threads count for more than larger tiles: two
        # programs took 23 to 27% less time than one (in Gluon).
        return Forward(consumers=2, keys=64, stages=3, programs=2)
    if head_dim > 64:
        large = Forward(consumers=2, keys=128, stages=2)
        if head_dim > 112:
            if -(-seq_len // 64) * heads <= processors:  # 12% less time
                return Forward(consumers=1, keys=64, stages=2, programs=2)
            # More rows read K and V less often: with 80 keys, 2 to 5% less time where N is large.
            # With a mask, 64 leave out more of what short sequences do not see.
            costs = {large: 1.0}
            if not causal:
                overhang = rounded_up(seq_len, 80) / seq_len
                costs[Forward(consumers=3, keys=80, stages=3)] = 0.955 * overhang
            elif seq_len > 2048:
                costs[Forward(consumers=3, keys=80, stages=3)] = 0.96
            elif seq_len > 256:
                costs[Forward(consumers=3, keys=64, stages=4)] = 0.94
        else:
            more = Forward(consumers=3, keys=96, stages=2)
            costs = {large: 1, more: 0.91 if head_dim <= 96 else 0.94}
    else:
        # Three programs fill each other's gaps, where a tile is done so soon that its beginning and
        # end count: 13 to 19% less time. Two with more keys take up to 31% less where there are
        # few tiles, about as many as programs, and the longest of them is the whole time. Taking
        # turns is 3% faster where it is on.
        small = Forward(consumers=1, keys=64, stages=3, programs=3)
        few = Forward(consumers=1, keys=128, stages=2, programs=2)
        tiles = -(-seq_len // 64) * heads
        if causal and seq_len <= 1024:
            return few if tiles <= 2 * processors else small
        turns = not causal and seq_len <= 2048
        large = Forward(consumers=3, keys=128, stages=3, takes_turns=turns)
        costs = {large: 1, replace(large, consumers=2): 1.2}
        if not causal:
            costs[small] = 1.2
        if tiles <= 8 * processors:
            costs[few] = 1.17

    def time(tile: Forward) -> float:
        """Relative time of a pass: up to 25% less where no few multiprocessors finish late."""
        return costs[tile] * tile.rows_in_turn(seq_len, causal, heads, processors)

    return min(costs, key=time)


def forward_q_slots(tile: Forward, keys_bytes: int, q_bytes: int) -> int:
    """The number of buffers for 64 rows of Q: two for each consumer, or as many as fit in memory.

    Args:
        tile: that of `forward`.
        keys_bytes: bytes of the buffers of K and V.
        q_bytes: bytes of 64 rows of Q.
    """
    free = (SHARED_BYTES + 1024) // tile.programs - 1024 - BARRIERS_BYTES - keys_bytes
    return min(2 * tile.consumers, free // q_bytes)


def forward_together(tile: Forward, heads: int, blocks: int, processors: int) -> int:
    """The least number of heads, of B·H, that go side by side with a mask.

    Tiles of 192 rows are few and long. They even out where there are three times as many as
    multiprocessors, of 16 to 32 heads: on an H200 up to 5% less time (d 128, N 4096), and no more
    where K and V of so many exceed the L2 cache (N 16384 to 65536).

    Args:
        tile: that of `forward`.
        heads: B·H.
        blocks: tiles of a head.
        processors: multiprocessors of the GPU.
    """
    if tile.consumers < 3:
        return 1
    return min(heads, max(16, min(32, -(-3 * processors // blocks))))


def forward_queues(seq_len: int) -> bool:
    """True if the forward's tiles are taken from a common counter.

    With a mask tiles differ in work: 5 to 16% less time (d 64 to 256, N 512 to 2048); without one
    up to 2% less, since programs drift apart. A sequence of one or two tiles loses 6%.
    """
    return seq_len > 128


class Backward(IntEnum):
    """The way the Hopper backward computes dQ up to head_dim 128: `MODE` of cuda/backward.cu."""

    ALONE = 0
    OWN_HEADS = 1
    ADDED = 2


OWN_GAIN = {
    (64, False): (1.35, 1.2, 0.97), (64, True): (1.5, 1.4, 1.4),
    (128, False): (1.15, 0.95, 0.79), (128, True): (1.45, 1.3, 1.17),
}  # fmt: skip
"""How many times as fast own heads are as an added dQ, by head_dim up to so much and the mask, with
two, three and four blocks of 128 keys, where no multiprocessor has to wait for others."""

ALONE_COSTS = 1.25
"""The time of a backward with dQ by itself over that with an added dQ, about."""


def backward(
    head_dim: int, seq_len: int, causal: bool, heads: int, processors: int, deterministic: bool
) -> Backward:
    """The way dQ is computed.

    A program with all blocks of keys of a head leaves dQ in the L2 cache as long as it fits, with
    what else the heads of all programs have. Heads are few, so that the last round of them may
    leave many multiprocessors idle; blocks of keys are more. Fitted to 84 shapes of N 192 to 512
    on an H100, of which five are 1 to 6% behind the better way.

    Args:
        head_dim: D.
        seq_len: N.
        causal: with a mask.
        heads: B times the heads of K and V.
        processors: multiprocessors of the GPU.
        deterministic: the same bits at each call.
    """
    added = Backward.ALONE if deterministic else Backward.ADDED
    blocks = -(-seq_len // 128)
    if blocks == 1:
        return Backward.OWN_HEADS
    if blocks > 4 or heads < processors / 2:
        return added

    def busy(tiles: int) -> float:
        """Share of the multiprocessors that have a tile, on average over the rounds."""
        return tiles / (processors * -(-tiles // processors))

    gain = OWN_GAIN[64 if head_dim <= 64 else 128, causal][blocks - 2]
    gain *= (busy(heads) / (1 if causal else busy(heads * blocks))) ** 0.6
    if deterministic:
        gain *= ALONE_COSTS
    return Backward.OWN_HEADS if gain > 1 else added


def in_cache(seq_len: int, heads: int, head_dim: int, cache_bytes: int, times: int) -> bool:
    """True if Q, dO and dQ as a sum of B·H heads take at most so many times the L2 cache.

    Of 67 MB programs may read at different places, of 134 they took 1.8 to 2 times as long as side
    by side (an H100, whose cache has 50).
    """
    return 8 * heads * seq_len * head_dim <= times * cache_bytes


def splits(
    head_dim: int, seq_len: int, causal: bool, heads: int, kv_heads: int, processors: int,
    cache_bytes: int,
) -> bool:  # fmt: skip
    """True if heads of Q that share one of K and V go by apart, and add up its dK and dV in memory.

    There are more tiles then, and shorter ones, and programs read the queries of a few heads at a
    time: with a mask, on an H100 at 22 shapes of 1 to 8 heads of keys, up to 3.1 times as fast, at
    worst 3% slower. Without one each tile takes as long, and the additions 2 to 20%: it is only
    worth it where many multiprocessors would have none.

    Args:
        head_dim: D.
        seq_len: N.
        causal: with a mask.
        heads: B·H.
        kv_heads: B times the heads of K and V.
        processors: multiprocessors of the GPU.
        cache_bytes: size of its L2 cache.
    """
    if causal:
        return seq_len > 256 and not in_cache(seq_len, heads, head_dim, cache_bytes, 1)
    if in_cache(seq_len, heads, head_dim, cache_bytes, 2):
        return False
    tiles = kv_heads * -(-seq_len // 128)
    return processors * -(-tiles // processors) > tiles * (1.05 + 100 / seq_len)


@dataclass(frozen=True)
class BackwardTile:
    """The Hopper backward's queries in a block, and when loads and products start in one.

    So many, `ahead`, of the loads of lse and Δ, which are of 16 rows each, start before the wait
    for a product; dP starts when so many registers of P, `before_dp`, are there. Together: 2%.
    """

    rows: int
    ahead: int
    before_dp: int


def backward_tile(head_dim: int, mode: Backward) -> BackwardTile:
    """The tile of cuda/backward.cu."""
    if head_dim <= 64:
        return BackwardTile(rows=128, ahead=4, before_dp=16)
    if mode == Backward.OWN_HEADS:
        return BackwardTile(rows=64, ahead=4, before_dp=16)
    return BackwardTile(rows=64, ahead=2, before_dp=0)


def _keys_in_turn(seq_len: int, causal: bool, heads: int, rows: int, processors: int) -> float:
    """The products of so many rows and keys that a multiprocessor computes one after the other."""
    tiles = -(-seq_len // rows) * heads
    rounds = max(1, tiles / (2 * processors) + 0.25) if causal else -(-tiles // processors)
    return rounds * rows * seq_len


@dataclass(frozen=True)
class Wide:
    """A way of the Hopper backward over head_dim 128.

    Attributes:
        keys: in a block, as many as registers hold.
        stages: buffers for dO, as many as then fit in memory.
        takes: the time for so many products of a row and a key, to the same of cuda/queries.cu.
        adds: dQ is added up in memory, with five products in place of seven.
        splits: heads of Q that share keys go by apart from each other, and add up dK and dV too.
    """

    keys: int
    stages: int
    takes: float
    adds: bool = False
    splits: bool = False


WIDE = {192: (Wide(96, 2, 1.4), Wide(96, 2, 2.21, adds=True)),
        256: (Wide(64, 2, 1.45), Wide(80, 1, 2.48, adds=True))}  # fmt: skip
"""By head_dim up to so much, the way after a kernel for dQ, and with additions to dQ: each block of
keys adds to all of it, so that fewer keys are more additions."""

ADDS, SPLITS = 4, 4.5
"""The time for zeros in a row of dQ, and for rounding it, as for so many products of a row and a
key; and the time to add up a row's part of dK and dV."""


def wide(
    head_dim: int, seq_len: int, causal: bool, heads: int, kv_heads: int, processors: int,
    deterministic: bool,
) -> Wide:  # fmt: skip
    """The way that takes the least time.

    The L2 cache adds about as fast as products are computed, so that two more products, in a kernel
    of their own for dQ, often take less time: up to 26% (d 256, N 512). They take more where that
    kernel has few tiles, up to 22%. Heads of Q that share keys, 8 with one of K and V, take up to
    67% less time apart (d 256, N 2048), and 9% more at N 512. By what a row of keys takes in each
    kernel, on an H100 0.1% slower on average than the faster at each of 41 shapes (worst 3%).

    Args:
        head_dim: D.
        seq_len: N.
        causal: whether there is a mask.
        heads: B·H.
        kv_heads: B times the heads of K and V.
        processors: multiprocessors of the GPU.
        deterministic: the same bits at each call.
    """
    alone, added = WIDE[192 if head_dim <= 192 else 256]
    if deterministic:
        return alone

    def time(way: Wide) -> float:
        each = heads if way.splits else kv_heads
        keys = heads // each * _keys_in_turn(seq_len, causal, each, way.keys, processors)
        if way.adds:
            rows = heads * seq_len
            return way.takes * keys + (ADDS + SPLITS * way.splits) * rows
        return way.takes * keys + _keys_in_turn(seq_len, causal, heads, 128, processors)

    ways = [alone, added] if heads == kv_heads else [alone, added, replace(added, splits=True)]
    return min(ways, key=time)


PART = 1.5
"""Blocks of queries that take as long as it takes to begin and end a tile or a part of one."""

SUMS, WORTH = {64: 2.0, 128: 8.0}, {64: 1.02, 128: 1.1}
"""By head_dim up to so much, blocks of queries that take as long as it takes to leave the parts in
memory and to sum them up; and the least ratio of times by which sharing is worth it. Where it was
on an H100, tiles took 1.0 to 1.5 times as long undivided; short masked ones at d 128, which these
leave out, 0.8 to 0.95."""

MOST_PARTS = 8
"""The longest tile has about so many parts, or fewer: they are summed up one after the other."""


@dataclass(frozen=True)
class Shares:
    """The last tiles of a backward that adds to one dQ, shared out among programs.

    Attributes:
        whole: tiles that come first, undivided.
        blocks: of queries, in a share.
        work: blocks of queries of all tiles that are shared.
        pair: blocks of queries of the longest tile and the shortest.
    """

    whole: int
    blocks: int
    work: int
    pair: int

    @property
    def number(self) -> int:
        """Of shares."""
        return -(-self.work // self.blocks)

    @property
    def integers(self) -> list[int]:
        """As cuda/backward.cu takes them."""
        return [self.whole, self.blocks, self.work, self.pair]


def shares(tiles: Sequence[int], heads: int, head_dim: int, processors: int) -> Shares | None:
    """The shares of tiles; None where these take hardly longer undivided.

    Args:
        tiles: the blocks of queries of each tile of a head, the longest first.
        heads: of K and V, B times.
        head_dim: D.
        processors: multiprocessors of the GPU.
    """
    size = 64 if head_dim <= 64 else 128
    if len(tiles) * heads > 8 * processors:
        return None
    tiles = [blocks for blocks in tiles for _ in range(heads)]
    ends = [0.0] * processors  # of programs that take one tile after the other
    for blocks in tiles:
        heapreplace(ends, ends[0] + blocks + PART)
    alike = tiles[0] == tiles[-1]
    whole = len(tiles) // processors * processors if alike else 0
    work = sum(tiles[whole:])
    share = max(-(-work // processors), -(-tiles[0] // MOST_PARTS))
    parts = 1 + share * (len(tiles) - whole) / max(work, 1)
    time = whole // processors * (tiles[0] + PART) + share + parts * PART + SUMS[size]
    if not work or max(ends) < WORTH[size] * time:
        return None
    return Shares(whole, share, work, tiles[0] + tiles[-1])


def heads_together(
    seq_len: int, heads: int, head_dim: int, blocks: int, processors: int, cache_bytes: int,
    least: int,
) -> int:  # fmt: skip
    """The number of heads, of B·H, that go side by side with a mask.

    Many share the work better at the end; few find K and V of each other's tiles in the L2 cache:
    a ninth of it is best where there is much work, a third where there is little. Three of four
    multiprocessors have a tile of them in any case. On an H100, 1.5% behind the best number for
    each of 48 shapes, on average (worst 7%); as many as 32 MiB hold were up to 28% behind.

    Args:
        seq_len: N.
        heads: B·H.
        head_dim: D.
        blocks: tiles of a head.
        processors: multiprocessors of the GPU.
        cache_bytes: size of its L2 cache.
        least: the fewest heads.
    """
    in_cache = cache_bytes // (4 * seq_len * head_dim)
    part = in_cache // (3 if heads * blocks <= 10 * processors else 9)
    return min(heads, max(1, part, -(-3 * processors // (4 * blocks)), min(least, in_cache)))
