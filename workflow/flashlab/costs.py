"""What a run costs at least: FLOPs, bytes, and the exact memory of two implementations.

B batch_size, N seq_len, H num_heads, E emb_dim, d = E / H throughout; memory in bytes.
"""

from __future__ import annotations

import re

from flashlab.benchmarks.attention.shape import Shape

MIB = 1024**2
BACKWARD_FLOPS_RATIO = 2.5
"""Backward over forward: five matrix products of the same size against two (FlashAttention-2)."""

ELEMENT_SIZE = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of an element of each dtype."""

GENERATOR_STATE = 512
"""Bytes that flash-attn allocates for the random generator's state, dropout or not."""


def forward_flops(shape: Shape) -> float:
    """4·B·N²·H·d: two products of 2·N²·d operations a head; half of that when causal."""
    s = shape
    flops = 4.0 * s.batch_size * s.seq_len**2 * s.num_heads * s.head_dim
    return flops / 2 if s.causal else flops


def flops(shape: Shape) -> dict[str, float]:
    """Operations of each pass by the course's definition: 1, 2.5 and 3.5 times the forward."""
    forward = forward_flops(shape)
    backward = BACKWARD_FLOPS_RATIO * forward
    return {"forward": forward, "backward": backward, "forward_backward": forward + backward}


def compulsory_bytes(shape: Shape, dtype: str) -> dict[str, int]:
    """Bytes that any implementation of a pass must move to or from memory, each of them once.

    Forward: q, k and v are read and the output is written, 4·B·N·E elements. Backward: q, k, v and
    the output's gradient are read, the gradients of q, k and v written, 7·B·N·E elements; the
    output and the softmax's statistics can be recomputed, so they do not count. What an
    implementation moves beyond that, such as the N × N scores of the naive one, is its own affair.
    """
    elements = shape.batch_size * shape.seq_len * shape.emb_dim * ELEMENT_SIZE[dtype]
    return {"forward": 4 * elements, "backward": 7 * elements}


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def flash2_peak_memory(shape: Shape) -> int:
    """Peak bytes of flash-attn 2 in float16 on CUDA, exact for N ≥ 2d.

    QKV and dQKV, O and dO, the log-sum-exp, the float32 dQ accumulator (rows padded to 128,
    d to 32, above 128 to 64), softmax_d, and the generator's state; checked to the byte against
    results of an RTX 3070 and an H200.
    """
    s = shape
    qkv = 6 * s.batch_size * s.seq_len * s.emb_dim
    out = 2 * s.batch_size * s.seq_len * s.emb_dim
    log_sum_exp = 4 * s.batch_size * s.num_heads * s.seq_len
    rows = _rounded_up(s.seq_len, 128)
    columns = _rounded_up(s.head_dim, 32 if s.head_dim <= 128 else 64)
    dq_accumulator = 4 * s.batch_size * rows * s.num_heads * columns
    softmax_d = 4 * s.batch_size * s.num_heads * rows
    return 2 * qkv + 2 * out + log_sum_exp + dq_accumulator + softmax_d + GENERATOR_STATE


WORKSPACE_BEFORE_HOPPER = 2 * (8 * 1024 + 128) * 1024
WORKSPACE_HOPPER = 64 * MIB
"""Bytes of the two cuBLAS workspaces that PyTorch holds: 16.25 MiB, and 64 MiB on Hopper."""


def naive_peak_memory(shape: Shape, workspace: int) -> int:
    """Peak bytes of the naive implementation in float16 on CUDA, exact for N ≥ 2d and B ≥ 2.

    With B = 1 the heads need no copies, and the peak is lower by the size of q, k and v.

    Four N × N score tensors, qkv twice, the output three times, and `workspace`: the bytes of the
    two cuBLAS workspaces (16.25 MiB on Ampere consumer cards, 64 MiB on Hopper).
    """
    s = shape
    scores = 2 * s.batch_size * s.num_heads * s.seq_len**2
    qkv = 6 * s.batch_size * s.seq_len * s.emb_dim
    out = 2 * s.batch_size * s.seq_len * s.emb_dim
    return 4 * scores + 2 * qkv + 3 * out + workspace


def cublas_workspaces(device_name: str) -> int | None:
    """Bytes of the two cuBLAS workspaces on a device; None where they were not established.

    16.25 MiB on Ampere's consumer cards (seen on an RTX 3070), 64 MiB on Hopper (on an H200).
    """
    if re.search(r"\bRTX 30\d\d\b", device_name):
        return WORKSPACE_BEFORE_HOPPER
    if re.search(r"\bG?H(100|200|800|20)\b", device_name):
        return WORKSPACE_HOPPER
    return None
