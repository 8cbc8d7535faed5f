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

from flashlab.analysis.counted_passes import EXCESS, IDLE, CountedPass, Limits

MOST = Limits(40.0, 60.0)
"""Percent of the time in operators. Two kinds of operator may share the time, and a call's shares
scatter by some percent: neither of them takes most of it then."""


@dataclass(frozen=True)
class CountedOperators(CountedPass):
    """What was counted of one pass on a CPU; shares in percent of the time in operators."""

    COUNTERS = ("operators", "operator_time", "allocated_bytes")
    SHARES: ClassVar[Mapping[str, str]] = {
        "product": "product_share",
        "softmax": "softmax_share",
        "fused": "fused_share",
        "elementwise": "elementwise_share",
    }
    LONGEST_GAP_MS = 0.1
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
    def figures(self) -> Mapping[str, tuple[str, float]]:
        """What statements quote."""
        shares = {n: ("percent", getattr(self, n)) for n in (*self.SHARES, "between", "idle")}
        moved = ("megabytes", self.bytes / 1e6)
        return {**shares, "allocated": moved, "excess": ("times", self.excess)}
