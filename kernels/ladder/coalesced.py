"""Step 4: coalesced loads and stores.

B batch_size, N seq_len, d head_dim. The 32 threads of a warp have consecutive x. Where x counts the
elements of a row and not the rows, they read consecutive addresses of global memory, which takes
4 transactions in place of 32.
"""

import math

import numpy as np
from numba import cuda, float32

from .lib.device import MAX_HEAD_DIM, jit, provider, require_gpu

NAME = "Coalesced"
LABEL = {
    "zh_TW": "相鄰的執行緒讀取相鄰的位址",
    "en": "neighbouring threads load neighbouring addresses",
}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "Padded"
IDEA = {
    "zh_TW": "相鄰的執行緒讀寫相鄰的位址，一個 warp 的存取合併成幾筆。",
    "en": "Neighbouring threads access neighbouring addresses: a few transactions for a warp.",
}
DEVICE = "cuda"

__all__ = ["attention", "provider"]

TILE = 32  # rows and keys of a tile
MAX_REGISTERS = 64  # a thread: 1024 threads share 65,536
PAD = 1  # unused floats at the end of a tile's row
WIDTH, TILE_WIDTH = MAX_HEAD_DIM + PAD, TILE + PAD
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
    out_tile = cuda.shared.array((TILE, WIDTH), float32)
    weights = cuda.shared.array((TILE, TILE_WIDTH), float32)  # first the scores
    running_max = cuda.shared.array(TILE, float32)
    running_sum = cuda.shared.array(TILE, float32)
    correction = cuda.shared.array(TILE, float32)

    for i in range(x, head_dim, TILE):
        q_tile[y, i] = q[batch, first_row + y, i] if first_row + y < seq_len else ZERO
        out_tile[y, i] = ZERO
    if y == 0:
        running_max[x] = LOWEST
        running_sum[x] = ZERO

    for first_key in range(0, seq_len, TILE):
        cuda.syncthreads()  # all are done with the tiles of the last round
        for i in range(x, head_dim, TILE):
            k_tile[y, i] = k[batch, first_key + y, i] if first_key + y < seq_len else ZERO
            v_tile[y, i] = v[batch, first_key + y, i] if first_key + y < seq_len else ZERO
        cuda.syncthreads()

        score = ZERO
        for i in range(head_dim):
            score += q_tile[y, i] * k_tile[x, i]
        weights[y, x] = score * scale if first_key + x < seq_len else LOWEST
        cuda.syncthreads()

        if x == 0:  # one thread a row, while the others wait
            new_max = running_max[y]
            for key in range(TILE):
                new_max = max(new_max, weights[y, key])
            correction[y] = math.exp(running_max[y] - new_max)  # 0 in the first round
            total = running_sum[y] * correction[y]
            for key in range(TILE):
                weights[y, key] = math.exp(weights[y, key] - new_max)
                total += weights[y, key]
            running_max[y] = new_max
            running_sum[y] = total
        cuda.syncthreads()

        for i in range(x, head_dim, TILE):
            out_tile[y, i] *= correction[y]
            for key in range(TILE):
                out_tile[y, i] += weights[y, key] * v_tile[key, i]

    cuda.syncthreads()
    for i in range(x, head_dim, TILE):
        if first_row + y < seq_len:
            out[batch, first_row + y, i] = out_tile[y, i] / running_sum[y]


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    require_gpu()
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / TILE), batch_size)
    scale = np.float32(1 / math.sqrt(head_dim))
    attend[grid, (TILE, TILE), stream or 0](q, k, v, out, scale)
