"""Step 8: pinned memory and streams.

B batch_size, N seq_len, d head_dim. The kernel is that of `LargerTiles`. What changes is the way of
the data: it lies in pinned memory of the host, which the GPU copies by itself without a detour, and
goes in pieces of some batches over several streams. While one piece is computed, the next comes in
and the last goes out.

numba-cuda has no pitched copies (cudaMemcpy2D). They would not help: rows of 32 or 64 floats are
aligned as they are.
"""

import math
from functools import cache

from numba import cuda

from . import larger_tiles
from .lib.device import empty, host_array, provider, synchronize

NAME = "Streams"
LABEL = {"zh_TW": "Pinned memory 與多個 stream", "en": "Pinned memory, streams"}
PACKAGES = ("numba-cuda", "numba", "numpy")
PREVIOUS = "LargerTiles"
IDEA = {
    "zh_TW": "資料放在 pinned memory，分批經由多個 stream 傳輸，讓複製與計算重疊。",
    "en": "Batches go through several streams from pinned memory, so copies overlap the kernel.",
}
DEVICE = "cuda"

STREAMS = 4
PIECES = 8  # at most, so that little waits for the first copy in and the last copy out

__all__ = ["attention", "attention_on_host", "host_array", "provider"]


@cache
def streams():
    return [cuda.stream() for _ in range(STREAMS)]


def attention(q, k, v, out, stream=None):
    """Launch attention: q, k, v, out (B, N, d), float32, on the device."""
    larger_tiles.attention(q, k, v, out, stream)


def attention_on_host(q, k, v, out, attention=attention):
    """Attention of arrays (B, N, d), float32, in pinned memory; out is filled on return."""
    batch_size = q.shape[0]
    size = math.ceil(batch_size / PIECES)
    on_device = [empty(q.shape) for _ in range(4)]
    for piece, first in enumerate(range(0, batch_size, size)):
        stream, batches = streams()[piece % STREAMS], slice(first, first + size)
        *inputs, result = (array[batches] for array in on_device)
        for array, host in zip(inputs, (q, k, v), strict=True):
            array.copy_to_device(host[batches], stream=stream)
        attention(*inputs, result, stream)
        result.copy_to_host(out[batches], stream=stream)
    synchronize()
