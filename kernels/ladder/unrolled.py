"""Step 6: loops of constant length, and fast arithmetic.

B batch_size, N seq_len, d head_dim. The kernel is compiled for one d, so that the compiler knows
how often each inner loop runs, and unrolls it: no counter, no branch, addresses known in advance.
With `fastmath` it takes the hardware's own exponential and division, less exact in the last digits.
"""

import math
from functools import cache

import numpy as np
from numba import cuda, float32

from .lib.device import jit, provider, require_gpu

NAME = "Unrolled"
LABEL = {"zh_TW": "迴圈展開與快速運算", "en": "Unrolled, fast math"}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "Registers"
IDEA = {
    "zh_TW": "針對每個 d 各編譯一次，讓編譯器展開迴圈，並改用較快的近似運算。",
    "en": "Compiled for one d, so that loops are unrolled, and with fast approximate arithmetic.",
}
DEVICE = "cuda"

__all__ = ["attention", "provider"]

TILE = 32  # rows and keys of a tile
MAX_REGISTERS = 64  # a thread: 1024 threads share 65,536
PAD = 1  # unused floats at the end of a tile's row
TILE_WIDTH = TILE + PAD
UNROLLED = 8  # iterations in one
ZERO = np.float32(0)
LOWEST = np.float32(-np.inf)


@cache
def kernel(head_dim):
    width = head_dim + PAD
    columns = math.ceil(head_dim / TILE)  # elements of the output that a thread sums up

    @jit(fastmath=True, max_registers=MAX_REGISTERS)
    def attend(q, k, v, out, scale):
        seq_len = q.shape[1]
        batch, first_row = cuda.blockIdx.y, cuda.blockIdx.x * TILE
        x, y = cuda.threadIdx.x, cuda.threadIdx.y

        q_tile = cuda.shared.array((TILE, width), float32)
        k_tile = cuda.shared.array((TILE, width), float32)
        v_tile = cuda.shared.array((TILE, width), float32)
        weights = cuda.shared.array((TILE, TILE_WIDTH), float32)  # first the scores
        running_max = LOWEST
        running_sum = ZERO
        out_row = cuda.local.array(columns, float32)  # elements x, x + TILE, … of row y
        for j in range(columns):
            out_row[j] = ZERO

        for j in range(columns):
            i = x + j * TILE
            if i < head_dim:
                q_tile[y, i] = q[batch, first_row + y, i] if first_row + y < seq_len else ZERO

        for first_key in range(0, seq_len, TILE):
            cuda.syncthreads()  # all are done with the tiles of the last round
            for j in range(columns):
                i = x + j * TILE
                if i < head_dim:
                    k_tile[y, i] = k[batch, first_key + y, i] if first_key + y < seq_len else ZERO
                    v_tile[y, i] = v[batch, first_key + y, i] if first_key + y < seq_len else ZERO
            cuda.syncthreads()

            score = ZERO
            for first in range(0, head_dim, UNROLLED):
                for i in range(UNROLLED):
                    score += q_tile[y, first + i] * k_tile[x, first + i]
            score = score * scale if first_key + x < seq_len else LOWEST
            weights[y, x] = score
            cuda.syncthreads()

            new_max = running_max
            for key in range(TILE):
                new_max = max(new_max, weights[y, key])
            correction = math.exp(running_max - new_max)  # 0 in the first round
            running_max = new_max
            running_sum *= correction
            for j in range(columns):
                out_row[j] *= correction
            cuda.syncthreads()  # all have read the scores
            weights[y, x] = math.exp(score - new_max)
            cuda.syncthreads()
            for first in range(0, TILE, UNROLLED):
                for key in range(UNROLLED):
                    running_sum += weights[y, first + key]
                    for j in range(columns):
                        out_row[j] += weights[y, first + key] * v_tile[first + key, x + j * TILE]

        for j in range(columns):
            if first_row + y < seq_len and x + j * TILE < head_dim:
                out[batch, first_row + y, x + j * TILE] = out_row[j] / running_sum

    return attend


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    require_gpu()
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / TILE), batch_size)
    scale = np.float32(1 / math.sqrt(head_dim))
    kernel(head_dim)[grid, (TILE, TILE), stream or 0](q, k, v, out, scale)
