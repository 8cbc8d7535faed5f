"""The forward pass on Hopper: O = softmax(Q Kᵀ / √D) V, in Gluon.

A tile is 64 query rows for each consumer. The producer loads Q, then K and V from the last block of
keys down, so that the only masked block comes first. A consumer issues S = Q Kᵀ of the next block
before P V of this one, and computes the softmax of the next block while P V runs.
"""

import math

from kernels.flashlab.pipeline import (
    allocate_barriers,
    allocate_queue,
    key_blocks,
    load_rows,
    query_block,
    receive_tile,
    release,
    store_rows,
    take_tile,
    tile_place,
    wait_empty,
    wait_full,
)
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

LOG2_E = gl.constexpr(math.log2(math.e))
LOWEST = gl.constexpr(-1e30)  # where every score so far is −∞: finite, so that later rows are right


@gluon.jit
def _load(
    loads, D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """The producer warp."""
    qkv_rows, qkv_keys, buffers, barriers, queue, counter, sizes = loads
    N, H, tiles, heads_together = sizes
    q_smem, k_smem, v_smem, _ = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    BM: gl.constexpr = 64 * C
    KEYS_BYTES: gl.constexpr = BN * D * 2
    i = 0  # blocks of keys so far
    r = 0  # tiles so far
    tile = take_tile(r, queue, counter, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, BM), heads_together, CAUSAL)
        row = query_block(block, N, BM, CAUSAL) * BM
        b = bh // H
        h = bh % H
        n = key_blocks(row + BM, N, BN, CAUSAL)
        # K runs one block ahead of V, as its products do.
        wait_empty(k_empty, i, RING)
        mbarrier.expect(k_full.index(i % RING), KEYS_BYTES)
        load_rows(
            qkv_keys, b, (n - 1) * BN, (H + h) * D, k_full.index(i % RING), k_smem.index(i % RING)
        )
        for c in gl.static_range(C):
            mbarrier.wait(q_empty.index(c), (r + 1) & 1)
            mbarrier.expect(q_full.index(c), 64 * D * 2)
            load_rows(qkv_rows, b, row + 64 * c, h * D, q_full.index(c), q_smem.index(c))
        for j in range(n):
            if j + 1 < n:
                k = i + 1
                wait_empty(k_empty, k, RING)
                mbarrier.expect(k_full.index(k % RING), KEYS_BYTES)
                load_rows(
                    qkv_keys,
                    b,
                    (n - 2 - j) * BN,
                    (H + h) * D,
                    k_full.index(k % RING),
                    k_smem.index(k % RING),
                )
            wait_empty(v_empty, i, RING)
            mbarrier.expect(v_full.index(i % RING), KEYS_BYTES)
            load_rows(
                qkv_keys,
                b,
                (n - 1 - j) * BN,
                (2 * H + h) * D,
                v_full.index(i % RING),
                v_smem.index(i % RING),
            )
            i += 1
        r += 1
        tile = take_tile(r, queue, counter, QUEUED)


