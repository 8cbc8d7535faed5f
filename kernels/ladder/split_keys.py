"""Step 11: a split over keys, where batches and rows are too few for the GPU.

B batch_size, N seq_len, d head_dim. A block has 128 rows, so there are B · N / 128 blocks. Where
these are fewer than the multiprocessors, some have nothing to do. Then several blocks share the
rows, each with a part of the keys. Each stores its sums, not yet divided, with its maximum, and a
second, small kernel puts the parts together: FlashAttention's correction once more.
"""

import math

from . import tensor_fp16
from .lib.tensor_cores import (
    LOG2_E,
    constexpr,
    empty,
    jit,
    multiprocessors,
    on_stream,
    provider,
    tensors,
    tl,
)
from .streams import attention_on_host as overlapped
from .streams import host_array
from .tensor_fp16 import rounded

NAME = "SplitKeys"
LABEL = {"zh_TW": "分割 key", "en": "Split over keys"}
PACKAGES = ("triton", "torch", "numba-cuda", "numba", "numpy")
PREVIOUS = "TensorFP16"
IDEA = {
    "zh_TW": "批次和列太少時，把 key 分給多個區塊計算，再合併結果，讓整個 GPU 都有工作。",
    "en": "Where rows are few, several blocks share them, each with a part of the keys.",
}
DEVICE = "cuda"

ROWS, KEYS = 128, 64  # of a tile
FEWEST_KEYS = 512  # worth a block of their own

__all__ = ["attention", "attention_on_host", "host_array", "provider"]


@jit
def attend(
    q, k_high, k_low, v, part_out, part_max, part_sum, scale, seq_len, part_len, EVEN: constexpr,
    HEAD_DIM: constexpr, ROWS: constexpr, KEYS: constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64) * seq_len * HEAD_DIM
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    columns = tl.arange(0, HEAD_DIM)  # (HEAD_DIM,)
    own = batch + rows[:, None] * HEAD_DIM + columns[None, :]  # (ROWS, HEAD_DIM)
    inside = rows[:, None] < seq_len
    q_tile = tl.load(q + own, mask=inside, other=0.0) * scale
    q_high = q_tile.to(tl.float16)
    q_low = (q_tile - q_high).to(tl.float16)

    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    part = tl.program_id(2)
    last = tl.minimum((part + 1) * part_len, seq_len)
    for first_key in range(part * part_len, last, KEYS):
        keys = first_key + tl.arange(0, KEYS)  # (KEYS,)
        other = batch + keys[:, None] * HEAD_DIM + columns[None, :]  # (KEYS, HEAD_DIM)
        if EVEN:
            k_high_tile = tl.trans(tl.load(k_high + other))
            k_low_tile = tl.trans(tl.load(k_low + other))
            v_tile = tl.load(v + other)
        else:
            present = keys[:, None] < seq_len
            k_high_tile = tl.trans(tl.load(k_high + other, mask=present, other=0.0))
            k_low_tile = tl.trans(tl.load(k_low + other, mask=present, other=0.0))
            v_tile = tl.load(v + other, mask=present, other=0.0)
        scores = tl.dot(q_high, k_high_tile)  # (ROWS, KEYS)
        scores = tl.dot(q_low, k_high_tile, scores)
        scores = tl.dot(q_high, k_low_tile, scores)
        if not EVEN:
            scores = tl.where(keys[None, :] < seq_len, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        correction = tl.exp2(running_max - new_max)  # 0 in the first round
        weights = tl.exp2(scores - new_max[:, None])  # (ROWS, KEYS)
        running_sum = running_sum * correction + tl.sum(weights, 1)
        result = result * correction[:, None]
        result = tl.dot(weights.to(tl.float16), v_tile, result)
        running_max = new_max
    own_rows = tl.program_id(1).to(tl.int64) * seq_len + rows
    parts = part.to(tl.int64) * tl.num_programs(1) * seq_len  # rows of the parts before this one
    tl.store(part_max + parts + own_rows, running_max, mask=rows < seq_len)
    tl.store(part_sum + parts + own_rows, running_sum, mask=rows < seq_len)
    tl.store(part_out + parts * HEAD_DIM + own, result, mask=inside)


@jit
def combine(
    part_out, part_max, part_sum, out, parts, rows,
    HEAD_DIM: constexpr, ROWS: constexpr,
):  # fmt: skip
    own = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    elements = own[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]  # (ROWS, HEAD_DIM)
    inside = own < rows
    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    for part in range(parts):
        maximum = tl.load(part_max + part * rows + own, mask=inside, other=0.0)
        new_max = tl.maximum(running_max, maximum)
        correction, weight = tl.exp2(running_max - new_max), tl.exp2(maximum - new_max)
        total = tl.load(part_sum + part * rows + own, mask=inside, other=0.0)
        running_sum = running_sum * correction + total * weight
        share = tl.load(
            part_out + part * rows * HEAD_DIM + elements, mask=inside[:, None], other=0.0
        )
        result = result * correction[:, None] + share * weight[:, None]
        running_max = new_max
    tl.store(out + elements, result / running_sum[:, None], mask=inside[:, None])


def part_length(q):
    """Keys of a part, a multiple of KEYS; all of them where every multiprocessor has a block."""
    batch_size, seq_len, _ = q.shape
    blocks = math.ceil(seq_len / ROWS) * batch_size
    parts = min(multiprocessors(q) // blocks, math.ceil(seq_len / FEWEST_KEYS))
    return math.ceil(seq_len / max(parts, 1) / KEYS) * KEYS


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    q, k, v, out = tensors(q, k, v, out)
    batch_size, seq_len, head_dim = q.shape
    part_len = part_length(q)
    parts = math.ceil(seq_len / part_len)
    if parts == 1:
        tensor_fp16.attention(q, k, v, out, stream)
        return
    rows = batch_size * seq_len
    grid = (math.ceil(seq_len / ROWS), batch_size, parts)
    scale, even = LOG2_E / math.sqrt(head_dim), seq_len % KEYS == 0
    with on_stream(stream):
        k_high, k_low, v_half = rounded(k, v)
        part_max, part_sum = empty(q, parts, rows), empty(q, parts, rows)
        part_out = empty(q, parts, rows, head_dim)
        attend[grid](
            q, k_high, k_low, v_half, part_out, part_max, part_sum, scale, seq_len, part_len,
            even, head_dim, ROWS, KEYS, num_warps=8, num_stages=3,
        )  # fmt: skip
        combine[(math.ceil(rows / ROWS),)](
            part_out, part_max, part_sum, out, parts, rows, head_dim, ROWS
        )  # fmt: skip


def attention_on_host(q, k, v, out):
    """Attention of arrays (B, N, d), float32, in pinned memory; out is filled on return."""
    overlapped(q, k, v, out, attention)
