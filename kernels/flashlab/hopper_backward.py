"""The backward pass on Hopper in Gluon: dQ, dK and dV from dO.

With P = exp(S − lse), dP = dO Vᵀ and Δ = rowsum(O ∘ dO), which is what softmax takes away again:

    dV = Pᵀ dO,  dS = P ∘ (dP − Δ),  dK = dSᵀ Q / √D,  dQ = dS K / √D.

`keys_kernel` keeps a block of 128 keys and goes through the queries; `queries_kernel` keeps queries
and goes through the keys. There are two ways to all three gradients:

- split: `queries_kernel` computes Δ and dQ, `keys_kernel` dK and dV. Seven products in place of
  five, but nothing is added by two programs: the same bits at each call, and no dQ in float32.
- reduced: `keys_kernel` computes all three, and the copy engine adds each block's share of dQ to a
  float32 buffer in memory. The order of these additions, and so the last bits, differ from call to
  call.
"""

import math

import triton
import triton.language as tl
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
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

LOG2_E = gl.constexpr(math.log2(math.e))

# Where the rings begin in the barriers of `keys_kernel`. The producer arrives at the first seven,
# both consumers at the others; the rings of Q have up to three barriers, those of dO and dS two.
K_FULL = gl.constexpr(0)
V_FULL = gl.constexpr(1)
DO_FULL = gl.constexpr(2)
Q_FULL = gl.constexpr(4)
K_EMPTY = gl.constexpr(7)
V_EMPTY = gl.constexpr(8)
DO_EMPTY = gl.constexpr(9)
DS_FULL = gl.constexpr(11)
Q_EMPTY = gl.constexpr(13)


