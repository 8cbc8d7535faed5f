"""Which kernels and tile sizes a problem gets: measured once and kept, see docs/kernel.md.

Nothing is tuned when a program starts, so that two runs of one problem run the same code.
"""

from dataclasses import dataclass, replace

import torch

HEAD_DIMS = (16, 32, 64, 128, 256)

TWO_CONSUMERS = (240, 24)
"""Registers of a consumer's thread and of a producer's: what 64 K leave for two consumers."""

FORWARD_REGISTERS = {
    (1, 3): ((136, 24), 80),
    (2, 1): (TWO_CONSUMERS, 168),
    (2, 2): ((104, 24), 80),
    (3, 1): ((160, 32), 128),
}
"""Of a consumer's thread and a producer's, and of all at launch, by consumers and programs that
share the 64 K of a multiprocessor."""


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
    16: PlainTiles(PlainTile(128, 64, 4, 2), PlainTile(64, 64, 4, 2), PlainTile(64, 64, 4, 2)),
    32: PlainTiles(PlainTile(128, 64, 4, 2), PlainTile(64, 64, 4, 2), PlainTile(64, 64, 4, 2)),
    64: PlainTiles(PlainTile(128, 64, 4, 2), PlainTile(64, 64, 4, 2), PlainTile(64, 64, 4, 2)),
    128: PlainTiles(PlainTile(128, 64, 8, 2), PlainTile(64, 64, 8, 1), PlainTile(32, 64, 8, 1)),
    256: PlainTiles(PlainTile(64, 32, 8, 1), PlainTile(64, 32, 8, 1), PlainTile(32, 64, 8, 1)),
}
"""The plain path's tiles by head_dim; all fit 99 KB of shared memory, as smaller GPUs have."""


PLAIN_IN_227_KB = {
    256: PlainTiles(PlainTile(64, 32, 8, 1), PlainTile(128, 32, 8, 2), PlainTile(32, 64, 8, 2)),
}
"""Better ones for GPUs with the shared memory of Hopper."""


def plain_tiles(head_dim: int, dtype: torch.dtype, shared_memory: int) -> PlainTiles:
    """The plain path's tiles; in float32 they are small, as they are for tests alone.

    `shared_memory` is what a program can have on this GPU, in bytes.
    """
    if dtype == torch.float32:
        tile = PlainTile(32, 32, 4, 1)
        return PlainTiles(tile, tile, tile)
    if shared_memory >= 227 * 1024 and head_dim in PLAIN_IN_227_KB:
        return PLAIN_IN_227_KB[head_dim]
    return PLAIN[head_dim]


@dataclass(frozen=True)
class HopperForward:
    """The Hopper forward: 64 query rows for each of the consumers, and a ring of blocks of keys.

    `programs` is how many share a multiprocessor, and with it the registers.
    """

    consumers: int
    keys: int
    ring: int
    programs: int = 1

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread: a consumer's and a producer's."""
        return FORWARD_REGISTERS[self.consumers, self.programs][0]

    @property
    def max_registers(self) -> int:
        """Registers of a thread at launch, before producer and consumers share them out."""
        return FORWARD_REGISTERS[self.consumers, self.programs][1]


def hopper_forward(head_dim: int, seq_len: int, causal: bool) -> HopperForward:
    """The Hopper forward's tile."""
    if head_dim == 256:
        return HopperForward(consumers=2, keys=64, ring=2)
    if head_dim <= 32:
        # So little of the work is matrix products that more threads count for more than larger
        # tiles.
        return HopperForward(consumers=2, keys=64, ring=3, programs=2)
    if head_dim == 64 and seq_len <= (2048 if causal else 512):
        # A tile is done so soon that its beginning and end count, in which one consumer has
        # nothing to overlap. Three programs fill each other's gaps.
        return HopperForward(consumers=1, keys=64, ring=3, programs=3)
    if causal and seq_len <= 1024:
        # Blocks of 64 keys end at the diagonal, where those of 128 compute 64 that are masked.
        return HopperForward(consumers=2, keys=64, ring=4)
    if head_dim == 128:
        return HopperForward(consumers=2, keys=128, ring=2)
    # Three consumers have no registers to spare for a mask by N.
    ragged = seq_len % 128 != 0 and not causal
    return HopperForward(consumers=2 if ragged else 3, keys=128, ring=3)


@dataclass(frozen=True)
class HopperBackward:
    """The Hopper backward's tiles.

    `queries` is the number of queries in a block of `keys_kernel` and `ring` its buffers of Q;
    `keys` is the number of keys in a block of `queries_kernel`, and `carry` whether its product
    with K runs on into the next block.
    """

    queries: int
    ring: int
    keys: int
    queries_ring: int
    carry: bool


HOPPER_BACKWARD = {
    16: HopperBackward(queries=128, ring=3, keys=128, queries_ring=3, carry=True),
    32: HopperBackward(queries=128, ring=3, keys=128, queries_ring=3, carry=True),
    64: HopperBackward(queries=128, ring=2, keys=128, queries_ring=2, carry=True),
    128: HopperBackward(queries=64, ring=3, keys=128, queries_ring=2, carry=False),
    256: HopperBackward(queries=64, ring=2, keys=32, queries_ring=3, carry=True),
}
"""The Hopper backward's tiles by head_dim."""


def hopper_backward(head_dim: int, seq_len: int, causal: bool) -> HopperBackward:
    """The Hopper backward's tiles; KeyError where head_dim has none."""
    tile = HOPPER_BACKWARD[head_dim]
    if head_dim < 256 and seq_len % 128 and not causal:
        # Masked by N, a block of 128 keys would take more registers than there are.
        return replace(tile, keys=64, carry=True)
    if head_dim == 128 and causal:
        return replace(tile, ring=2)
    return tile


def reduces(head_dim: int, seq_len: int) -> bool:
    """Whether the backward is faster where dQ is added in memory than by a second kernel."""
    return head_dim in (64, 128) and seq_len > 1024 and seq_len % 128 == 0


def forward_queues(head_dim: int, seq_len: int, causal: bool) -> bool:
    """Whether the forward's tiles differ enough in work to be taken from a common counter.

    The counter costs a launch that clears it, 3 µs.
    """
    return causal and seq_len >= (1024 if head_dim == 64 else 512)


def backward_queues(seq_len: int, causal: bool) -> bool:
    """Whether the backward's tiles differ enough in work to be taken from a common counter."""
    return causal and seq_len >= 512


def heads_together(seq_len: int, heads: int, head_dim: int, tensors: int) -> int:
    """How many of B·H heads go side by side with a mask: those that stay in 32 MiB of the L2 cache.

    Args:
        seq_len: N.
        heads: B·H.
        head_dim: D.
        tensors: 2-byte tensors of (N, D) that are read again for each tile.
    """
    together = 1
    while heads % (2 * together) == 0 and 2 * together * seq_len * head_dim * tensors * 2 <= 2**25:
        together *= 2
    return together
