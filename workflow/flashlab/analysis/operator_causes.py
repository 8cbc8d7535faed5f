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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from flashlab.analysis.counted_passes import CountedPass
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row
from flashlab.analysis.limits import EXCESS, IDLE, Limits
from flashlab.analysis.series import Series

MOST = Limits(40.0, 60.0)
"""Percent of the time in operators. Two kinds of operator may share the time, and a call's shares
scatter by some percent: neither of them takes most of it then."""


@dataclass(frozen=True)
class CountedOperators(CountedPass):
    """What was counted of one pass on a CPU; shares in percent of the time in operators."""

    PARTS: ClassVar[str] = "operators"
    LONGEST_GAP_MS: ClassVar[float] = 0.1
    METHOD: ClassVar[str] = (
        "operators of one pass by PyTorch's profiler beside the median time: shares of the time in "
        "operators; bytes that the allocator handed out over those that any implementation must "
        "move"
    )
    MESSAGES: ClassVar[Mapping[str, str]] = {
        "launch_bound": "cause.launch_bound.operators",
        "fused": "cause.fused.operators",
        "products": "cause.products.operators",
        "unfused": "cause.unfused.operators",
        "elementwise": "cause.elementwise.operators",
    }

    product: float
    softmax: float
    fused: float
    elementwise: float

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
            excess = EXCESS.holds(self.excess) if self.parts > 1 else False
            return "none" if excess is None else "unfused" if excess else "elementwise"
        return "none"

    @property
    def evidence(self) -> Mapping[str, float]:
        """What a finding's evidence keeps of the pass, by name."""
        return {
            "milliseconds": self.milliseconds,
            "operator_milliseconds": self.busy_ms,
            "allocated_bytes": self.bytes,
            "compulsory_bytes": self.compulsory_bytes,
            "idle_percent": self.idle,
            "product_percent": self.product,
            "softmax_percent": self.softmax,
            "fused_percent": self.fused,
            "elementwise_percent": self.elementwise,
        }

    @property
    def quoted(self) -> Mapping[str, tuple[str, float]]:
        """What the statements quote of the pass, by name: its unit and the figure."""
        return {
            "product": ("percent", self.product),
            "softmax": ("percent", self.softmax),
            "fused": ("percent", self.fused),
            "elementwise": ("percent", self.elementwise),
            "between": ("percent", self.between),
            "idle": ("percent", self.idle),
            "allocated": ("megabytes", self.bytes / 1e6),
            "excess": ("times", self.excess),
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
        parts=int(found["operators"]),
        busy_ms=found["operator_time"],
        bytes=found["allocated_bytes"],
        compulsory_bytes=work.compulsory_bytes(row, row["dtype"]),
        product=found["product_share"],
        softmax=found["softmax_share"],
        fused=found["fused_share"],
        elementwise=found["elementwise_share"],
    )
