"""Why a pass takes its time on a CPU, as far as its operators in PyTorch's profiler tell.

In this order, the first that holds is the verdict:

- ``none``: the time in operators is not that of the timed pass (`CountedOperators.agrees`).
- ``launch_bound``: no operator runs for much of the time, which goes into calling them.
- ``fused``: attention in one operator takes most of the time in operators.
- ``products``: matrix products take most of it.
- ``unfused`` or ``elementwise``: softmax, element-wise operators and copies take most of it. It is
  unfused where several operators allocate a multiple of the bytes that any implementation must
  move.
- ``none``: no rule holds clearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.findings.limits import EXCESS, IDLE, Limits
from flashlab.findings.ratios import EVIDENCE_DIGITS, Estimates, rounded
from flashlab.findings.series import Series
from flashlab.sweep import Row

METHOD = (
    "operators of one pass by PyTorch's profiler beside the median time: shares of the time in "
    "operators; bytes that the allocator handed out over those that any implementation must move"
)

MOST = Limits(40.0, 60.0)
"""Percent of the time in operators. Two kinds of operator may share the time, and a call's shares
scatter by some percent: neither of them takes most of it then."""

LONGEST_CALL_MS = 0.1
"""Longest time per operator that calling it could take."""

LONGEST_RUN = 1.5
"""Times the measured time that the operators of the profiled call may take."""


@dataclass(frozen=True)
class CountedOperators:
    """What was counted of one pass, beside its time; shares in percent of the time in operators."""

    value: int
    milliseconds: float
    samples: int
    operators: int
    operator_ms: float
    allocated_bytes: float
    compulsory_bytes: float
    product: float
    softmax: float
    fused: float
    elementwise: float

    @property
    def idle(self) -> float:
        """Percent of the time in which no operator runs."""
        return max(0.0, 100 * (1 - self.operator_ms / self.milliseconds))

    @property
    def agrees(self) -> bool:
        """Whether the time in operators can be that of the pass that was timed."""
        if self.operator_ms > LONGEST_RUN * self.milliseconds:
            return False
        gap_ms = (self.milliseconds - self.operator_ms) / self.operators
        return gap_ms <= LONGEST_CALL_MS or not IDLE.holds(self.idle)

    @property
    def excess(self) -> float:
        """Bytes allocated over those that any implementation must move."""
        return self.allocated_bytes / self.compulsory_bytes

    @property
    def between(self) -> float:
        """Share of softmax, element-wise operators and copies."""
        return self.softmax + self.elementwise

    @property
    def verdict(self) -> str:
        """The cause; ``none`` where no rule holds clearly."""
        if not self.agrees:
            return "none"
        if IDLE.holds(self.idle):
            return "launch_bound"
        if MOST.holds(self.fused):
            return "fused"
        if MOST.holds(self.product):
            return "products"
        if MOST.holds(self.between):
            excess = EXCESS.holds(self.excess) if self.operators > 1 else False
            return "none" if excess is None else "unfused" if excess else "elementwise"
        return "none"

    def to_json(self) -> dict[str, Any]:
        """What a finding's evidence keeps of the pass."""
        figures = {
            "milliseconds": self.milliseconds,
            "operator_milliseconds": self.operator_ms,
            "allocated_bytes": self.allocated_bytes,
            "compulsory_bytes": self.compulsory_bytes,
            "idle_percent": self.idle,
            "product_percent": self.product,
            "softmax_percent": self.softmax,
            "fused_percent": self.fused,
            "elementwise_percent": self.elementwise,
        }
        return {
            "value": self.value,
            "operators": self.operators,
            **{name: rounded(figure, EVIDENCE_DIGITS) for name, figure in figures.items()},
        }


def counted_operators(series: Series, row: Row, estimates: Estimates) -> CountedOperators | None:
    """What was counted of the pass behind a row; None where nothing was."""
    sweep, work = series.sweep, series.metric.work
    found = sweep.counters_of(row, series.metric.name)
    if work is None or not found or not found["operator_time"]:
        return None
    time = estimates.of_row(sweep, row)
    return CountedOperators(
        value=sweep.value_of(row),
        milliseconds=time.median,
        samples=time.count,
        operators=int(found["operators"]),
        operator_ms=found["operator_time"],
        allocated_bytes=found["allocated_bytes"],
        compulsory_bytes=work.compulsory_bytes(row, row["dtype"]),
        product=found["product_share"],
        softmax=found["softmax_share"],
        fused=found["fused_share"],
        elementwise=found["elementwise_share"],
    )


def operator_params(found: Sequence[CountedOperators]) -> dict[str, Any]:
    """What the sentences on passes with one cause quote."""
    figures: dict[str, list[float]] = {
        "product": [each.product for each in found],
        "softmax": [each.softmax for each in found],
        "fused": [each.fused for each in found],
        "elementwise": [each.elementwise for each in found],
        "between": [each.between for each in found],
        "idle": [each.idle for each in found],
        "megabytes": [each.allocated_bytes / 1e6 for each in found],
        "excess": [each.excess for each in found],
    }
    operators = [each.operators for each in found]
    return {
        "count": len(found),
        "values": [each.value for each in found],
        "operators_low": min(operators),
        "operators_high": max(operators),
        **{f"{name}_low": rounded(min(values)) for name, values in figures.items()},
        **{f"{name}_high": rounded(max(values)) for name, values in figures.items()},
    }