@builtin
def _add_rows(desc, coord, buffer, _semantic=None):
    """Start to add a buffer to memory; Triton 3.6 has the operation without a function for it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    kind = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(kind, desc.handle, coord, buffer.handle)


# --- Keys stay, queries go by: dK, dV and, where REDUCED, shares of dQ ----------------------------


@gluon.jit
def _queries_at(start, j, blocks, CAUSAL: gl.constexpr):
    """The block of queries that comes j-th for a block of keys which starts at `start`.

    Without a mask each block of keys starts at its own place and goes around, so that at any time
    they add to dQ at different places.
    """
    m = start + j
    if not CAUSAL:
        m = gl.where(m >= blocks, m - blocks, m)
    return m


@gluon.jit
def _load_queries(
    loads, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    QUEUED: gl.constexpr,
):  # fmt: skip
    """The producer warp of `keys_kernel`: K and V once a tile, Q with lse, and dO with Δ."""
    qkv_queries, qkv_keys, grad, lse, delta, buffers, barriers, queue, counter, sizes = loads
    N, H, tiles, heads_together = sizes
    keys_smem, queries_smem, rows_smem = buffers
    k_smem = keys_smem.index(0)
    v_smem = keys_smem.index(1)
    QUERIES_BYTES: gl.constexpr = BM * D * 2 + BM * 4
    KEYS_BYTES: gl.constexpr = 128 * D * 2
    blocks = gl.cdiv(N, 128)
    query_blocks = blocks * (128 // BM)
    i = 0
    r = 0
    tile = take_tile(r, queue, counter, QUEUED)
    while tile < tiles:
        bh, keys = tile_place(tile, blocks, heads_together, CAUSAL)
        b = bh // H
        h = bh % H
        start = keys * (128 // BM)
        n = query_blocks
        if CAUSAL:
            n -= start
        m = start
        wait_empty(barriers, i, RING, Q_EMPTY)
        mbarrier.expect(barriers.index(Q_FULL + i % RING), QUERIES_BYTES)
        load_rows(
            qkv_queries,
            b,
            m * BM,
            h * D,
            barriers.index(Q_FULL + i % RING),
            queries_smem.index(i % RING),
        )
        tma.async_copy_global_to_shared(
            lse, [bh, m * BM], barriers.index(Q_FULL + i % RING), rows_smem.index(i % RING)
        )
        wait_empty(barriers, r, 1, K_EMPTY)
        mbarrier.expect(barriers.index(K_FULL), KEYS_BYTES)
        load_rows(qkv_keys, b, keys * 128, (H + h) * D, barriers.index(K_FULL), k_smem)
        wait_empty(barriers, r, 1, V_EMPTY)
        mbarrier.expect(barriers.index(V_FULL), KEYS_BYTES)
        load_rows(qkv_keys, b, keys * 128, (2 * H + h) * D, barriers.index(V_FULL), v_smem)
        for j in range(n):
            wait_empty(barriers, i, 2, DO_EMPTY)
            mbarrier.expect(barriers.index(DO_FULL + i % 2), QUERIES_BYTES)
            load_rows(
                grad,
                b,
                m * BM,
                h * D,
                barriers.index(DO_FULL + i % 2),
                queries_smem.index(RING + i % 2),
            )
            tma.async_copy_global_to_shared(
                delta, [bh, m * BM], barriers.index(DO_FULL + i % 2), rows_smem.index(RING + i % 2)
            )
            i += 1
            m = _queries_at(start, j + 1, query_blocks, CAUSAL)
            if j + 1 < n:
                wait_empty(barriers, i, RING, Q_EMPTY)
                mbarrier.expect(barriers.index(Q_FULL + i % RING), QUERIES_BYTES)
                load_rows(
                    qkv_queries,
                    b,
                    m * BM,
                    h * D,
                    barriers.index(Q_FULL + i % RING),
                    queries_smem.index(i % RING),
                )
                tma.async_copy_global_to_shared(
                    lse, [bh, m * BM], barriers.index(Q_FULL + i % RING), rows_smem.index(i % RING)
                )
        r += 1
        tile = take_tile(r, queue, counter, QUEUED)


@gluon.jit
def _share_of_dq(c: gl.constexpr, ds, k_smem, D: gl.constexpr):
    """Start this consumer's half of dQ = dS K, from dSᵀ (128, BM) of both consumers.

    Its half is 64 of the 128 columns where BM is 64, and 64 of the 128 queries otherwise.
    """
    COLUMNS: gl.constexpr = min(D, 64)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    zeros = gl.zeros([64, COLUMNS], gl.float32, layout)
    if D > 64:
        k = k_smem.slice(c * 64, 64, dim=1)
        return warpgroup_mma(ds.permute((1, 0)), k, zeros, use_acc=False, is_async=True)
    else:
        mine = ds.slice(c * 64, 64, dim=1)
        return warpgroup_mma(mine.permute((1, 0)), k_smem, zeros, use_acc=False, is_async=True)


@gluon.jit
def _add_share_of_dq(
    c: gl.constexpr, share, dq, bh, m, stage, D: gl.constexpr, BM: gl.constexpr
):  # fmt: skip
    tma.store_wait(0)
    stage.store(share)
    fence_async_shared()
    box = stage._reinterpret(gl.float32, dq.block_type.shape, dq.layout)
    if D > 64:
        _add_rows(dq, [bh, m * BM, c * 64], box)
    else:
        _add_rows(dq, [bh, m * BM + c * 64, 0], box)


@gluon.jit
def _go_through_queries(
    c: gl.constexpr, i, bh, start, j, keys, dk, dv, work, FIRST: gl.constexpr,
    DIAGONAL: gl.constexpr, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr, REDUCED: gl.constexpr,
):  # fmt: skip
    """The j-th block of queries against this consumer's 64 keys: (dK, dV) so far → (dK, dV).

    The share of dQ of the block before it is computed here, together with this block's S, because
    it needs dS of both consumers.
    """
    buffers, barriers, _, _, dq, ds_smem, stage, sizes = work
    keys_smem, queries_smem, rows_smem = buffers
    k_smem = keys_smem.index(0)
    v_smem = keys_smem.index(1)
    dtype: gl.constexpr = queries_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BM, 16])
    dk_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(0, dk_layout, 2)
    q = queries_smem.index(i % RING)  # (BM, D)
    do = queries_smem.index(RING + i % 2)  # (BM, D)
    my_k = k_smem.slice(c * 64, 64, dim=0)
    my_v = v_smem.slice(c * 64, 64, dim=0)
    zeros = gl.zeros([64, BM], gl.float32, s_layout)
    wait_full(barriers, i, RING, Q_FULL)
    if REDUCED and not FIRST:
        wait_full(barriers, i - 1, 2, DS_FULL)
        share = _share_of_dq(c, ds_smem.index((i - 1) % 2), k_smem, D)
        scores = warpgroup_mma(my_k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
        share = warpgroup_mma_wait(1, deps=(share,))
        before = _queries_at(start, j - 1, gl.cdiv(sizes[0], 128) * (128 // BM), CAUSAL)
        _add_share_of_dq(c, share, dq, bh, before, stage, D, BM)
    else:
        scores = warpgroup_mma(my_k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    wait_full(barriers, i, 2, DO_FULL)
    dps = warpgroup_mma(my_v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(1, deps=(scores,))  # Sᵀ (64, BM)
    p = gl.exp2(s * (LOG2_E * D**-0.5) - rows_smem.index(i % RING).load(s_layout))  # Pᵀ (64, BM)
    rows = keys + gl.arange(0, 64, layout=gl.SliceLayout(1, s_layout))
    if DIAGONAL:
        cols = (start + j) * BM + gl.arange(0, BM, layout=gl.SliceLayout(0, s_layout))
        p = gl.where(cols[None, :] >= rows[:, None], p, 0.0)
    elif RAGGED and not CAUSAL:
        p = gl.where((rows < sizes[0])[:, None], p, 0.0)
    p16 = p.to(dtype)
    dv = warpgroup_mma(gl.convert_layout(p16, a_layout), do, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=(dps,))  # dPᵀ (64, BM)
    # P again from its 16 bits: to keep it in float32 beside dP would take too many registers.
    ds = p16.to(gl.float32) * (dp - rows_smem.index(RING + i % 2).load(s_layout))
    ds16 = ds.to(dtype)  # dSᵀ (64, BM)
    if REDUCED:
        ds_smem.index(i % 2).slice(c * 64, 64, dim=0).store(ds16)
        fence_async_shared()
        mbarrier.arrive(barriers.index(DS_FULL + i % 2), count=1)
    dk = warpgroup_mma(gl.convert_layout(ds16, a_layout), q, dk, is_async=True)
    dv = warpgroup_mma_wait(1, deps=(dv,))
    release(barriers, i, 2, DO_EMPTY)
    dk = warpgroup_mma_wait(0, deps=(dk,))
    release(barriers, i, RING, Q_EMPTY)
    return dk, dv


@gluon.jit
def _keep_keys(
    c: gl.constexpr, work, D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr, REDUCED: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """Consumer c of `keys_kernel`: keys 64 c to 64 c + 63 of each tile."""
    buffers, barriers, queue, outputs, dq, ds_smem, stages, sizes = work
    N, H, tiles, heads_together = sizes
    dqkv, o_smem = outputs
    k_smem = buffers[0].index(0)
    dtype: gl.constexpr = k_smem.dtype
    dk_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    stage = stages.index(c)
    o = o_smem.index(c * (128 // D) if REDUCED else c)
    mine = (buffers, barriers, queue, outputs, dq, ds_smem, stage, sizes)
    blocks = gl.cdiv(N, 128)
    query_blocks = blocks * (128 // BM)
    i = 0
    r = 0
    tile = receive_tile(r, queue, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, blocks, heads_together, CAUSAL)
        keys = block * 128 + c * 64
        start = block * (128 // BM)
        n = query_blocks
        if CAUSAL:
            n -= start
        dk = gl.zeros([64, D], gl.float32, dk_layout)
        dv = gl.zeros([64, D], gl.float32, dk_layout)
        wait_full(barriers, r, 1, K_FULL)
        wait_full(barriers, r, 1, V_FULL)
        # With a mask, the first 128 queries are those on the diagonal.
        DIAGONAL: gl.constexpr = 128 // BM if CAUSAL else 1
        for j in gl.static_range(DIAGONAL):
            dk, dv = _go_through_queries(
                c, i, bh, start, j, keys, dk, dv, mine, j == 0, CAUSAL, D, BM, RING, CAUSAL,
                RAGGED, REDUCED,
            )  # fmt: skip
            i += 1
        for j in range(DIAGONAL, n):
            dk, dv = _go_through_queries(
                c, i, bh, start, j, keys, dk, dv, mine, False, False, D, BM, RING, CAUSAL, RAGGED,
                REDUCED,
            )  # fmt: skip
            i += 1
        release(barriers, r, 1, V_EMPTY)
        if REDUCED:
            wait_full(barriers, i - 1, 2, DS_FULL)
            share = _share_of_dq(c, ds_smem.index((i - 1) % 2), k_smem, D)
            share = warpgroup_mma_wait(0, deps=(share,))
            release(barriers, r, 1, K_EMPTY)
            last = _queries_at(start, n - 1, query_blocks, CAUSAL)
            _add_share_of_dq(c, share, dq, bh, last, stage, D, BM)
        else:
            release(barriers, r, 1, K_EMPTY)
        tma.store_wait(0)
        o.store(dv.to(dtype))
        store_rows(dqkv, bh // H, keys, (2 * H + bh % H) * D, o)
        dk = dk * D**-0.5
        tma.store_wait(0)
        o.store(dk.to(dtype))
        store_rows(dqkv, bh // H, keys, (H + bh % H) * D, o)
        r += 1
        tile = receive_tile(r, queue, QUEUED)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["N", "H", "tiles", "heads_together"])
def keys_kernel(
    qkv_queries, qkv_keys, grad, lse, delta, dqkv, dq, counter, N, H, tiles, heads_together,
    D: gl.constexpr, BM: gl.constexpr, RING: gl.constexpr, CAUSAL: gl.constexpr,
    RAGGED: gl.constexpr, REDUCED: gl.constexpr, QUEUED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """dK and dV and, where REDUCED, √D dQ added to a float32 buffer.

    Args:
        qkv_queries, qkv_keys: (B, N, 3 H D) in boxes of BM and of 128 rows.
        grad: dO, (B, N, H D) in boxes of BM rows.
        lse, delta: (B H, N) float32 in boxes of BM, lse of base 2.
        dqkv: (B, N, 3 H D) in boxes of 64 rows.
        dq: (B H, N, D) float32, 0 at launch, in boxes of (64, min(D, 64)), where REDUCED.
        counter: one int32, 0 at launch, where QUEUED.
        tiles: B H ⌈N / 128⌉.
        RING: buffers of Q; dO has two.
    """
    dtype: gl.constexpr = qkv_keys.dtype
    layout: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 2 * D), element_bitwidth=16, rank=2
    )
    keys_smem = gl.allocate_shared_memory(dtype, [2, 128, D], layout)  # K, V
    queries_smem = gl.allocate_shared_memory(dtype, [RING + 2, BM, D], layout)  # Q; dO
    rows_smem = gl.allocate_shared_memory(gl.float32, [RING + 2, 1, BM], lse.layout)  # lse; Δ
    if REDUCED:
        COLUMNS: gl.constexpr = min(D, 64)
        ds_layout: gl.constexpr = gl.NVMMASharedLayout(
            swizzle_byte_width=128, element_bitwidth=16, rank=2
        )
        stage_layout: gl.constexpr = gl.NVMMASharedLayout(
            swizzle_byte_width=min(128, 4 * COLUMNS), element_bitwidth=32, rank=2
        )
        ds_smem = gl.allocate_shared_memory(dtype, [2, 128, BM], ds_layout)
        stages = gl.allocate_shared_memory(gl.float32, [2, 64, COLUMNS], stage_layout)
        # A stage holds one block of dK or dV where D is 128, and two where it is 64.
        o_smem = stages._reinterpret(dtype, [2 * (128 // D), 64, D], layout)
    else:
        o_smem = gl.allocate_shared_memory(dtype, [2, 64, D], layout)
        ds_smem = o_smem
        stages = o_smem
    barriers = gl.allocate_shared_memory(gl.int64, [16, 1], mbarrier.MBarrierLayout())
    for x in gl.static_range(16):
        mbarrier.init(barriers.index(x), count=1 if x < K_EMPTY else 2)
    queue = allocate_queue(QUEUED, 2)
    fence_async_shared()
    buffers = (keys_smem, queries_smem, rows_smem)
    sizes = (N, H, tiles, heads_together)
    outputs = (dqkv, o_smem)
    work = (buffers, barriers, queue, outputs, dq, ds_smem, stages, sizes)
    loads = (
        qkv_queries, qkv_keys, grad, lse, delta, buffers, barriers, queue, counter, sizes
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_keep_keys, (0, work, D, BM, RING, CAUSAL, RAGGED, REDUCED, QUEUED)),
            (_keep_keys, (1, work, D, BM, RING, CAUSAL, RAGGED, REDUCED, QUEUED)),
            (_load_queries, (loads, D, BM, RING, CAUSAL, QUEUED)),
        ],
        [4, 1],
        [REGISTERS[0], REGISTERS[1]],
    )


# --- Queries stay, keys go by: Δ and dQ -----------------------------------------------------------


@gluon.jit
def _load_keys(
    loads, D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """The producer warp of `queries_kernel`: Q and dO once a tile, K and V from the end."""
    qkv_rows, qkv_keys, grad, buffers, barriers, queue, counter, sizes = loads
    N, H, tiles, heads_together = sizes
    q_smem, do_smem, k_smem, v_smem, _ = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    BM: gl.constexpr = 64 * C
    KEYS_BYTES: gl.constexpr = BN * D * 2
    i = 0
    r = 0
    tile = take_tile(r, queue, counter, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, BM), heads_together, CAUSAL)
        row = query_block(block, N, BM, CAUSAL) * BM
        b = bh // H
        h = bh % H
        n = key_blocks(row + BM, N, BN, CAUSAL)
        for c in gl.static_range(C):
            mbarrier.wait(q_empty.index(c), (r + 1) & 1)
            mbarrier.expect(q_full.index(c), 2 * 64 * D * 2)
            load_rows(qkv_rows, b, row + 64 * c, h * D, q_full.index(c), q_smem.index(c))
            load_rows(grad, b, row + 64 * c, h * D, q_full.index(c), do_smem.index(c))
        for j in range(n):
            first_key = (n - 1 - j) * BN
            wait_empty(k_empty, i, RING)
            mbarrier.expect(k_full.index(i % RING), KEYS_BYTES)
            load_rows(
                qkv_keys, b, first_key, (H + h) * D, k_full.index(i % RING), k_smem.index(i % RING)
            )
            wait_empty(v_empty, i, RING)
            mbarrier.expect(v_full.index(i % RING), KEYS_BYTES)
            load_rows(
                qkv_keys,
                b,
                first_key,
                (2 * H + h) * D,
                v_full.index(i % RING),
                v_smem.index(i % RING),
            )
            i += 1
        r += 1
        tile = take_tile(r, queue, counter, QUEUED)


@gluon.jit
def _go_through_keys(
    i, q, do, dq, lse, delta, rows, first_key, work, FIRST: gl.constexpr, MASKED: gl.constexpr,
    CAUSAL: gl.constexpr, D: gl.constexpr, BN: gl.constexpr, RING: gl.constexpr,
    CARRY: gl.constexpr,
):  # fmt: skip
    """One block of keys against this consumer's 64 queries: dQ so far → dQ.

    Where CARRY, the product that adds to dQ is still running when this returns.
    """
    buffers, barriers, _, _, sizes = work
    _, _, k_smem, v_smem, _ = buffers
    _, _, k_full, k_empty, v_full, v_empty = barriers
    dtype: gl.constexpr = k_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    zeros = gl.zeros([64, BN], gl.float32, s_layout)
    k = k_smem.index(i % RING)  # (BN, D)
    v = v_smem.index(i % RING)  # (BN, D)
    wait_full(k_full, i, RING)
    scores = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
    wait_full(v_full, i, RING)
    dps = warpgroup_mma(do, v.permute((1, 0)), zeros, use_acc=False, is_async=True)
    if CARRY and not FIRST:
        dq, s = warpgroup_mma_wait(1, deps=(dq, scores))
        release(k_empty, i - 1, RING)
    else:
        s = warpgroup_mma_wait(1, deps=(scores,))  # (64, BN)
    p = gl.exp2(s * (LOG2_E * D**-0.5) - lse[:, None])  # (64, BN)
    if MASKED:
        cols = first_key + gl.arange(0, BN, layout=gl.SliceLayout(0, s_layout))
        if not CAUSAL:
            rows = rows * 0 + (sizes[0] - 1)
        p = gl.where(rows[:, None] >= cols[None, :], p, 0.0)
    dp = warpgroup_mma_wait(0, deps=(dps,))  # (64, BN)
    release(v_empty, i, RING)
    ds16 = (p * (dp - delta[:, None])).to(dtype)  # (64, BN)
    a = gl.convert_layout(ds16, gl.DotOperandLayout(0, dq_layout, 2))
    dq = warpgroup_mma(a, k, dq, is_async=True)
    if not CARRY:
        dq = warpgroup_mma_wait(0, deps=(dq,))
        release(k_empty, i, RING)
    return dq


@gluon.jit
def _keep_queries(
    c: gl.constexpr, work, D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr, RING: gl.constexpr,
    CAUSAL: gl.constexpr, RAGGED: gl.constexpr, CARRY: gl.constexpr, QUEUED: gl.constexpr,
):  # fmt: skip
    """Consumer c of `queries_kernel`: rows 64 c to 64 c + 63 of each tile."""
    buffers, barriers, queue, outputs, sizes = work
    out_ptr, lse_ptr, delta_ptr, lse_stride, dqkv = outputs
    N, H, tiles, heads_together = sizes
    q_smem, do_smem, _k_smem, _v_smem, o_smem = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    BM: gl.constexpr = 64 * C
    SEPARATE: gl.constexpr = D < 256  # whether dQ has a buffer of its own or takes Q's
    dtype: gl.constexpr = q_smem.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    row_layout: gl.constexpr = gl.SliceLayout(1, s_layout)
    # Eight values, 16 bytes, in a thread.
    wide_layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [4, 1], [1, 0])
    q = q_smem.index(c)  # (64, D)
    do = do_smem.index(c)  # (64, D)
    o = o_smem.index(c)  # (64, D)
    i = 0
    r = 0
    tile = receive_tile(r, queue, QUEUED)
    while tile < tiles:
        bh, block = tile_place(tile, gl.cdiv(N, BM), heads_together, CAUSAL)
        first_row = query_block(block, N, BM, CAUSAL) * BM
        row = first_row + 64 * c
        rows = row + gl.arange(0, 64, layout=row_layout)
        at = bh.to(gl.int64) * lse_stride + rows
        lse = gl.load(lse_ptr + at, mask=rows < N, other=0.0)  # (64,)
        wide_rows = row + gl.arange(0, 64, layout=gl.SliceLayout(1, wide_layout))
        wide_cols = gl.arange(0, D, layout=gl.SliceLayout(0, wide_layout))
        token = (bh // H).to(gl.int64) * N + wide_rows
        out = gl.load(
            out_ptr + (token * H + bh % H)[:, None] * D + wide_cols[None, :],
            mask=(wide_rows < N)[:, None],
            other=0.0,
        )  # (64, D)
        mbarrier.wait(q_full.index(c), r & 1)
        wide_delta = gl.sum(out.to(gl.float32) * do.load(wide_layout).to(gl.float32), axis=1)
        delta = gl.convert_layout(wide_delta, row_layout)  # (64,)
        gl.store(delta_ptr + at, delta, mask=rows < N)

        loaded = key_blocks(first_row + BM, N, BN, CAUSAL)
        n = key_blocks(row + 64, N, BN, CAUSAL)
        for _ in range(loaded - n):  # blocks that only the consumers of later rows see
            wait_full(k_full, i, RING)
            release(k_empty, i, RING)
            wait_full(v_full, i, RING)
            release(v_empty, i, RING)
            i += 1
        dq = gl.zeros([64, D], gl.float32, dq_layout)
        dq = _go_through_keys(
            i, q, do, dq, lse, delta, rows, (n - 1) * BN, work, True, CAUSAL or RAGGED, CAUSAL,
            D, BN, RING, CARRY,
        )  # fmt: skip
        i += 1
        masked = 1
        if CAUSAL and BN < 64:  # the diagonal goes through more blocks than the last
            masked = gl.minimum(n, 64 // BN)
            for j in range(1, masked):
                dq = _go_through_keys(
                    i, q, do, dq, lse, delta, rows, (n - 1 - j) * BN, work, False, True, CAUSAL,
                    D, BN, RING, CARRY,
                )  # fmt: skip
                i += 1
        for _ in range(masked, n):
            dq = _go_through_keys(
                i, q, do, dq, lse, delta, rows, 0, work, False, False, CAUSAL, D, BN, RING, CARRY
            )
            i += 1
        if CARRY:
            dq = warpgroup_mma_wait(0, deps=(dq,))
            release(k_empty, i - 1, RING)
        if SEPARATE:
            mbarrier.arrive(q_empty.index(c), count=1)
        dq = dq * D**-0.5
        tma.store_wait(0)
        o.store(dq.to(dtype))
        store_rows(dqkv, bh // H, row, (bh % H) * D, o)
        if not SEPARATE:
            tma.store_wait(0)
            mbarrier.arrive(q_empty.index(c), count=1)
        r += 1
        tile = receive_tile(r, queue, QUEUED)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["lse_stride", "N", "H", "tiles", "heads_together"])
def queries_kernel(
    qkv_rows, qkv_keys, grad, dqkv, out_ptr, lse_ptr, delta_ptr, counter, lse_stride, N, H, tiles,
    heads_together, D: gl.constexpr, BN: gl.constexpr, C: gl.constexpr,
    RING: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr, CARRY: gl.constexpr,
    QUEUED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Δ and dQ.

    Args:
        qkv_rows, qkv_keys: (B, N, 3 H D) in boxes of 64 and of BN rows.
        grad, dqkv: dO (B, N, H D) and dQ within (B, N, 3 H D), in boxes of 64 rows.
        out_ptr: O, (B, N, H, D).
        lse_ptr, delta_ptr: (B H, N) float32, rows `lse_stride` apart; lse of base 2.
        counter: one int32, 0 at launch, where QUEUED.
        tiles: B H ⌈N / 64 C⌉.
    """
    dtype: gl.constexpr = qkv_rows.dtype
    layout: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 2 * D), element_bitwidth=16, rank=2
    )
    q_smem = gl.allocate_shared_memory(dtype, [C, 64, D], layout)
    do_smem = gl.allocate_shared_memory(dtype, [C, 64, D], layout)
    o_smem = q_smem
    if D < 256:
        o_smem = gl.allocate_shared_memory(dtype, [C, 64, D], layout)
    k_smem = gl.allocate_shared_memory(dtype, [RING, BN, D], layout)
    v_smem = gl.allocate_shared_memory(dtype, [RING, BN, D], layout)
    buffers = (q_smem, do_smem, k_smem, v_smem, o_smem)
    barriers = (
        allocate_barriers(C, 1), allocate_barriers(C, 1),
        allocate_barriers(RING, 1), allocate_barriers(RING, C),
        allocate_barriers(RING, 1), allocate_barriers(RING, C),
    )  # fmt: skip
    queue = allocate_queue(QUEUED, C)
    fence_async_shared()
    sizes = (N, H, tiles, heads_together)
    outputs = (out_ptr, lse_ptr, delta_ptr, lse_stride, dqkv)
    work = (buffers, barriers, queue, outputs, sizes)
    loads = (qkv_rows, qkv_keys, grad, buffers, barriers, queue, counter, sizes)
    gl.static_assert(C == 2)
    gl.warp_specialize(
        [
            (_keep_queries, (0, work, D, BN, C, RING, CAUSAL, RAGGED, CARRY, QUEUED)),
            (_keep_queries, (1, work, D, BN, C, RING, CAUSAL, RAGGED, CARRY, QUEUED)),
            (_load_keys, (loads, D, BN, C, RING, CAUSAL, QUEUED)),
        ],
        [4, 1],
        [REGISTERS[0], REGISTERS[1]],
    )


