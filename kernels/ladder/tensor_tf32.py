"""Step 9: tensor cores, through Triton.

B batch_size, N seq_len, d head_dim. The two products of a tile go to the tensor cores, which
multiply in tf32: float32's range with 10 bits of the mantissa, summed in float32. The program is
written for a whole tile at a time, and Triton decides which thread does what: registers, shared
memory, copies ahead of their use and bank conflicts are its business from here on.

Ten bits are too few for the scores, whose errors the exponential magnifies: the output would be
off by up to 6e-3. They are computed from three products, of the leading and the trailing bits.
"""

import math

from .lib.tensor_cores import LOG2_E, constexpr, jit, on_stream, provider, tensors, tl
from .streams import attention_on_host as overlapped
from .streams import host_array

NAME = "TensorTF32"
LABEL = {"zh_TW": "Tensor Core (tf32)", "en": "Tensor cores, tf32"}
PACKAGES = ("triton", "torch", "numba-cuda", "numba", "numpy")
PREVIOUS = "Streams"
IDEA = {
    "zh_TW": "兩次矩陣乘法改由 Tensor Core 以 tf32 計算，以 float32 累加，程式以 Triton 撰寫。",
    "en": "Tensor cores do both products, in tf32 with float32 sums; the program is in Triton.",
}
DEVICE = "cuda"

ROWS, KEYS = 128, 64  # of a tile

__all__ = ["attention", "attention_on_host", "host_array", "provider"]


@jit
def attend(
    q, k, v, out, scale, seq_len, EVEN: constexpr,
    HEAD_DIM: constexpr, ROWS: constexpr, KEYS: constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64) * seq_len * HEAD_DIM
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    columns = tl.arange(0, HEAD_DIM)  # (HEAD_DIM,)
    own = batch + rows[:, None] * HEAD_DIM + columns[None, :]  # (ROWS, HEAD_DIM)
    inside = rows[:, None] < seq_len
    q_tile = tl.load(q + own, mask=inside, other=0.0) * scale

    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    for first_key in range(0, seq_len, KEYS):
        keys = first_key + tl.arange(0, KEYS)  # (KEYS,)
        other = batch + keys[:, None] * HEAD_DIM + columns[None, :]  # (KEYS, HEAD_DIM)
        if EVEN:
            k_tile = tl.load(k + other)
            v_tile = tl.load(v + other)
        else:
            k_tile = tl.load(k + other, mask=keys[:, None] < seq_len, other=0.0)
            v_tile = tl.load(v + other, mask=keys[:, None] < seq_len, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="tf32x3")  # (ROWS, KEYS)
        if not EVEN:
            scores = tl.where(keys[None, :] < seq_len, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        correction = tl.exp2(running_max - new_max)  # 0 in the first round
        weights = tl.exp2(scores - new_max[:, None])  # (ROWS, KEYS)
        running_sum = running_sum * correction + tl.sum(weights, 1)
        result = result * correction[:, None]
        result = tl.dot(weights, v_tile, result, input_precision="tf32")
        running_max = new_max
    tl.store(out + own, result / running_sum[:, None], mask=inside)


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    q, k, v, out = tensors(q, k, v, out)
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / ROWS), batch_size)
    scale, even = LOG2_E / math.sqrt(head_dim), seq_len % KEYS == 0
    with on_stream(stream):
        attend[grid](
            q, k, v, out, scale, seq_len, even, head_dim, ROWS, KEYS, num_warps=8, num_stages=3
        )  # fmt: skip


def attention_on_host(q, k, v, out):
    """Attention of arrays (B, N, d), float32, in pinned memory; out is filled on return."""
    overlapped(q, k, v, out, attention)
