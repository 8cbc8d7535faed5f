"""dK and dV on Hopper in Gluon at head_dim 256, where both do not fit one consumer's registers.

A tile is 64 keys. Consumer 0 computes Pᵀ = exp(K Qᵀ − lse) and dV = Pᵀ dO, and hands Pᵀ to consumer
1 through shared memory; consumer 1 computes dPᵀ = V dOᵀ meanwhile, then dSᵀ = Pᵀ ∘ (dPᵀ − Δ) and
dK = dSᵀ Q. So each has two of the four products and one of the two results. Nothing is added by
two programs: the same bits come at each call.
"""

import math

from kernels.flashlab.pipeline import (
    allocate_barriers,
    allocate_queue,
    load_rows,
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


@gluon.jit
def _first_queries(keys, BM: gl.constexpr, CAUSAL: gl.constexpr):
    """The first block of queries that sees these keys."""
    if CAUSAL:
        return keys // BM
    else:
        return 0


@gluon.jit
def _load(
    loads, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    QUEUED: gl.constexpr,
):  # fmt: skip
    """The producer warp: K and V once a tile, Q with lse, and dO with Δ."""
    qkv_queries, qkv_keys, grad, lse, delta, buffers, barriers, queue, counter, sizes = loads
    N, H, tiles, heads_together = sizes
    k_smem, v_smem, q_smem, do_smem, lse_smem, delta_smem, _ = buffers
    k_full, k_empty, v_full, v_empty, q_full, q_empty, do_full, do_empty, _, _ = barriers
    QUERIES_BYTES: gl.constexpr = BM * D * 2 + BM * 4
    KEYS_BYTES: gl.constexpr = 64 * D * 2
    blocks = gl.cdiv(N, 64)
    i = 0
    r = 0
    tile = take_tile(r, queue, counter, QUEUED)
    while tile < tiles:
        bh, keys = tile_place(tile, blocks, heads_together, CAUSAL)
        b = bh // H
        h = bh % H
        wait_empty(k_empty, r, 1)
        mbarrier.expect(k_full.index(0), KEYS_BYTES)
        load_rows(qkv_keys, b, keys * 64, (H + h) * D, k_full.index(0), k_smem.index(0))
        wait_empty(v_empty, r, 1)
        mbarrier.expect(v_full.index(0), KEYS_BYTES)
        load_rows(qkv_keys, b, keys * 64, (2 * H + h) * D, v_full.index(0), v_smem.index(0))
        for m in range(_first_queries(keys * 64, BM, CAUSAL), gl.cdiv(N, BM)):
            s = i % RING
            wait_empty(q_empty, i, RING)
            mbarrier.expect(q_full.index(s), QUERIES_BYTES)
            load_rows(qkv_queries, b, m * BM, h * D, q_full.index(s), q_smem.index(s))
            tma.async_copy_global_to_shared(lse, [bh, m * BM], q_full.index(s), lse_smem.index(s))
            wait_empty(do_empty, i, RING)
            mbarrier.expect(do_full.index(s), QUERIES_BYTES)
            load_rows(grad, b, m * BM, h * D, do_full.index(s), do_smem.index(s))
            tma.async_copy_global_to_shared(
                delta, [bh, m * BM], do_full.index(s), delta_smem.index(s)
            )
            i += 1
        r += 1
        tile = take_tile(r, queue, counter, QUEUED)


@gluon.jit
def _hand_on(
    s, i, m, keys, work, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
):  # fmt: skip
    """Sᵀ of block m of queries, use i of the rings → Pᵀ in 16 bits, in shared memory."""
    buffers, barriers, _, _, sizes = work
    lse_smem, p_smem = buffers[4], buffers[6]
    q_empty, p_full, p_empty = barriers[5], barriers[8], barriers[9]
    s_layout: gl.constexpr = s.type.layout
    p = gl.exp2(s * (LOG2_E * D**-0.5) - lse_smem.index(i % RING).load(s_layout))  # Pᵀ (64, BM)
    release(q_empty, i, RING)
    rows = keys + gl.arange(0, 64, layout=gl.SliceLayout(1, s_layout))
    if CAUSAL:
        cols = m * BM + gl.arange(0, BM, layout=gl.SliceLayout(0, s_layout))
        p = gl.where(cols[None, :] >= rows[:, None], p, 0.0)
    elif RAGGED:
        p = gl.where((rows < sizes[0])[:, None], p, 0.0)
    wait_empty(p_empty, i, 2)
    p_smem.index(i % 2).store(p.to(p_smem.dtype))
    release(p_full, i, 2)


@gluon.jit
def _sum_dv(
    work, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    RAGGED: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """Consumer 0: Pᵀ, which it hands on, and dV.

    As in the forward, S of the next block is issued before P dO of this one. P is read back from
    shared memory: with its registers from before, ptxas makes the products wait for each other
    (C7513).
    """
    buffers, barriers, queue, dqkv, sizes = work
    N, H, tiles, heads_together = sizes
    q_smem, do_smem, p_smem = buffers[2], buffers[3], buffers[6]
    k_full, k_empty, q_full = barriers[0], barriers[1], barriers[4]
    do_full, do_empty = barriers[6], barriers[7]
    dtype: gl.constexpr = q_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BM, 16])
    dv_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, dv_layout, 2)
    zeros = gl.zeros([64, BM], gl.float32, s_layout)
    k = buffers[0].index(0)  # (64, D)
    i = 0
    r = 0
    tile = receive_tile(r, queue, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, 64), heads_together, CAUSAL)
        keys = block * 64
        start = _first_queries(keys, BM, CAUSAL)
        wait_full(k_full, r, 1)
        wait_full(q_full, i, RING)
        q = q_smem.index(i % RING)  # (BM, D)
        scores = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=(scores,))  # Sᵀ (64, BM)
        _hand_on(s, i, start, keys, work, D, BM, RING, CAUSAL, RAGGED)
        p = p_smem.index(i % 2).load(p_layout)
        dv = gl.zeros([64, D], gl.float32, dv_layout)
        for m in range(start + 1, gl.cdiv(N, BM)):
            wait_full(q_full, i + 1, RING)
            q = q_smem.index((i + 1) % RING)
            scores = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
            wait_full(do_full, i, RING)
            product = warpgroup_mma(p, do_smem.index(i % RING), dv, is_async=True)
            s = warpgroup_mma_wait(1, deps=(scores,))
            _hand_on(s, i + 1, m, keys, work, D, BM, RING, CAUSAL, RAGGED)
            dv = warpgroup_mma_wait(0, deps=(product,))
            release(do_empty, i, RING)
            p = p_smem.index((i + 1) % 2).load(p_layout)
            i += 1
        wait_full(do_full, i, RING)
        product = warpgroup_mma(p, do_smem.index(i % RING), dv, is_async=True)
        dv = warpgroup_mma_wait(0, deps=(product,))
        release(do_empty, i, RING)
        i += 1
        k.store(dv.to(dtype))  # K is not needed any more
        store_rows(dqkv, bh // H, keys, (2 * H + bh % H) * D, k)
        tma.store_wait(0)
        release(k_empty, r, 1)
        r += 1
        tile = receive_tile(r, queue, QUEUED)


@gluon.jit
def _take_over(dp, i, work, RING: gl.constexpr):
    """dPᵀ of use i of the rings → dSᵀ in 16 bits, from the Pᵀ that consumer 0 stored."""
    buffers, barriers, _, _, _ = work
    delta_smem, p_smem = buffers[5], buffers[6]
    do_empty, p_full, p_empty = barriers[7], barriers[8], barriers[9]
    s_layout: gl.constexpr = dp.type.layout
    dp = dp - delta_smem.index(i % RING).load(s_layout)
    release(do_empty, i, RING)
    wait_full(p_full, i, 2)
    p = p_smem.index(i % 2).load(s_layout)  # Pᵀ (64, BM)
    release(p_empty, i, 2)
    return (p.to(gl.float32) * dp).to(p_smem.dtype)  # dSᵀ (64, BM)


@gluon.jit
def _sum_dk(
    work, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    QUEUED: gl.constexpr,
):  # fmt: skip
    """Consumer 1: dSᵀ from the Pᵀ that it is given, and dK, with dP of the next block issued."""
    buffers, barriers, queue, dqkv, sizes = work
    N, H, tiles, heads_together = sizes
    q_smem, do_smem = buffers[2], buffers[3]
    v_full, v_empty = barriers[2], barriers[3]
    q_full, q_empty, do_full = barriers[4], barriers[5], barriers[6]
    dtype: gl.constexpr = q_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BM, 16])
    dk_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    ds_layout: gl.constexpr = gl.DotOperandLayout(0, dk_layout, 2)
    zeros = gl.zeros([64, BM], gl.float32, s_layout)
    v = buffers[1].index(0)  # (64, D)
    i = 0
    r = 0
    tile = receive_tile(r, queue, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, 64), heads_together, CAUSAL)
        start = _first_queries(block * 64, BM, CAUSAL)
        wait_full(v_full, r, 1)
        wait_full(do_full, i, RING)
        do = do_smem.index(i % RING)  # (BM, D)
        dps = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
        dp = warpgroup_mma_wait(0, deps=(dps,))  # dPᵀ (64, BM)
        ds = gl.convert_layout(_take_over(dp, i, work, RING), ds_layout)
        dk = gl.zeros([64, D], gl.float32, dk_layout)
        for _ in range(start + 1, gl.cdiv(N, BM)):
            wait_full(do_full, i + 1, RING)
            do = do_smem.index((i + 1) % RING)
            dps = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
            wait_full(q_full, i, RING)
            product = warpgroup_mma(ds, q_smem.index(i % RING), dk, is_async=True)
            dp = warpgroup_mma_wait(1, deps=(dps,))
            ds16 = _take_over(dp, i + 1, work, RING)
            dk = warpgroup_mma_wait(0, deps=(product,))
            release(q_empty, i, RING)
            ds = gl.convert_layout(ds16, ds_layout)
            i += 1
        wait_full(q_full, i, RING)
        product = warpgroup_mma(ds, q_smem.index(i % RING), dk, is_async=True)
        dk = warpgroup_mma_wait(0, deps=(product,)) * D**-0.5
        release(q_empty, i, RING)
        i += 1
        v.store(dk.to(dtype))  # V is not needed any more
        store_rows(dqkv, bh // H, block * 64, (H + bh % H) * D, v)
        tma.store_wait(0)
        release(v_empty, r, 1)
        r += 1
        tile = receive_tile(r, queue, QUEUED)


@gluon.jit(do_not_specialize=["N", "H", "tiles", "heads_together"])
def wide_keys_kernel(
    qkv_queries, qkv_keys, grad, lse, delta, dqkv, counter, N, H, tiles, heads_together,
    D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    RAGGED: gl.constexpr, QUEUED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """dK and dV.

    Args:
        qkv_queries, qkv_keys: (B, N, 3 H D) in boxes of BM and of 64 rows.
        grad: dO, (B, N, H D) in boxes of BM rows.
        lse, delta: (B H, N) float32 in boxes of BM, lse of base 2.
        dqkv: (B, N, 3 H D) in boxes of 64 rows.
        counter: one int32, 0 at launch, where QUEUED.
        tiles: B H ⌈N / 64⌉.
        RING: buffers of Q and of dO.
    """
    dtype: gl.constexpr = qkv_keys.dtype
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    p_layout: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 2 * BM), element_bitwidth=16, rank=2
    )
    buffers = (
        gl.allocate_shared_memory(dtype, [1, 64, D], layout),  # K
        gl.allocate_shared_memory(dtype, [1, 64, D], layout),  # V
        gl.allocate_shared_memory(dtype, [RING, BM, D], layout),  # Q
        gl.allocate_shared_memory(dtype, [RING, BM, D], layout),  # dO
        gl.allocate_shared_memory(gl.float32, [RING, 1, BM], lse.layout),
        gl.allocate_shared_memory(gl.float32, [RING, 1, BM], lse.layout),  # Δ
        gl.allocate_shared_memory(dtype, [2, 64, BM], p_layout),  # Pᵀ
    )
    barriers = (
        allocate_barriers(1, 1), allocate_barriers(1, 1),  # K: consumer 0 alone reads it
        allocate_barriers(1, 1), allocate_barriers(1, 1),  # V: consumer 1 alone
        allocate_barriers(RING, 1), allocate_barriers(RING, 2),
        allocate_barriers(RING, 1), allocate_barriers(RING, 2),
        allocate_barriers(2, 1), allocate_barriers(2, 1),  # Pᵀ: from consumer 0 to consumer 1
    )  # fmt: skip
    queue = allocate_queue(QUEUED, 2)
    fence_async_shared()
    sizes = (N, H, tiles, heads_together)
    work = (buffers, barriers, queue, dqkv, sizes)
    loads = (
        qkv_queries, qkv_keys, grad, lse, delta, buffers, barriers, queue, counter, sizes
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_sum_dv, (work, D, BM, RING, CAUSAL, RAGGED, QUEUED)),
            (_sum_dk, (work, D, BM, RING, CAUSAL, QUEUED)),
            (_load, (loads, D, BM, RING, CAUSAL, QUEUED)),
        ],
        [4, 1],
        [REGISTERS[0], REGISTERS[1]],
    )