# --- Before and after, where dQ is reduced --------------------------------------------------------


@triton.jit(do_not_specialize=["lse_stride", "N", "H"])
def prepare_kernel(
    out_ptr, grad_ptr, delta_ptr, dq_ptr, lse_stride, N, H, D: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Δ = rowsum(O ∘ dO), and zeros in the buffer of dQ. Grid: B H ⌈N / ROWS⌉."""
    bh = tl.program_id(0) // tl.cdiv(N, ROWS)
    rows = tl.program_id(0) % tl.cdiv(N, ROWS) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, D)
    there = (rows < N)[:, None]
    token = (bh // H).to(tl.int64) * N + rows
    at = (token * H + bh % H)[:, None] * D + cols[None, :]
    out = tl.load(out_ptr + at, mask=there, other=0.0).to(tl.float32)  # (ROWS, D)
    grad = tl.load(grad_ptr + at, mask=there, other=0.0).to(tl.float32)  # (ROWS, D)
    tl.store(delta_ptr + bh.to(tl.int64) * lse_stride + rows, tl.sum(out * grad, 1), mask=rows < N)
    dq = dq_ptr + (bh.to(tl.int64) * N + rows)[:, None] * D + cols[None, :]
    tl.store(dq, tl.zeros([ROWS, D], tl.float32), mask=there)


@triton.jit(do_not_specialize=["N", "H"])
def finish_kernel(dq_ptr, dqkv_ptr, N, H, D: tl.constexpr, ROWS: tl.constexpr):
    """dQ from its float32 buffer (B H, N, D) into dqkv (B, N, 3, H, D). Grid: B H ⌈N / ROWS⌉."""
    bh = tl.program_id(0) // tl.cdiv(N, ROWS)
    rows = tl.program_id(0) % tl.cdiv(N, ROWS) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, D)
    there = (rows < N)[:, None]
    at = (bh.to(tl.int64) * N + rows)[:, None] * D + cols[None, :]
    dq = tl.load(dq_ptr + at, mask=there, other=0.0) * D**-0.5  # (ROWS, D)
    token = (bh // H).to(tl.int64) * N + rows
    to = (token * 3 * H + bh % H)[:, None] * D + cols[None, :]
    tl.store(dqkv_ptr + to, dq.to(dqkv_ptr.dtype.element_ty), mask=there)
