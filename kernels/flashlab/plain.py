"""Both passes in plain Triton, for GPUs and Triton versions on which the Hopper kernels do not run.

The mathematics is that of `hopper_forward` and of the split way of `hopper_backward`, with one tile
for each program and no barriers to write: Triton loads ahead by itself. Nothing is added by two
programs, so the same bits come at each call.
"""

import math

import torch
import triton
import triton.language as tl
from kernels.flashlab.choices import plain_tiles

LOG2_E = tl.constexpr(math.log2(math.e))
LOWEST = tl.constexpr(-1e30)  # where every score so far is −∞: finite, so that later rows are right


@triton.jit
def _place(blocks):
    """This program's head of the batch b * H + h, and block of rows."""
    return tl.program_id(0) // blocks, tl.program_id(0) % blocks


@triton.jit
def _rows_of(base, rows, N, stride, D: tl.constexpr):
    """Rows of D values from `base`, `stride` values apart; what lies past N is 0."""
    at = base + rows.to(tl.int64)[:, None] * stride + tl.arange(0, D)[None, :]
    return tl.load(at, mask=(rows < N)[:, None], other=0.0)  # (rows, D)


@triton.jit
def _store_rows(base, rows, N, stride, x, D: tl.constexpr):
    at = base + rows.to(tl.int64)[:, None] * stride + tl.arange(0, D)[None, :]
    tl.store(at, x.to(base.dtype.element_ty), mask=(rows < N)[:, None])


@triton.jit
def _heads_rows(ptr, b, h, N, H, WIDTH: tl.constexpr, D: tl.constexpr):
    """Where row 0 of a head lies in (B, N, WIDTH H D)."""
    return ptr + b.to(tl.int64) * N * (WIDTH * H * D) + h * D


