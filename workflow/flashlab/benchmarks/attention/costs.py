"""The costs of a run: operations, compulsory bytes, and the exact memory of two implementations.

B batch_size, N seq_len, H num_heads, E emb_dim, d = E / H, H_kv num_kv_heads throughout; memory in
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashlab.benchmarks.attention.shape import Shape

MIB = 1024**2
BACKWARD_FLOPS_RATIO = 2.5
"""Backward over forward: five matrix products of the same size against two (FlashAttention-2)."""

GENERATOR_STATE = 512
"""Bytes that flash-attn allocates for the random generator's state, dropout or not."""

HEAD_DIMS = range(8, 257, 8)
"""Head sizes that flash-attn does not pad in its inputs."""

ALLOCATION = 512
"""Bytes to a multiple of which PyTorch's CUDA allocator rounds a tensor."""

SEGMENT = 2 * MIB
"""Bytes to a multiple of which it rounds its allocations from CUDA."""


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


def elements(shape: Shape) -> tuple[int, int]:
    """The number of elements of q, as of the output, B·N·E, and of k, as of v, B·N·H_kv·d."""
    rows = shape.batch_size * shape.seq_len
    return rows * shape.emb_dim, rows * shape.kv_heads * shape.head_dim


def compulsory_tensors(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Bytes of each tensor that any implementation of a pass must read or write, once, in float16.

    Forward: q, k and v are read together, the output O is written. Backward: q, k and v and the
    output's gradient dO are read, the gradients of q, k and v are written. Backward needs neither
    O nor the softmax's statistics: FlashAttention-2 reads O to get D = rowsum(dO ∘ O), but D is
    also rowsum(P ∘ dP), which follows from q, k, v and dO; the naive implementation never uses O
    again.
    """
    out, kv = (2 * count for count in elements(shape))
    inputs = out + 2 * kv
    return {"forward": (inputs, out), "backward": (inputs, out, inputs)}


# Peak memory in float16 on CUDA
#
# Each formula adds up the tensors that are alive at the peak. It holds to the byte where PyTorch's
# allocator hands out blocks of just those sizes: it rounds to 512 bytes, cuts what is above 1 MiB
# out of segments of a multiple of 2 MiB, and does not split off a remainder of 1 MiB or less.


def has_memory_model(shape: Shape) -> bool:
    """True if the two formulas add up the right tensors: N ≥ 2d, d a multiple of 8 up to 256.

    Below 2d another moment is the peak, and flash-attn pads other head sizes. The sum can still be
    short of what the allocator holds: see `flash2_memory_is_exact` and `naive_memory_is_exact`.
    """
    return shape.head_dim in HEAD_DIMS and shape.seq_len >= 2 * shape.head_dim


def _are_allocated_exactly(sizes: Iterable[int]) -> bool:
    return all(size % ALLOCATION == 0 and (size <= MIB or size % SEGMENT == 0) for size in sizes)


def _tensors(shape: Shape) -> tuple[int, ...]:
    """Bytes of the inputs and the output as they are allocated; packed where they can be."""
    out, kv = (2 * count for count in elements(shape))
    return (3 * out, out) if shape.group == 1 else (out, kv)


def _flash2_statistics(shape: Shape) -> tuple[int, int, int]:
    """Bytes of flash-attn's log-sum-exp, dQ accumulator and softmax_d, all in float32.

    Rows of the last two are padded to 128, d to 32 and above 128 to 64.
    """
    groups = shape.batch_size * shape.num_heads
    rows, multiple = -(-shape.seq_len // 128) * 128, 32 if shape.head_dim <= 128 else 64
    columns = -(-shape.head_dim // multiple) * multiple
    return 4 * groups * shape.seq_len, 4 * groups * rows * columns, 4 * groups * rows


def flash2_memory_parts(shape: Shape) -> dict[str, int]:
    """Bytes of the tensors alive at flash-attn 2's peak in float16 on CUDA.

    They add up to the peak, to the byte where `flash2_memory_is_exact`. Equal to results of an
    RTX 3070 and an H200. Where heads of q share those of k and v, the gradients of k and v are
    computed for every head of q, and then summed up.
    """
    qkv, out = compulsory_tensors(shape)["forward"]
    unsummed = 0 if shape.group == 1 else 2 * out
    log_sum_exp, accumulator, softmax_d = _flash2_statistics(shape)
    return {
        "inputs": 2 * qkv + unsummed,
        "output": 2 * out,
        "accumulator": accumulator,
        "statistics": log_sum_exp + softmax_d,
        "generator": GENERATOR_STATE,
    }


def flash2_peak_memory(shape: Shape) -> int:
    """Peak bytes of flash-attn 2 in float16 on CUDA, exact where `flash2_memory_is_exact`."""
    return sum(flash2_memory_parts(shape).values())


def flash2_memory_is_exact(shape: Shape) -> bool:
    """True if `flash2_peak_memory` is right to the byte."""
    sizes = (*_tensors(shape), *_flash2_statistics(shape))
    return has_memory_model(shape) and _are_allocated_exactly(sizes)


def naive_scores(shape: Shape) -> int:
    """Bytes of one N × N tensor of all heads in float16."""
    return 2 * shape.batch_size * shape.num_heads * shape.seq_len**2


def naive_memory_parts(shape: Shape, workspaces: int) -> dict[str, int]:
    """Bytes of the tensors alive at the naive implementation's peak in float16 on CUDA.

    Four N × N score tensors, q, k and v, their copies if there are any, the output three times, and
    `workspaces`, the bytes of PyTorch's two cuBLAS workspaces (`devices`). They add up to the peak,
    to the byte where `naive_memory_is_exact`. Equal to results of an RTX 3070 and an H200. Where
    heads of q share those of k and v, these are repeated for every head of q.
    """
    qkv, out = compulsory_tensors(shape)["forward"]
    repeated = 0 if shape.group == 1 else 2 * out
    is_copied = shape.batch_size > 1 and shape.num_heads > 1  # else a reshape is a view
    return {
        "scores": 4 * naive_scores(shape),
        "inputs": qkv + (3 * out if is_copied else repeated),
        "output": 3 * out,
        "workspaces": workspaces,
    }


def naive_peak_memory(shape: Shape, workspaces: int) -> int:
    """Peak bytes of the naive implementation in float16 on CUDA, where `naive_memory_is_exact`."""
    return sum(naive_memory_parts(shape, workspaces).values())


def naive_memory_is_exact(shape: Shape) -> bool:
    """True if `naive_peak_memory` is right to the byte.

    A single head with a causal mask is left out: its mask, in float32, is as large as two score
    tensors, so that a long sequence has its peak in the forward pass.
    """
    sizes = (*_tensors(shape), naive_scores(shape))
    masked_head = shape.causal and shape.batch_size * shape.num_heads == 1
    return has_memory_model(shape) and not masked_head and _are_allocated_exactly(sizes)