@gluon.jit
def _row_max(s, BN: gl.constexpr):
    """(64, BN) → (64,). In two steps, so that a thread compares four chains side by side."""
    quarters = gl.max(s.reshape([64, BN // 32, 4, 8]), axis=1)  # (64, 4, 8)
    return gl.max(quarters.reshape([64, 32]), axis=1)  # (64,)


@gluon.jit
def _row_sums(p, BN: gl.constexpr):
    """(64, BN) → (64, 8): what one thread sums without asking the others."""
    return gl.sum(p.reshape([64, BN // 8, 8]), axis=1)


@gluon.jit
def _attend(
    c: gl.constexpr, work, D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """Consumer c: rows 64 c to 64 c + 63 of each tile."""
    buffers, barriers, queue, out, lse_ptr, lse_stride, sizes = work
    N, H, tiles, heads_together = sizes
    q_smem, k_smem, v_smem, o_smem = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    BM: gl.constexpr = 64 * C
    SCALE: gl.constexpr = LOG2_E * D**-0.5
    SEPARATE: gl.constexpr = D < 256  # whether O has a buffer of its own or takes Q's
    gl.static_assert(BN >= 64)  # or the diagonal would go through more blocks than the masked one
    dtype: gl.constexpr = q_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, s_layout)
    out_row_layout: gl.constexpr = gl.SliceLayout(1, o_layout)
    zeros = gl.zeros([64, BN], gl.float32, s_layout)
    q = q_smem.index(c)  # (64, D)
    o = o_smem.index(c)  # (64, D)
    i = 0
    r = 0
    tile = receive_tile(r, queue, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, BM), heads_together, CAUSAL)
        first_row = query_block(block, N, BM, CAUSAL) * BM
        row = first_row + 64 * c
        loaded = key_blocks(first_row + BM, N, BN, CAUSAL)
        n = key_blocks(row + 64, N, BN, CAUSAL)
        for _ in range(loaded - n):  # blocks that only the consumers of later rows see
            wait_full(k_full, i, RING)
            release(k_empty, i, RING)
            wait_full(v_full, i, RING)
            release(v_empty, i, RING)
            i += 1

        mbarrier.wait(q_full.index(c), r & 1)
        wait_full(k_full, i, RING)
        scores = warpgroup_mma(
            q, k_smem.index(i % RING).permute((1, 0)), zeros, use_acc=False, is_async=True
        )
        s = warpgroup_mma_wait(0, deps=(scores,))  # (64, BN)
        release(k_empty, i, RING)
        cols = (n - 1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, s_layout))
        if CAUSAL or RAGGED:
            if CAUSAL:
                last = row + gl.arange(0, 64, layout=row_layout)
            else:
                last = gl.full([64], 0, gl.int32, row_layout) + (N - 1)
            s = gl.where(last[:, None] >= cols[None, :], s, float("-inf"))
        m = gl.convert_layout(gl.maximum(_row_max(s, BN), LOWEST), row_layout) * SCALE  # (64,)
        p = gl.exp2(s * SCALE - m[:, None])  # (64, BN)
        sums = _row_sums(p, BN)  # (64, 8)
        sums_layout: gl.constexpr = gl.SliceLayout(1, sums.type.layout)
        p16 = gl.convert_layout(p.to(dtype), p_layout)
        acc = gl.zeros([64, D], gl.float32, o_layout)
        mbarrier.wait(k_full.index((i + 1) % RING), ((i + 1) // RING) & 1, pred=n > 1)

        for j in range(1, n):
            scores = warpgroup_mma(
                q, k_smem.index((i + 1) % RING).permute((1, 0)), zeros, use_acc=False, is_async=True
            )
            wait_full(v_full, i, RING)
            product = warpgroup_mma(p16, v_smem.index(i % RING), acc, is_async=True)
            s = warpgroup_mma_wait(1, deps=(scores,))  # (64, BN)
            release(k_empty, i + 1, RING)
            m_before = m
            m = gl.maximum(m, gl.convert_layout(_row_max(s, BN), row_layout) * SCALE)
            alpha = gl.exp2(m_before - m)
            p = gl.exp2(s * SCALE - m[:, None])  # (64, BN)
            sums = sums * gl.convert_layout(alpha, sums_layout)[:, None] + _row_sums(p, BN)
            # To wait for K of the next block here, though it is not needed yet, keeps ptxas from
            # moving the softmax behind the wait for P V, which would undo the overlap.
            mbarrier.wait(k_full.index((i + 2) % RING), ((i + 2) // RING) & 1, pred=j + 1 < n)
            acc = warpgroup_mma_wait(0, deps=(product,))  # (64, D)
            release(v_empty, i, RING)
            acc = acc * gl.convert_layout(alpha, out_row_layout)[:, None]
            p16 = gl.convert_layout(p.to(dtype), p_layout)
            i += 1

        if SEPARATE:
            mbarrier.arrive(q_empty.index(c), count=1)
        wait_full(v_full, i, RING)
        product = warpgroup_mma(p16, v_smem.index(i % RING), acc, is_async=True)
        total = gl.convert_layout(gl.sum(sums, axis=1), row_layout)  # (64,)
        rows = row + gl.arange(0, 64, layout=row_layout)
        gl.store(lse_ptr + bh.to(gl.int64) * lse_stride + rows, m + gl.log2(total), mask=rows < N)
        acc = warpgroup_mma_wait(0, deps=(product,))
        release(v_empty, i, RING)
        i += 1
        acc = acc * gl.convert_layout(1.0 / total, out_row_layout)[:, None]
        tma.store_wait(0)
        o.store(acc.to(dtype))
        store_rows(out, bh // H, row, (bh % H) * D, o)
        if not SEPARATE:
            tma.store_wait(0)
            mbarrier.arrive(q_empty.index(c), count=1)
        r += 1
        tile = receive_tile(r, queue, QUEUED)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["lse_stride", "N", "H", "tiles", "heads_together"])
def forward_kernel(
    qkv_rows, qkv_keys, out, lse_ptr, counter, lse_stride, N, H, tiles, heads_together,
    D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    RAGGED: gl.constexpr, QUEUED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """O and the base-2 logarithm of the row sums of exp(S).

    Args:
        qkv_rows, qkv_keys: (B, N, 3 H D) in boxes of 64 and of BN rows.
        out: (B, N, H D) in boxes of 64 rows.
        lse_ptr: (B H, N) float32, rows `lse_stride` apart.
        counter: one int32, 0 at launch, where QUEUED.
        tiles: B H ⌈N / 64 C⌉.
        REGISTERS: of a thread of the first consumer's warps, of the others, of the producer.
    """
    dtype: gl.constexpr = qkv_rows.dtype
    layout: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 2 * D), element_bitwidth=16, rank=2
    )
    q_smem = gl.allocate_shared_memory(dtype, [C, 64, D], layout)
    k_smem = gl.allocate_shared_memory(dtype, [RING, BN, D], layout)
    v_smem = gl.allocate_shared_memory(dtype, [RING, BN, D], layout)
    o_smem = q_smem
    if D < 256:
        o_smem = gl.allocate_shared_memory(dtype, [C, 64, D], layout)
    buffers = (q_smem, k_smem, v_smem, o_smem)
    barriers = (
        allocate_barriers(C, 1), allocate_barriers(C, 1),
        allocate_barriers(RING, 1), allocate_barriers(RING, C),
        allocate_barriers(RING, 1), allocate_barriers(RING, C),
    )  # fmt: skip
    queue = allocate_queue(QUEUED, C)
    fence_async_shared()
    sizes = (N, H, tiles, heads_together)
    work = (buffers, barriers, queue, out, lse_ptr, lse_stride, sizes)
    loads = (qkv_rows, qkv_keys, buffers, barriers, queue, counter, sizes)
    if C == 1:
        gl.warp_specialize(
            [
                (_attend, (0, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_load, (loads, D, BN, C, RING, CAUSAL, QUEUED)),
            ],
            [1],
            [REGISTERS[1]],
        )
    elif C == 2:
        gl.warp_specialize(
            [
                (_attend, (0, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_attend, (1, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_load, (loads, D, BN, C, RING, CAUSAL, QUEUED)),
            ],
            [4, 1],
            [REGISTERS[0], REGISTERS[1]],
        )
    else:
        gl.static_assert(C == 3)
        gl.warp_specialize(
            [
                (_attend, (0, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_attend, (1, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_attend, (2, work, D, BN, C, RING, CAUSAL, RAGGED, QUEUED)),
                (_load, (loads, D, BN, C, RING, CAUSAL, QUEUED)),
            ],
            [4, 4, 1],
            [REGISTERS[0], REGISTERS[0], REGISTERS[1]],
        )
