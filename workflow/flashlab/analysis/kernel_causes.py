"""Why a pass takes its time on a GPU, as far as the hardware counters of the same run tell.

In this order, the first that holds is the verdict:

- ``none``: the time in kernels is not that of the timed pass (`CountedKernels.agrees`).
- ``launch_bound``: no kernel runs for much of the time.
- ``matrix_bound``, or ``unfused`` or ``memory_bound``: the matrix units, or DRAM against the
  measured copy bandwidth, are busy; the busier decides. It is unfused where several kernels move
  a multiple of the bytes that any implementation must move.
- ``launch_bound``: neither is busy, and the kernels are so short that starting them counts.
- ``occupancy``: neither is busy, in longer kernels, and few warps are resident to hide latency.
- ``none``: no rule holds clearly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.counted_passes import CountedPass
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row
from flashlab.analysis.kinds.roofline import BOUND_SHARE
from flashlab.analysis.limits import EXCESS, IDLE, Limits
from flashlab.analysis.series import Series

BUSY = Limits(40.0, BOUND_SHARE)
"""Percent of the time in which matrix units are active; of the copy bandwidth that DRAM reaches."""

KERNEL_MICROSECONDS = Limits(20.0, 40.0)
"""Mean duration of a long kernel; beside a short one its launch (some 5 µs) counts."""

OCCUPANCY = Limits(20.0, 30.0)
"""Percent of the warps that could be resident."""


@dataclass(frozen=True)
class CountedKernels(CountedPass):
    """What was counted of one pass on a GPU, beside its time and what the device can copy."""

    PARTS: ClassVar[str] = "kernels"
    LONGEST_GAP_MS: ClassVar[float] = 0.2
    METHOD: ClassVar[str] = (
        "hardware counters of one pass by Nsight Compute beside the median time: sums over its "
        "kernels, shares weighted by time; DRAM bytes over the time in kernels as a percentage of "
        "the measured copy bandwidth"
    )
    MESSAGES: ClassVar[Mapping[str, str]] = {
        "launch_bound": "cause.launch_bound",
        "matrix_bound": "cause.matrix_bound",
        "memory_bound": "cause.memory_bound",
        "unfused": "cause.unfused",
        "occupancy": "cause.occupancy",
    }

    copy_bytes_per_ms: float
    matrix: float
    occupancy: float

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
            return "none"
        long = KERNEL_MICROSECONDS.holds(self.kernel_us)
        if long is False:
            return "launch_bound"
        if long and OCCUPANCY.holds(self.occupancy) is False:
            return "occupancy"
        return "none"

    @property
    def evidence(self) -> Mapping[str, float]:
        """What a finding's evidence keeps of the pass, by name."""
        return {
            "milliseconds": self.milliseconds,
            "busy_milliseconds": self.busy_ms,
            "dram_bytes": self.bytes,
            "compulsory_bytes": self.compulsory_bytes,
            "idle_percent": self.idle,
            "matrix_percent": self.matrix,
            "memory_percent": self.memory,
            "occupancy_percent": self.occupancy,
        }

    @property
    def quoted(self) -> Mapping[str, tuple[str, float]]:
        """What the statements quote of the pass, by name: its unit and the figure."""
        return {
            "matrix": ("percent", self.matrix),
            "copy": ("percent", self.memory),
            "idle": ("percent", self.idle),
            "occupancy": ("percent", self.occupancy),
            "kernel_time": ("microseconds", self.kernel_us),
            "traffic": ("gigabytes", self.bytes / 1e9),
            "excess": ("times", self.excess),
        }


def counted_kernels(
    series: Series, row: Row, estimates: Estimates, ceilings: Ceilings
) -> CountedKernels | None:
    """What was counted of the pass behind a row; None where nothing was."""
    sweep, work = series.sweep, series.metric.work
    found = sweep.counters_of(row, series.metric.name)
    if work is None or not found or not found["busy_time"]:
        return None
    time = estimates.of_row(sweep, row)
    return CountedKernels(
        value=sweep.value_of(row),
        milliseconds=time.median,
        samples=time.count,
        parts=int(found["kernels"]),
        busy_ms=found["busy_time"],
        bytes=found["dram_bytes"],
        compulsory_bytes=work.compulsory_bytes(row, row["dtype"]),
        copy_bytes_per_ms=ceilings.copy.rate / 1e3,
        matrix=found["matrix_activity"],
        occupancy=found["occupancy"],
    )
