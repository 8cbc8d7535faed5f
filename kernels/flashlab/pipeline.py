"""What the Hopper kernels share: rings of buffers, the order of tiles, and loads.

A kernel is one to three programs per multiprocessor. In each a producer warp loads, and one to
three consumer warpgroups compute. Every buffer has two barriers: the copy engine completes `full`
when the data has arrived, and each consumer arrives at `empty` when it has read them. Use number i
of a ring of S buffers takes buffer i % S in round i // S; a barrier's phase is the parity of the
round.
`tests/kernels/test_barriers.py` runs this protocol in a model.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def allocate_barriers(RING: gl.constexpr, ARRIVALS: gl.constexpr):
    """(RING, 1) barriers that complete a phase after so many arrivals."""
    barriers = gl.allocate_shared_memory(gl.int64, [RING, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(RING):
        mbarrier.init(barriers.index(i), count=ARRIVALS)
    return barriers


@gluon.jit
def wait_full(full, i, RING: gl.constexpr, FIRST: gl.constexpr = 0):
    """Wait until use i has arrived, in the ring that begins at barrier FIRST of an array."""
    mbarrier.wait(full.index(FIRST + i % RING), (i // RING) & 1)


@gluon.jit
def wait_empty(empty, i, RING: gl.constexpr, FIRST: gl.constexpr = 0):
    """Wait until every consumer has read what use i overwrites."""
    mbarrier.wait(empty.index(FIRST + i % RING), (i // RING + 1) & 1)


@gluon.jit
def release(empty, i, RING: gl.constexpr, FIRST: gl.constexpr = 0):
    """Say that this consumer has read use i."""
    mbarrier.arrive(empty.index(FIRST + i % RING), count=1)


@gluon.jit
def load_rows(desc, b, row, col, full, buffer):
    """Start to load a box of rows from (B, N, columns); what lies past N becomes 0.

    The caller has told the barrier how many bytes to expect.
    """
    box = buffer._reinterpret(desc.dtype, desc.block_type.shape, desc.layout)
    tma.async_copy_global_to_shared(desc, [b, row, col], full, box)


@gluon.jit
def store_rows(desc, b, row, col, buffer):
    """Start to store a buffer's rows to (B, N, columns), those before N."""
    fence_async_shared()
    box = buffer._reinterpret(desc.dtype, desc.block_type.shape, desc.layout)
    tma.async_copy_shared_to_global(desc, [b, row, col], box)


@gluon.jit
def allocate_queue(QUEUED: gl.constexpr, CONSUMERS: gl.constexpr):
    """Two slots through which the producer tells the consumers which tile is next."""
    slots = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = allocate_barriers(2, 1)
    empty = allocate_barriers(2, CONSUMERS)
    return slots, full, empty


@gluon.jit
def ordered_tile(r):
    """The tile of this program's round r; every other round runs backwards, to even out work."""
    place = gl.program_id(0)
    if r % 2 == 1:
        place = gl.num_programs(0) - 1 - place
    return r * gl.num_programs(0) + place


@gluon.jit
def take_tile(r, queue, counter, QUEUED: gl.constexpr):
    """The producer's next tile: from the counter that all programs share, or in a fixed order."""
    if QUEUED:
        slots, full, empty = queue
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
        tile = gl.atomic_add(counter, 1)
        wait_empty(empty, r, 2)
        slots.index(r & 1).store(gl.full([1], 0, gl.int32, layout) + tile)
        mbarrier.arrive(full.index(r & 1), count=1)
    else:
        tile = ordered_tile(r)
    return tile


@gluon.jit
def receive_tile(r, queue, QUEUED: gl.constexpr):
    """A consumer's next tile, the same as the producer's."""
    if QUEUED:
        slots, full, empty = queue
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        wait_full(full, r, 2)
        tile = gl.max(slots.index(r & 1).load(layout), axis=0)
        release(empty, r, 2)
    else:
        tile = ordered_tile(r)
    return tile


@gluon.jit
def tile_place(tile, blocks, heads_together, LONGEST_FIRST: gl.constexpr):
    """Tile → (head of the batch b * H + h, block).

    Without a mask, blocks of one head follow each other and share its K and V in the L2 cache. With
    one, tiles differ in work, so the longest of a group of heads come first: block 0 first.
    """
    if LONGEST_FIRST:
        group = tile // (blocks * heads_together)
        place = tile - group * blocks * heads_together
        block = place // heads_together
        bh = group * heads_together + place % heads_together
    else:
        bh = tile // blocks
        block = tile - bh * blocks
    return bh, block


@gluon.jit
def query_block(block, N, BM: gl.constexpr, CAUSAL: gl.constexpr):
    """The block of queries of a tile: with a mask the last one, which sees most keys, is first."""
    if CAUSAL:
        block = gl.cdiv(N, BM) - 1 - block
    return block


@gluon.jit
def key_blocks(end, N, BN: gl.constexpr, CAUSAL: gl.constexpr):
    """How many blocks of keys the queries before `end` see."""
    if CAUSAL:
        return gl.cdiv(gl.minimum(end, N), BN)
    else:
        return gl.cdiv(N, BN)
