"""Step 10: half the bits.

B batch_size, N seq_len, d head_dim. Tensor cores multiply float16 twice as fast as tf32, and its
mantissa has the same 10 bits; only its range is smaller, which scores and values do not need. K and
V are rounded once, before the kernel, and not by every block that reads them. The scores take three
products again, so K is stored as two numbers: its leading bits, and what is left of them.
"""

import math

from .lib.tensor_cores import LOG2_E, constexpr, empty_half, jit, on_stream, provider, tensors, tl
from .streams import attention_on_host as overlapped
from .streams import host_array

NAME = "TensorFP16"
LABEL = {"zh_TW": "Tensor Core (fp16)", "en": "Tensor cores, fp16"}
PACKAGES = ("triton", "torch", "numba-cuda", "numba", "numpy")
PREVIOUS = "TensorTF32"
IDEA = {
    "zh_TW": "輸入改為 fp16，尾數位數與 tf32 相同，乘法快一倍，資料量減半，仍以 float32 累加。",
    "en": "Inputs in fp16: tf32's mantissa at twice the rate and half the bytes, float32 sums.",
}
DEVICE = "cuda"

ROWS, KEYS = 128, 64  # of a tile
ELEMENTS = 4096  # that a block rounds

__all__ = ["attention", "attention_on_host", "host_array", "provider"]


@jit
def round_inputs(k, v, k_high, k_low, v_half, count, COUNT: constexpr):
    elements = tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)  # (COUNT,)
    inside = elements < count
    exact = tl.load(k + elements, mask=inside)
    high = exact.to(tl.float16)
    tl.store(k_high + elements, high, mask=inside)
    tl.store(k_low + elements, (exact - high).to(tl.float16), mask=inside)
    tl.store(v_half + elements, tl.load(v + elements, mask=inside).to(tl.float16), mask=inside)


def rounded(k, v):
    """K as two numbers of float16, and V as one: arrays (B, N, d) on the device."""
    k_high, k_low, v_half = (empty_half(k) for _ in range(3))
    grid = (math.ceil(k.numel() / ELEMENTS),)
    round_inputs[grid](k, v, k_high, k_low, v_half, k.numel(), ELEMENTS)
    return k_high, k_low, v_half


@jit
def attend(
    q, k_high, k_low, v, out, scale, seq_len, EVEN: constexpr,
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
    for first_key in range(0, seq_len, KEYS):
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
    tl.store(out + own, result / running_sum[:, None], mask=inside)


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    q, k, v, out = tensors(q, k, v, out)
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / ROWS), batch_size)
    scale, even = LOG2_E / math.sqrt(head_dim), seq_len % KEYS == 0
    with on_stream(stream):
        k_high, k_low, v_half = rounded(k, v)
        attend[grid](
            q, k_high, k_low, v_half, out, scale, seq_len, even, head_dim, ROWS, KEYS,
            num_warps=8, num_stages=3,
        )  # fmt: skip


def attention_on_host(q, k, v, out):
    """Attention of arrays (B, N, d), float32, in pinned memory; out is filled on return."""
    overlapped(q, k, v, out, attention)
