"""Why a pass takes its time on a GPU, as far as the hardware counters of the same run tell.

In this order, the first that holds is the verdict:

- ``none``: the time in kernels is not that of the timed pass (`CountedKernels.agrees`).
- ``launch_bound``: no kernel runs for half of the time or more.
- ``matrix_bound``, or ``unfused`` or ``memory_bound``: the matrix units, or DRAM against the
  measured copy bandwidth, are busy; the busier decides. It is unfused where several kernels move
  a multiple of the bytes that any implementation must move.
- ``neither``: no rule holds, so neither is saturated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from flashlab.analysis.counted_passes import EXCESS, CountedPass
from flashlab.analysis.kinds.roofline import BOUND_SHARE

WAITING_PERCENT = 50.0
"""From this share of the time on in which no kernel runs, a pass waits for launches."""


@dataclass(frozen=True)
class CountedKernels(CountedPass):
    """What was counted of one pass on a GPU, beside its time and what the device can copy."""

    COUNTERS = ("kernels", "busy_time", "dram_bytes")
    SHARES: ClassVar[Mapping[str, str]] = {"matrix": "matrix_activity"}
    LONGEST_GAP_MS = 0.2
    MESSAGES: ClassVar[Mapping[str, str]] = {
        "launch_bound": "cause.launch_bound",
        "matrix_bound": "cause.matrix_bound",
        "memory_bound": "cause.memory_bound",
        "unfused": "cause.unfused",
        "neither": "cause.neither",
    }

    matrix: float
    copy_bytes_per_ms: float

    @property
    def memory(self) -> float:
        """DRAM traffic of the kernels, in percent of the measured copy bandwidth."""
        return 100 * self.bytes / self.busy_ms / self.copy_bytes_per_ms

    @property
    def verdict(self) -> str:
        """The cause; ``none`` where no rule holds clearly."""
        if not self.agrees:
            return "none"
        if self.idle >= WAITING_PERCENT:
            return "launch_bound"
        busier = max(self.matrix, self.memory)
        if busier < BOUND_SHARE:
            return "neither"
        if busier == self.matrix:
            return "matrix_bound"
        unfused = self.parts > 1 and EXCESS.holds(self.excess)
        return "unfused" if unfused else "memory_bound"

    @property
    def figures(self) -> Mapping[str, tuple[str, float]]:
        """What statements quote; `kernel_time` is the mean duration of a kernel."""
        return {
            "matrix": ("percent", self.matrix),
            "copy": ("percent", self.memory),
            "idle": ("percent", self.idle),
            "kernel_time": ("microseconds", 1e3 * self.busy_ms / self.parts),
            "traffic": ("gigabytes", self.bytes / 1e9),
            "excess": ("times", self.excess),
        }
