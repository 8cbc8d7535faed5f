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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.findings.ceilings import Ceilings
from flashlab.findings.limits import EXCESS, IDLE, Limits
from flashlab.findings.ratios import EVIDENCE_DIGITS, Estimates, rounded
from flashlab.findings.roofline import BOUND_SHARE
from flashlab.findings.series import Series
from flashlab.sweep import Row

METHOD = (
    "hardware counters of one pass by Nsight Compute beside the median time: sums over its "
    "kernels, shares weighted by time; DRAM bytes over the time in kernels as a percentage of the "
    "measured copy bandwidth"
)

BUSY = Limits(40.0, BOUND_SHARE)
"""Percent of the time in which matrix units are active; of the copy bandwidth that DRAM reaches."""

LONGEST_GAP_MS = 0.2
"""Longest time per kernel that launching it could take."""

LONGEST_BUSY = 1.5
"""Times the measured time that the kernels may take one by one, with cold caches."""

KERNEL_MICROSECONDS = Limits(20.0, 40.0)
"""Mean duration of a long kernel; beside a short one its launch (some 5 µs) counts."""

OCCUPANCY = Limits(20.0, 30.0)
"""Percent of the warps that could be resident."""


@dataclass(frozen=True)
class CountedKernels:
    """What was counted of one pass, beside its time and what the device can copy."""

    value: int
    milliseconds: float
    samples: int
    kernels: int
    busy_ms: float
    dram_bytes: float
    compulsory_bytes: float
    copy_bytes_per_ms: float
    matrix: float
    occupancy: float

    @property
    def idle(self) -> float:
        """Percent of the time in which no kernel runs."""
        return max(0.0, 100 * (1 - self.busy_ms / self.milliseconds))

    @property
    def agrees(self) -> bool:
        """Whether the time that was counted can be that of the pass that was timed."""
        if self.busy_ms > LONGEST_BUSY * self.milliseconds:
            return False
        gap_ms = (self.milliseconds - self.busy_ms) / self.kernels
        return gap_ms <= LONGEST_GAP_MS or not IDLE.holds(self.idle)

    @property
    def memory(self) -> float:
        """DRAM traffic of the kernels, in percent of the measured copy bandwidth."""
        return 100 * self.dram_bytes / self.busy_ms / self.copy_bytes_per_ms

    @property
    def excess(self) -> float:
        """Bytes moved over those that any implementation must move."""
        return self.dram_bytes / self.compulsory_bytes

    @property
    def kernel_us(self) -> float:
        """Mean duration of a kernel, in microseconds."""
        return 1e3 * self.busy_ms / self.kernels

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
            unfused = self.kernels > 1 and EXCESS.holds(self.excess)
            return "unfused" if unfused else "memory_bound"
        if BUSY.holds(busier) is None:
            return "none"
        long = KERNEL_MICROSECONDS.holds(self.kernel_us)
        if long is False:
            return "launch_bound"
        if long and OCCUPANCY.holds(self.occupancy) is False:
            return "occupancy"
        return "none"

    def to_json(self) -> dict[str, Any]:
        """What a finding's evidence keeps of the pass."""
        figures = {
            "milliseconds": self.milliseconds,
            "busy_milliseconds": self.busy_ms,
            "dram_bytes": self.dram_bytes,
            "compulsory_bytes": self.compulsory_bytes,
            "idle_percent": self.idle,
            "matrix_percent": self.matrix,
            "memory_percent": self.memory,
            "occupancy_percent": self.occupancy,
        }
        return {
            "value": self.value,
            "kernels": self.kernels,
            **{name: rounded(figure, EVIDENCE_DIGITS) for name, figure in figures.items()},
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
        kernels=int(found["kernels"]),
        busy_ms=found["busy_time"],
        dram_bytes=found["dram_bytes"],
        compulsory_bytes=work.compulsory_bytes(row, row["dtype"]),
        copy_bytes_per_ms=ceilings.copy.rate / 1e3,
        matrix=found["matrix_activity"],
        occupancy=found["occupancy"],
    )


def kernel_params(found: Sequence[CountedKernels]) -> dict[str, Any]:
    """What the sentences on passes with one cause quote."""
    figures: dict[str, list[float]] = {
        "matrix": [each.matrix for each in found],
        "copy": [each.memory for each in found],
        "idle": [each.idle for each in found],
        "occupancy": [each.occupancy for each in found],
        "kernel_us": [each.kernel_us for each in found],
        "gigabytes": [each.dram_bytes / 1e9 for each in found],
        "excess": [each.excess for each in found],
    }
    lows = {f"{name}_low": rounded(min(values)) for name, values in figures.items()}
    highs = {f"{name}_high": rounded(max(values)) for name, values in figures.items()}
    kernels = [each.kernels for each in found]
    return {
        "count": len(found),
        "values": [each.value for each in found],
        "kernels_low": min(kernels),
        "kernels_high": max(kernels),
        **lows,
        **highs,
    }
