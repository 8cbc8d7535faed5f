"""Step 1: a thread for each row of the output, everything in global memory.

B batch_size, N seq_len, d head_dim. The loops over batches and rows become the grid; what a thread
does for its row is what `Sequential` does. Each thread reads all of K and V of its batch by itself.
"""

import math

import numpy as np
from numba import cuda

from .lib.device import provider, require_gpu

NAME = "GlobalMemory"
LABEL = {"zh_TW": "一列一執行緒", "en": "One thread a row"}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "Sequential"
IDEA = {
    "zh_TW": "在 GPU 上，輸出的每一列各由一個執行緒計算，資料都在全域記憶體。",
    "en": "On the GPU, each row of the output has its own thread; all data is in global memory.",
}
DEVICE = "cuda"

__all__ = ["attention", "provider"]

THREADS = 128  # a block


@cuda.jit
def attend(q, k, v, out, scale):
    _, seq_len, head_dim = q.shape
    batch = cuda.blockIdx.y
    row = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if row >= seq_len:
        return
    running_max = np.float32(-np.inf)
    running_sum = np.float32(0)
    for i in range(head_dim):
        out[batch, row, i] = 0
    for key in range(seq_len):
        score = np.float32(0)
        for i in range(head_dim):
            score += q[batch, row, i] * k[batch, key, i]
        score *= scale
        new_max = max(running_max, score)
        correction = math.exp(running_max - new_max)  # 0 at the first key
        weight = math.exp(score - new_max)
        running_sum = running_sum * correction + weight
        for i in range(head_dim):
            out[batch, row, i] = out[batch, row, i] * correction + weight * v[batch, key, i]
        running_max = new_max
    for i in range(head_dim):
        out[batch, row, i] /= running_sum


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    require_gpu()
    batch_size, seq_len, head_dim = q.shape
    grid = (math.ceil(seq_len / THREADS), batch_size)
    attend[grid, THREADS, stream or 0](q, k, v, out, np.float32(1 / math.sqrt(head_dim)))
