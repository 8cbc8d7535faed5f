"""Launches the Hopper kernels: descriptors of the tensors, tiles, and the order of the passes."""

import torch
import triton
from kernels.flashlab import choices
from kernels.flashlab.hopper_backward import (
    finish_kernel,
    keys_kernel,
    prepare_kernel,
    queries_kernel,
)
from kernels.flashlab.hopper_forward import forward_kernel
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


def _rows(x: torch.Tensor, rows: int, head_dim: int) -> TensorDescriptor:
    """(B, N, …) as (B, N, columns) in boxes of some rows of one head.

    The batch is a dimension of its own, so that what lies past N is not the next sequence.
    """
    flat = x.view(*x.shape[:2], -1)
    layout = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 2 * head_dim), element_bitwidth=16, rank=3
    )
    shape, strides = list(flat.shape), list(flat.stride())
    return TensorDescriptor(flat, shape, strides, [1, rows, head_dim], layout)


def _row_values(x: torch.Tensor, values: int) -> TensorDescriptor:
    """(B H, N) float32 in boxes of some values of one head."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, values], layout)


def _float32_rows(x: torch.Tensor) -> TensorDescriptor:
    """(B H, N, D) float32 in boxes of 64 rows and at most 64 columns."""
    cols = min(x.shape[2], 64)
    layout = gl.NVMMASharedLayout(
        swizzle_byte_width=min(128, 4 * cols), element_bitwidth=32, rank=3
    )
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 64, cols], layout)


def _programs(tiles: int, device: torch.device, each: int = 1) -> tuple[int]:
    """So many programs for each multiprocessor, and no more than tiles."""
    return (min(tiles, each * torch.cuda.get_device_properties(device).multi_processor_count),)


def forward(qkv: torch.Tensor, causal: bool, out: torch.Tensor, lse: torch.Tensor) -> None:
    """Fill out (B, N, H, D) and lse (B H, N) from qkv (B, N, 3, H, D)."""
    B, N, _, H, D = qkv.shape
    tile = choices.hopper_forward(D, N, causal)
    tiles = triton.cdiv(N, 64 * tile.consumers) * B * H
    queued = choices.forward_queues(D, N, causal)
    counter = torch.zeros(1, dtype=torch.int32, device=qkv.device) if queued else lse
    forward_kernel[_programs(tiles, qkv.device, tile.programs)](
        _rows(qkv, 64, D), _rows(qkv, tile.keys, D), _rows(out, 64, D), lse, counter,
        lse.stride(0), N, H, tiles, choices.heads_together(N, B * H, D, tensors=2), D=D,
        BN=tile.keys, C=tile.consumers, RING=tile.ring, CAUSAL=causal, RAGGED=N % tile.keys != 0,
        QUEUED=queued, REGISTERS=tile.registers, num_warps=4, maxnreg=tile.max_registers,
    )  # fmt: skip


def has_backward(head_dim: int) -> bool:
    """Whether there is a Hopper backward for this head_dim."""
    return head_dim in choices.HOPPER_BACKWARD


def backward(
    grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
    deterministic: bool, dqkv: torch.Tensor,
) -> None:  # fmt: skip
    """Fill dqkv (B, N, 3, H, D) from dO and O (B, N, H, D) and lse (B H, N)."""
    B, N, _, H, D = qkv.shape
    tile = choices.hopper_backward(D, N, causal)
    queued = choices.backward_queues(N, causal)
    reduced = choices.reduces(D, N) and not deterministic
    delta = torch.empty_strided(lse.shape, lse.stride(), dtype=lse.dtype, device=lse.device)
    counters = torch.zeros(2, dtype=torch.int32, device=qkv.device) if queued else lse[0]
    dq: torch.Tensor | TensorDescriptor = lse
    if reduced:
        sums = torch.empty(B * H, N, D, dtype=torch.float32, device=qkv.device)
        dq = _float32_rows(sums)
        rows = (triton.cdiv(N, 64) * B * H,)
        prepare_kernel[rows](out, grad, delta, sums, lse.stride(0), N, H, D=D, ROWS=64)
    else:
        tiles = triton.cdiv(N, 128) * B * H
        queries_kernel[_programs(tiles, qkv.device)](
            _rows(qkv, 64, D), _rows(qkv, tile.keys, D), _rows(grad, 64, D), _rows(dqkv, 64, D),
            out, lse, delta, counters, lse.stride(0), N, H, tiles,
            choices.heads_together(N, B * H, D, tensors=2), D=D, BN=tile.keys, C=2,
            RING=tile.queries_ring, CAUSAL=causal, RAGGED=N % tile.keys != 0, CARRY=tile.carry,
            QUEUED=queued, REGISTERS=choices.TWO_CONSUMERS, num_warps=4, maxnreg=168,
        )  # fmt: skip
    tiles = triton.cdiv(N, 128) * B * H
    keys_kernel[_programs(tiles, qkv.device)](
        _rows(qkv, tile.queries, D), _rows(qkv, 128, D), _rows(grad, tile.queries, D),
        _row_values(lse, tile.queries), _row_values(delta, tile.queries), _rows(dqkv, 64, D), dq,
        counters[1:], N, H, tiles, choices.heads_together(N, B * H, D, tensors=4), D=D,
        BM=tile.queries, RING=tile.ring, CAUSAL=causal, RAGGED=N % 128 != 0, REDUCED=reduced,
        QUEUED=queued, REGISTERS=choices.TWO_CONSUMERS, num_warps=4, maxnreg=168,
    )  # fmt: skip
    if reduced:
        finish_kernel[rows](sums, dqkv, N, H, D=D, ROWS=64)