@triton.jit
def forward_kernel(
    qkv_ptr, out_ptr, lse_ptr, lse_stride, N, H, D: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """O (B, N, H, D) and lse (B H, N) of base 2. Grid: B H ⌈N / BM⌉."""
    bh, block = _place(tl.cdiv(N, BM))
    b = bh // H
    h = bh % H
    block = tl.cdiv(N, BM) - 1 - block  # with a mask, the longest first
    rows = block * BM + tl.arange(0, BM)
    q_base = _heads_rows(qkv_ptr, b, h, N, H, 3, D)
    q = _rows_of(q_base, rows, N, 3 * H * D, D)  # (BM, D)
    m = tl.full([BM], LOWEST, tl.float32)
    sums = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = tl.minimum((block + 1) * BM, N) if CAUSAL else N
    for first_key in range(0, end, BN):
        cols = first_key + tl.arange(0, BN)
        k = _rows_of(q_base + H * D, cols, N, 3 * H * D, D)  # (BN, D)
        v = _rows_of(q_base + 2 * H * D, cols, N, 3 * H * D, D)  # (BN, D)
        s = tl.dot(q, k.T, input_precision="ieee") * (LOG2_E * D**-0.5)  # (BM, BN)
        seen = (cols < N)[None, :]
        if CAUSAL:
            seen = seen & (rows[:, None] >= cols[None, :])
        s = tl.where(seen, s, float("-inf"))
        m_before = m
        m = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp2(m_before - m)
        p = tl.exp2(s - m[:, None])  # (BM, BN)
        sums = sums * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")  # (BM, D)
    tl.store(lse_ptr + bh.to(tl.int64) * lse_stride + rows, m + tl.log2(sums), mask=rows < N)
    _store_rows(_heads_rows(out_ptr, b, h, N, H, 1, D), rows, N, H * D, acc / sums[:, None], D)


@triton.jit
def queries_kernel(
    qkv_ptr, out_ptr, grad_ptr, lse_ptr, delta_ptr, dqkv_ptr, lse_stride, N, H, D: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Δ = rowsum(O ∘ dO) and dQ. Grid: B H ⌈N / BM⌉."""
    bh, block = _place(tl.cdiv(N, BM))
    b = bh // H
    h = bh % H
    block = tl.cdiv(N, BM) - 1 - block
    rows = block * BM + tl.arange(0, BM)
    q_base = _heads_rows(qkv_ptr, b, h, N, H, 3, D)
    q = _rows_of(q_base, rows, N, 3 * H * D, D)  # (BM, D)
    out = _rows_of(_heads_rows(out_ptr, b, h, N, H, 1, D), rows, N, H * D, D)  # (BM, D)
    do = _rows_of(_heads_rows(grad_ptr, b, h, N, H, 1, D), rows, N, H * D, D)  # (BM, D)
    at = bh.to(tl.int64) * lse_stride + rows
    lse = tl.load(lse_ptr + at, mask=rows < N, other=0.0)  # (BM,)
    delta = tl.sum(out.to(tl.float32) * do.to(tl.float32), 1)  # (BM,)
    tl.store(delta_ptr + at, delta, mask=rows < N)
    dq = tl.zeros([BM, D], tl.float32)
    end = tl.minimum((block + 1) * BM, N) if CAUSAL else N
    for first_key in range(0, end, BN):
        cols = first_key + tl.arange(0, BN)
        k = _rows_of(q_base + H * D, cols, N, 3 * H * D, D)  # (BN, D)
        v = _rows_of(q_base + 2 * H * D, cols, N, 3 * H * D, D)  # (BN, D)
        s = tl.dot(q, k.T, input_precision="ieee")  # (BM, BN)
        p = tl.exp2(s * (LOG2_E * D**-0.5) - lse[:, None])
        seen = (cols < N)[None, :]
        if CAUSAL:
            seen = seen & (rows[:, None] >= cols[None, :])
        p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])  # (BM, BN)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")  # (BM, D)
    dq_base = _heads_rows(dqkv_ptr, b, h, N, H, 3, D)
    _store_rows(dq_base, rows, N, 3 * H * D, dq * D**-0.5, D)


@triton.jit
def keys_kernel(
    qkv_ptr, grad_ptr, lse_ptr, delta_ptr, dqkv_ptr, lse_stride, N, H, D: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dK and dV. Grid: B H ⌈N / BN⌉."""
    bh, block = _place(tl.cdiv(N, BN))
    b = bh // H
    h = bh % H
    keys = block * BN + tl.arange(0, BN)
    q_base = _heads_rows(qkv_ptr, b, h, N, H, 3, D)
    grad_base = _heads_rows(grad_ptr, b, h, N, H, 1, D)
    k = _rows_of(q_base + H * D, keys, N, 3 * H * D, D)  # (BN, D)
    v = _rows_of(q_base + 2 * H * D, keys, N, 3 * H * D, D)  # (BN, D)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    start = block * BN // BM * BM if CAUSAL else 0
    for first_row in range(start, N, BM):
        rows = first_row + tl.arange(0, BM)
        q = _rows_of(q_base, rows, N, 3 * H * D, D)  # (BM, D)
        do = _rows_of(grad_base, rows, N, H * D, D)  # (BM, D)
        at = bh.to(tl.int64) * lse_stride + rows
        lse = tl.load(lse_ptr + at, mask=rows < N, other=0.0)  # (BM,)
        delta = tl.load(delta_ptr + at, mask=rows < N, other=0.0)  # (BM,)
        s = tl.dot(k, q.T, input_precision="ieee")  # (BN, BM)
        p = tl.exp2(s * (LOG2_E * D**-0.5) - lse[None, :])
        seen = (rows < N)[None, :] & (keys < N)[:, None]
        if CAUSAL:
            seen = seen & (rows[None, :] >= keys[:, None])
        p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")  # (BN, D)
        ds = p * (tl.dot(v, do.T, input_precision="ieee") - delta[None, :])  # (BN, BM)
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")  # (BN, D)
    dq_base = _heads_rows(dqkv_ptr, b, h, N, H, 3, D)
    _store_rows(dq_base + H * D, keys, N, 3 * H * D, dk * D**-0.5, D)
    _store_rows(dq_base + 2 * H * D, keys, N, 3 * H * D, dv, D)


def _shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program can have; 0 in Triton's interpreter."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


def forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> None:
    """Fill out (B, N, H, D) and lse (B H, N) from qkv (B, N, 3, H, D)."""
    B, N, _, H, D = qkv.shape
    tiles = plain_tiles(D, qkv.dtype, _shared_memory(qkv.device))
    forward_kernel[(triton.cdiv(N, tiles.forward.rows) * B * H,)](
        qkv, out, lse, lse.stride(0), N, H, D=D, BM=tiles.forward.rows, BN=tiles.forward.cols,
        CAUSAL=causal, num_warps=tiles.forward.warps, num_stages=tiles.forward.stages,
    )  # fmt: skip


def backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    dqkv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dqkv (B, N, 3, H, D) from dO and O (B, N, H, D) and lse (B H, N)."""
    B, N, _, H, D = qkv.shape
    tiles = plain_tiles(D, qkv.dtype, _shared_memory(qkv.device))
    delta = torch.empty_strided(lse.shape, lse.stride(), dtype=lse.dtype, device=lse.device)
    queries_kernel[(triton.cdiv(N, tiles.queries.rows) * B * H,)](
        qkv, out, grad, lse, delta, dqkv, lse.stride(0), N, H, D=D, BM=tiles.queries.rows,
        BN=tiles.queries.cols, CAUSAL=causal, num_warps=tiles.queries.warps,
        num_stages=tiles.queries.stages,
    )  # fmt: skip
    keys_kernel[(triton.cdiv(N, tiles.keys.cols) * B * H,)](
        qkv, grad, lse, delta, dqkv, lse.stride(0), N, H, D=D, BM=tiles.keys.rows,
        BN=tiles.keys.cols, CAUSAL=causal, num_warps=tiles.keys.warps,
        num_stages=tiles.keys.stages,
    )  # fmt: skip
