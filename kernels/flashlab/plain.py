"""Both passes in plain Triton, for GPUs and machines on which the Hopper kernels do not run.

One tile for each program and no barriers to write: Triton loads ahead by itself. dQ, and dK with
dV, have a kernel each; nothing is added by two programs, so the same bits come at each call. A
head_dim that is no power of two is filled up with zeros.
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
    """This program's head of the batch b * heads + h, and block of rows."""
    return tl.program_id(0) // blocks, tl.program_id(0) % blocks


@triton.jit
def _head(ptr, bh, heads, strides):
    """The address of row 0 of a head in (B, N, heads, D)."""
    return ptr + (bh // heads).to(tl.int64) * strides[0] + (bh % heads) * strides[2]


@triton.jit
def _load_rows(base, rows, N, stride, D: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of D values from `base`, `stride` values apart, in WIDTH columns; zeros elsewhere."""
    cols = tl.arange(0, WIDTH)
    at = base + rows.to(tl.int64)[:, None] * stride + cols[None, :]
    return tl.load(at, mask=(rows < N)[:, None] & (cols < D)[None, :], other=0.0)  # (rows, WIDTH)


@triton.jit
def _store_rows(base, rows, N, stride, x, D: tl.constexpr, WIDTH: tl.constexpr):
    cols = tl.arange(0, WIDTH)
    at = base + rows.to(tl.int64)[:, None] * stride + cols[None, :]
    tl.store(at, x.to(base.dtype.element_ty), mask=(rows < N)[:, None] & (cols < D)[None, :])


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, out_strides, lse_stride,
    N, H, G, D: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """O (B, N, H, D) and lse (B H, N) of base 2. Grid: B H ⌈N / BM⌉."""
    bh, block = _place(tl.cdiv(N, BM))
    block = tl.cdiv(N, BM) - 1 - block  # with a mask, the longest first
    rows = block * BM + tl.arange(0, BM)
    k_base = _head(k_ptr, bh // G, H // G, k_strides)
    v_base = _head(v_ptr, bh // G, H // G, v_strides)
    q = _load_rows(_head(q_ptr, bh, H, q_strides), rows, N, q_strides[1], D, WIDTH)  # (BM, WIDTH)
    m = tl.full([BM], LOWEST, tl.float32)
    sums = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, WIDTH], tl.float32)
    end = tl.minimum((block + 1) * BM, N) if CAUSAL else N
    for first_key in range(0, end, BN):
        cols = first_key + tl.arange(0, BN)
        k = _load_rows(k_base, cols, N, k_strides[1], D, WIDTH)  # (BN, WIDTH)
        v = _load_rows(v_base, cols, N, v_strides[1], D, WIDTH)  # (BN, WIDTH)
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
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")  # (BM, WIDTH)
    tl.store(lse_ptr + bh.to(tl.int64) * lse_stride + rows, m + tl.log2(sums), mask=rows < N)
    out_base = _head(out_ptr, bh, H, out_strides)
    _store_rows(out_base, rows, N, out_strides[1], acc / sums[:, None], D, WIDTH)


@triton.jit
def queries_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, q_strides, k_strides,
    v_strides, out_strides, dq_strides, lse_stride, N, H, G, D: tl.constexpr, WIDTH: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Δ = rowsum(O ∘ dO) and dQ. Grid: B H ⌈N / BM⌉."""
    bh, block = _place(tl.cdiv(N, BM))
    block = tl.cdiv(N, BM) - 1 - block
    rows = block * BM + tl.arange(0, BM)
    k_base = _head(k_ptr, bh // G, H // G, k_strides)
    v_base = _head(v_ptr, bh // G, H // G, v_strides)
    q = _load_rows(_head(q_ptr, bh, H, q_strides), rows, N, q_strides[1], D, WIDTH)  # (BM, WIDTH)
    out = _load_rows(_head(out_ptr, bh, H, out_strides), rows, N, out_strides[1], D, WIDTH)
    do = _load_rows(_head(grad_ptr, bh, H, out_strides), rows, N, out_strides[1], D, WIDTH)
    at = bh.to(tl.int64) * lse_stride + rows
    lse = tl.load(lse_ptr + at, mask=rows < N, other=0.0)  # (BM,)
    delta = tl.sum(out.to(tl.float32) * do.to(tl.float32), 1)  # (BM,)
    tl.store(delta_ptr + at, delta, mask=rows < N)
    dq = tl.zeros([BM, WIDTH], tl.float32)
    end = tl.minimum((block + 1) * BM, N) if CAUSAL else N
    for first_key in range(0, end, BN):
        cols = first_key + tl.arange(0, BN)
        k = _load_rows(k_base, cols, N, k_strides[1], D, WIDTH)  # (BN, WIDTH)
        v = _load_rows(v_base, cols, N, v_strides[1], D, WIDTH)  # (BN, WIDTH)
        s = tl.dot(q, k.T, input_precision="ieee")  # (BM, BN)
        p = tl.exp2(s * (LOG2_E * D**-0.5) - lse[:, None])
        seen = (cols < N)[None, :]
        if CAUSAL:
            seen = seen & (rows[:, None] >= cols[None, :])
        p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])  # (BM, BN)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")  # (BM, WIDTH)
    _store_rows(_head(dq_ptr, bh, H, dq_strides), rows, N, dq_strides[1], dq * D**-0.5, D, WIDTH)


@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, q_strides, k_strides,
    v_strides, out_strides, dk_strides, dv_strides, lse_stride, N, H, G, D: tl.constexpr,
    WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dK and dV. Grid: B H / G ⌈N / BN⌉."""
    bh, block = _place(tl.cdiv(N, BN))  # of keys and values
    keys = block * BN + tl.arange(0, BN)
    k = _load_rows(_head(k_ptr, bh, H // G, k_strides), keys, N, k_strides[1], D, WIDTH)
    v = _load_rows(_head(v_ptr, bh, H // G, v_strides), keys, N, v_strides[1], D, WIDTH)
    dk = tl.zeros([BN, WIDTH], tl.float32)
    dv = tl.zeros([BN, WIDTH], tl.float32)
    start = block * BN // BM * BM if CAUSAL else 0
    for g in range(G):
        head = bh * G + g
        q_base = _head(q_ptr, head, H, q_strides)
        grad_base = _head(grad_ptr, head, H, out_strides)
        for first_row in range(start, N, BM):
            rows = first_row + tl.arange(0, BM)
            q = _load_rows(q_base, rows, N, q_strides[1], D, WIDTH)  # (BM, WIDTH)
            do = _load_rows(grad_base, rows, N, out_strides[1], D, WIDTH)  # (BM, WIDTH)
            at = head.to(tl.int64) * lse_stride + rows
            lse = tl.load(lse_ptr + at, mask=rows < N, other=0.0)  # (BM,)
            delta = tl.load(delta_ptr + at, mask=rows < N, other=0.0)  # (BM,)
            s = tl.dot(k, q.T, input_precision="ieee")  # (BN, BM)
            p = tl.exp2(s * (LOG2_E * D**-0.5) - lse[None, :])
            seen = (rows < N)[None, :] & (keys < N)[:, None]
            if CAUSAL:
                seen = seen & (rows[None, :] >= keys[:, None])
            p = tl.where(seen, p, 0.0)
            dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")  # (BN, WIDTH)
            ds = p * (tl.dot(v, do.T, input_precision="ieee") - delta[None, :])  # (BN, BM)
            dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")  # (BN, WIDTH)
    dk_base = _head(dk_ptr, bh, H // G, dk_strides)
    dv_base = _head(dv_ptr, bh, H // G, dv_strides)
    _store_rows(dk_base, keys, N, dk_strides[1], dk * D**-0.5, D, WIDTH)
    _store_rows(dv_base, keys, N, dv_strides[1], dv, D, WIDTH)


def _width(head_dim: int) -> int:
    """Columns of a tile: a power of two."""
    return max(16, triton.next_power_of_2(head_dim))


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, out: torch.Tensor,
    lse: torch.Tensor,
) -> None:  # fmt: skip
    """Fill out (B, N, H, D) and the first N of each row of lse (B, H, …) from q, k and v."""
    B, N, H, D = q.shape
    tile = plain_tiles(D, q.dtype).forward
    forward_kernel[(triton.cdiv(N, tile.rows) * B * H,)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), out.stride(), lse.stride(1), N, H,
        H // k.shape[2], D=D, WIDTH=_width(D), BM=tile.rows, BN=tile.cols, CAUSAL=causal,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def packed_forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> None:
    """As `forward`, from (B, N, 3, H, D)."""
    q, k, v = qkv.unbind(2)
    forward(q, k, v, causal, out, lse)


def backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool, deterministic: bool, dq: torch.Tensor, dk: torch.Tensor,
    dv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dq, dk and dv from dO and O (B, N, H, D) and lse; always with the same bits."""
    B, N, H, D = q.shape
    kv_heads = k.shape[2]
    tiles = plain_tiles(D, q.dtype)
    delta = torch.empty_like(lse)
    queries_kernel[(triton.cdiv(N, tiles.queries.rows) * B * H,)](
        q, k, v, out, grad, lse, delta, dq, q.stride(), k.stride(), v.stride(), out.stride(),
        dq.stride(), lse.stride(1), N, H, H // kv_heads, D=D, WIDTH=_width(D),
        BM=tiles.queries.rows, BN=tiles.queries.cols, CAUSAL=causal,
        num_warps=tiles.queries.warps, num_stages=tiles.queries.stages,
    )  # fmt: skip
    keys_kernel[(triton.cdiv(N, tiles.keys.cols) * B * kv_heads,)](
        q, k, v, grad, lse, delta, dk, dv, q.stride(), k.stride(), v.stride(), out.stride(),
        dk.stride(), dv.stride(), lse.stride(1), N, H, H // kv_heads, D=D, WIDTH=_width(D),
        BM=tiles.keys.rows, BN=tiles.keys.cols, CAUSAL=causal,
        num_warps=tiles.keys.warps, num_stages=tiles.keys.stages,
    )  # fmt: skip


def packed_backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool, dqkv: torch.Tensor,
) -> None:  # fmt: skip
    """As `backward`: fill dqkv (B, N, 3, H, D)."""
    (q, k, v), (dq, dk, dv) = qkv.unbind(2), dqkv.unbind(2)
    backward(grad, q, k, v, out, lse, causal, deterministic, dq, dk, dv)
