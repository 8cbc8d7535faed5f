"""The GPUs that submissions may come from, with the ceilings that nothing on them can pass.

Figures are NVIDIA's own: data sheets and architecture white papers. Rates are of dense float16
matrix products accumulated in float32 at the stated boost clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashlab.costs import WORKSPACE_BEFORE_HOPPER, WORKSPACE_HOPPER

CLOCK_ALLOWANCE = 1.25
"""How far a card may run above the stated boost clock: an RTX 3070 reaches 2.1 GHz of 1.73."""

BANDWIDTH_ALLOWANCE = 1.1
"""How far a card's memory may be clocked above what its data sheet says."""

WORKSPACES = (WORKSPACE_BEFORE_HOPPER, WORKSPACE_HOPPER)
"""Bytes of the two cuBLAS workspaces that the naive implementation's memory holds."""


@dataclass(frozen=True)
class Gpu:
    """One GPU: TFLOP/s of float16 matrix products, GB/s of its memory, MiB of its L2 cache.

    `workspace` is the bytes of the two cuBLAS workspaces, None where it is not known.
    """

    name: str
    tflops: float
    bandwidth: float
    l2_mib: float
    workspace: int | None

    @property
    def ceiling(self) -> float:
        """TFLOP/s that no run passes."""
        return self.tflops * CLOCK_ALLOWANCE

    def seconds_to_move(self, count: float) -> float:
        """The least seconds in which `count` bytes pass between the chip and its memory."""
        return count / (self.bandwidth * 1e9 * BANDWIDTH_ALLOWANCE)


_OLDER, _HOPPER = WORKSPACE_BEFORE_HOPPER, WORKSPACE_HOPPER
GPUS = (
    Gpu("V100", 125, 900, 6, _OLDER),
    Gpu("T4", 65, 320, 4, _OLDER),
    Gpu("RTX 2080 Ti", 53.8, 616, 5.5, _OLDER),
    Gpu("RTX 3060", 25.5, 360, 3, _OLDER),
    Gpu("RTX 3070", 40.6, 448, 4, _OLDER),
    Gpu("RTX 3080", 59.5, 760, 5, _OLDER),
    Gpu("RTX 3090", 71, 936, 6, _OLDER),
    Gpu("RTX 4070", 58.3, 504, 36, _OLDER),
    Gpu("RTX 4090", 165.2, 1008, 72, _OLDER),
    Gpu("A100", 312, 2039, 40, _OLDER),
    Gpu("L40S", 362, 864, 96, _OLDER),
    Gpu("H100", 989, 3900, 50, _HOPPER),
    Gpu("H200", 989, 4800, 50, _HOPPER),
    Gpu("B200", 2250, 8000, 126, None),
)

FASTEST = max(GPUS, key=lambda gpu: gpu.tflops)
"""What a run of an unknown device is held against."""


def find_gpu(name: str | None) -> Gpu | None:
    """The GPU that a device's name names: ``NVIDIA GeForce RTX 3070``, ``NVIDIA H200``.

    None for a name that is not known; a Ti, Super or Laptop card is another one than its namesake.
    """
    if name is None:
        return None
    plain = re.sub("[^a-z0-9]+", " ", name.lower()).strip()
    for gpu in GPUS:
        model = re.escape(gpu.name.lower())
        if re.search(rf"(?:^| ){model}(?! (?:ti|super|laptop|mobile|d)\b)(?= |$)", plain):
            return gpu
    return None
