"""Step 0: one thread of a CPU, row after row.

B batch_size, N seq_len, d head_dim. FlashAttention's recurrence in its plainest form: a row of the
output is summed up key by key, and rescaled whenever a larger score turns up, so that no row of
scores is ever stored. Every later step computes the same, only elsewhere.
"""

import math

import numba
import numpy as np
from numba import njit

NAME = "Sequential"
LABEL = {"zh_TW": "循序 (CPU)", "en": "Sequential (CPU)"}
PACKAGES = ("numba", "numpy")
PREVIOUS = None
IDEA = {
    "zh_TW": "一個 CPU 執行緒逐列計算，作為基準。",
    "en": "One thread of the CPU computes row after row: the baseline.",
}
DEVICE = "cpu"


@njit
def attend(q, k, v, out, scale):
    batch_size, seq_len, head_dim = q.shape
    for batch in range(batch_size):
        for row in range(seq_len):
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


def provider(device):
    """Whose compiler the step comes from, on any kind of device."""
    return f"numba {numba.__version__}"


def attention(q, k, v, out, stream=None):
    """Attention on the CPU: q, k, v, out (B, N, d), float32; out is filled on return."""
    attend(q, k, v, out, np.float32(1 / math.sqrt(q.shape[2])))
