"""Why a pass takes its time on a GPU, as far as the hardware counters of the same run tell.

In this order, the first that holds is the verdict:

- ``none``: the time in kernels is not that of the timed pass (`CountedKernels.agrees`).
- ``launch_bound``: no kernel runs for much of the time.
- ``matrix_bound``, or ``unfused`` or ``memory_bound``: the matrix units, or DRAM against the
  measured copy bandwidth, are busy; the busier decides. It is unfused where several kernels move
  a multiple of the bytes that any implementation must move.
- ``launch_bound``: neither is busy, and the kernels are so short that starting them counts.
- ``occupancy``: neither is busy, in longer kernels, and few warps are resident to hide latency.
- ``neither``: no rule holds, so neither is saturated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from flashlab.analysis.counted_passes import EXCESS, IDLE, CountedPass, Limits
from flashlab.analysis.kinds.roofline import BOUND_SHARE

BUSY = Limits(40.0, BOUND_SHARE)
"""Percent of the time in which matrix units are active; of the copy bandwidth that DRAM reaches."""

KERNEL_MICROSECONDS = Limits(20.0, 40.0)
"""Mean duration of a long kernel; beside a short one its launch (some 5 µs) counts."""

OCCUPANCY = Limits(20.0, 30.0)
"""Percent of the warps that could be resident."""


@dataclass(frozen=True)
class CountedKernels(CountedPass):
    """What was counted of one pass on a GPU, beside its time and what the device can copy."""

    COUNTERS = ("kernels", "busy_time", "dram_bytes")
    SHARES: ClassVar[Mapping[str, str]] = {
        "matrix": "matrix_activity",
        "occupancy": "occupancy",
    }
    LONGEST_GAP_MS = 0.2
    MESSAGES: ClassVar[Mapping[str, str]] = {
        "launch_bound": "cause.launch_bound",
        "matrix_bound": "cause.matrix_bound",
        "memory_bound": "cause.memory_bound",
        "unfused": "cause.unfused",
        "occupancy": "cause.occupancy",
        "neither": "cause.neither",
    }

    matrix: float
    occupancy: float
    copy_bytes_per_ms: float

    @property
    def memory(self) -> float:
        """DRAM traffic of the kernels, in percent of the measured copy bandwidth."""
        return 100 * self.bytes / self.busy_ms / self.copy_bytes_per_ms

    @property
    def kernel_us(self) -> float:
        """Mean duration of a kernel, in microseconds."""
        return 1e3 * self.busy_ms / self.parts

    @property
    def verdict(self) -> str:
        """The cause; ``none`` where no rule holds clearly."""
        if not self.agrees:
            return "none"
        if IDLE.holds(self.idle):
            return "launch_bound"
        busier = max(self.matrix, self.memory)
        if BUSY.holds(busier):
            if busier == self.matrix:
                return "matrix_bound"
            unfused = self.parts > 1 and EXCESS.holds(self.excess)
            return "unfused" if unfused else "memory_bound"
        if BUSY.holds(busier) is None:
            return "neither"
        long = KERNEL_MICROSECONDS.holds(self.kernel_us)
        if long is False:
            return "launch_bound"
        if long and OCCUPANCY.holds(self.occupancy) is False:
            return "occupancy"
        return "neither"

    @property
    def shares(self) -> Mapping[str, float]:
        """What is counted in percent, by name."""
        return {
            "matrix": self.matrix,
            "copy": self.memory,
            "idle": self.idle,
            "occupancy": self.occupancy,
        }

    @property
    def others(self) -> Mapping[str, tuple[str, float]]:
        """What statements quote besides, by name: its unit and the figure."""
        return {
            "kernel_time": ("microseconds", self.kernel_us),
            "traffic": ("gigabytes", self.bytes / 1e9),
        }
