"""Step 7: larger tiles, and 64 scores for each thread.

B batch_size, N seq_len, d head_dim. So far a thread loads two numbers from shared memory for each
multiplication, and waits for them. Here 64 threads share a tile of 64 rows and 64 keys. Each has 8
rows and 8 keys: it loads 8 + 8 numbers and multiplies all pairs, four loads of 16 bytes for 64
multiplications. Likewise it has 8 rows of the output and d / 8 of its columns.

That takes 64 registers for the scores and 64 for the output, and all 48 KiB of shared memory that a
block has without asking for more. There is no room for padding: instead, the columns of a row are
permuted (exclusive or with the row), so that 8 neighbouring rows lie in different banks.

Loops are written with `while` where the compiler must know that an index is never negative: after
numba's `range` it does not, and then it neither drops the check nor joins four loads into one.
"""

import math
from functools import cache

import numpy as np
from numba import cuda, float32

from .lib.device import ALIGNMENT, jit, provider, require_gpu

NAME = "LargerTiles"
LABEL = {"zh_TW": "較大的分塊", "en": "Larger tiles"}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "Unrolled"
IDEA = {
    "zh_TW": "分塊加大，每個執行緒計算 8 × 8 個分數，從共享記憶體載入的每個數重複使用 8 次。",
    "en": "A thread has 8 × 8 scores of a larger tile, and uses each number that it loads 8 times.",
}
DEVICE = "cuda"

__all__ = ["attention", "provider"]

TILE = 64  # rows and keys of a tile
THREADS = 64  # 8 × 8: thread (x, y) has rows y, y + 8, … and keys x, x + 8, …
ZERO = np.float32(0)
LOWEST = np.float32(-np.inf)


@cache
def kernel(head_dim):
    columns = head_dim // 8  # of the output, for each thread: 4x, …, 4x + 3, and these + 32
    group = min(columns, 4)
    shift = head_dim.bit_length() - 1  # head_dim is a power of two
    rows_at_once = THREADS // head_dim
    turn = min(head_dim // 4, 8) - 1  # by how many groups of four a row may be permuted

    @jit(fastmath=True)
    def attend(q, k, v, out, scale):
        seq_len = q.shape[1]
        batch, first_row = cuda.blockIdx.y, cuda.blockIdx.x * TILE
        thread = cuda.threadIdx.x & (THREADS - 1)
        x, y = thread & 7, thread >> 3
        load_column, load_row = thread & (head_dim - 1), thread >> shift

        q_tile = cuda.shared.array((TILE, head_dim), float32, alignment=ALIGNMENT)
        v_tile = cuda.shared.array((TILE, head_dim), float32, alignment=ALIGNMENT)
        k_tile = cuda.shared.array((TILE, TILE), float32, alignment=ALIGNMENT)
        weights = k_tile  # K is no longer needed once the scores are there

        running_max = cuda.local.array(8, float32)
        running_sum = cuda.local.array(8, float32)  # over this thread's keys only
        result = cuda.local.array((8, columns), float32)
        scores = cuda.local.array((8, 8), float32)
        left = cuda.local.array((8, 4), float32)
        right = cuda.local.array(8, float32)
        for r in range(8):
            running_max[r] = LOWEST
            running_sum[r] = ZERO
            for c in range(columns):
                result[r, c] = ZERO

        row = load_row
        while row < TILE:  # beyond the last row the last row again: it is never stored
            source = min(first_row + row, seq_len - 1)
            q_tile[row, load_column ^ ((row & turn) * 4)] = q[batch, source, load_column] * scale
            row += rows_at_once

        first_key = 0
        while first_key < seq_len:
            cuda.syncthreads()  # all are done with the tiles of the last round
            row = load_row
            while row < TILE:
                source = min(first_key + row, seq_len - 1)
                k_tile[row, load_column ^ ((row & turn) * 4)] = k[batch, source, load_column]
                v_tile[row, load_column] = v[batch, source, load_column]
                row += rows_at_once
            cuda.syncthreads()

            for r in range(8):
                for c in range(8):
                    scores[r, c] = ZERO
            i = 0
            while i < head_dim:
                for r in range(8):
                    for n in range(4):
                        left[r, n] = q_tile[y + r * 8, (i ^ ((y & turn) * 4)) + n]
                for c in range(8):
                    for n in range(4):
                        right[n] = k_tile[x + c * 8, (i ^ ((x & turn) * 4)) + n]
                    for r in range(8):
                        for n in range(4):
                            scores[r, c] += left[r, n] * right[n]
                i += 4
            if first_key + TILE > seq_len:
                for c in range(8):
                    if first_key + x + c * 8 >= seq_len:
                        for r in range(8):
                            scores[r, c] = LOWEST

            cuda.syncthreads()  # all are done with K
            for r in range(8):
                best = scores[r, 0]
                for c in range(1, 8):
                    best = max(best, scores[r, c])
                weights[y + r * 8, x] = best
            cuda.syncthreads()
            for r in range(8):
                new_max = running_max[r]
                for n in range(8):
                    new_max = max(new_max, weights[y + r * 8, n])
                correction = math.exp(running_max[r] - new_max)  # 0 in the first round
                running_max[r] = new_max
                running_sum[r] *= correction
                for c in range(columns):
                    result[r, c] *= correction
            cuda.syncthreads()  # all have read the maxima
            for r in range(8):
                for c in range(8):
                    weight = math.exp(scores[r, c] - running_max[r])
                    running_sum[r] += weight
                    weights[y + r * 8, (x + c * 8) ^ (y * 4)] = weight
            cuda.syncthreads()

            key = 0
            while key < TILE:
                for r in range(8):
                    for n in range(4):
                        left[r, n] = weights[y + r * 8, (key ^ (y * 4)) + n]
                for n in range(4):
                    for c in range(columns):
                        right[c] = v_tile[key + n, x * group + c % group + c // group * 32]
                    for r in range(8):
                        for c in range(columns):
                            result[r, c] += left[r, n] * right[c]
                key += 4
            first_key += TILE

        cuda.syncthreads()
        for r in range(8):
            weights[y + r * 8, x] = running_sum[r]
        cuda.syncthreads()
        for r in range(8):
            total = ZERO
            for n in range(8):
                total += weights[y + r * 8, n]
            if first_row + y + r * 8 < seq_len:
                for c in range(columns):
                    column = x * group + c % group + c // group * 32
                    out[batch, first_row + y + r * 8, column] = result[r, c] / total

    return attend


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    require_gpu()
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / TILE), batch_size)
    scale = np.float32(1 / math.sqrt(head_dim))
    kernel(head_dim)[grid, THREADS, stream or 0](q, k, v, out, scale)
