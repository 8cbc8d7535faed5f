"""Step 5: the running maximum, the running sum and the output in registers.

B batch_size, N seq_len, d head_dim. What a thread alone needs from round to round stays in its
registers. Every thread of a row keeps the row's maximum and sum, so that none waits for another
one to compute them, and the two elements of the output that it sums up.
"""

import math

import numpy as np
from numba import cuda, float32

from .lib.device import MAX_HEAD_DIM, jit, provider, require_gpu

NAME = "Registers"
LABEL = {
    "zh_TW": "最大值、總和與輸出留在暫存器",
    "en": "running maximum, sum and output in registers",
}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "Coalesced"
IDEA = {
    "zh_TW": "每一列的最大值、總和與輸出都放在執行緒自己的暫存器。",
    "en": "The running maximum, the running sum and the output stay in the threads' own registers.",
}
DEVICE = "cuda"

__all__ = ["attention", "provider"]

TILE = 32  # rows and keys of a tile
MAX_REGISTERS = 64  # a thread: 1024 threads share 65,536
PAD = 1  # unused floats at the end of a tile's row
WIDTH, TILE_WIDTH = MAX_HEAD_DIM + PAD, TILE + PAD
COLUMNS = MAX_HEAD_DIM // TILE  # elements of the output that a thread sums up
ZERO = np.float32(0)
LOWEST = np.float32(-np.inf)


@jit(max_registers=MAX_REGISTERS)
def attend(q, k, v, out, scale):
    _, seq_len, head_dim = q.shape
    batch, first_row = cuda.blockIdx.y, cuda.blockIdx.x * TILE
    x, y = cuda.threadIdx.x, cuda.threadIdx.y

    q_tile = cuda.shared.array((TILE, WIDTH), float32)
    k_tile = cuda.shared.array((TILE, WIDTH), float32)
    v_tile = cuda.shared.array((TILE, WIDTH), float32)
    weights = cuda.shared.array((TILE, TILE_WIDTH), float32)  # first the scores
    running_max = LOWEST
    running_sum = ZERO
    out_row = cuda.local.array(COLUMNS, float32)  # elements x, x + TILE, … of row y
    for j in range(COLUMNS):
        out_row[j] = ZERO

    for i in range(x, head_dim, TILE):
        q_tile[y, i] = q[batch, first_row + y, i] if first_row + y < seq_len else ZERO

    for first_key in range(0, seq_len, TILE):
        cuda.syncthreads()  # all are done with the tiles of the last round
        for i in range(x, head_dim, TILE):
            k_tile[y, i] = k[batch, first_key + y, i] if first_key + y < seq_len else ZERO
            v_tile[y, i] = v[batch, first_key + y, i] if first_key + y < seq_len else ZERO
        cuda.syncthreads()

        score = ZERO
        for i in range(head_dim):
            score += q_tile[y, i] * k_tile[x, i]
        score = score * scale if first_key + x < seq_len else LOWEST
        weights[y, x] = score
        cuda.syncthreads()

        new_max = running_max
        for key in range(TILE):
            new_max = max(new_max, weights[y, key])
        correction = math.exp(running_max - new_max)  # 0 in the first round
        running_max = new_max
        running_sum *= correction
        for j in range(COLUMNS):
            out_row[j] *= correction
        cuda.syncthreads()  # all have read the scores
        weights[y, x] = math.exp(score - new_max)
        cuda.syncthreads()
        for key in range(TILE):
            running_sum += weights[y, key]
            for j in range(COLUMNS):
                out_row[j] += weights[y, key] * v_tile[key, x + j * TILE]

    for j in range(COLUMNS):
        if first_row + y < seq_len and x + j * TILE < head_dim:
            out[batch, first_row + y, x + j * TILE] = out_row[j] / running_sum


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    require_gpu()
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / TILE), batch_size)
    scale = np.float32(1 / math.sqrt(head_dim))
    attend[grid, (TILE, TILE), stream or 0](q, k, v, out, scale)
