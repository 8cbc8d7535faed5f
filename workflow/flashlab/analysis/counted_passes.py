"""What was counted of a pass beside its time, and the cause that it tells, by the kind of device.

The first rule that holds is the verdict. It is ``none`` where the time in kernels or operators is
not that of the timed pass (`CountedPass.agrees`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row
from flashlab.analysis.kinds.roofline import BOUND_SHARE
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.analysis.series import Series
from flashlab.telling.codes import by_code
from flashlab.telling.values import Span, Tellable, span


@dataclass(frozen=True)
class Limits:
    """A rule with its dead zone, for what was measured once and has no interval.

    It fails at `low` and under, and holds at `high` and over.
    """

    low: float
    high: float

    def holds(self, value: float) -> bool | None:
        """Whether it holds of a value; None within the dead zone."""
        if value >= self.high:
            return True
        return False if value <= self.low else None


IDLE = Limits(10.0, 20.0)
"""Percent of the time in which no kernel or operator runs."""

EXCESS = Limits(1.5, 2.0)
"""Bytes moved or allocated over those that any implementation must move."""

WAITING_PERCENT = 50.0
"""From this share of the time on in which no kernel runs, a pass waits for launches."""

MOST = Limits(40.0, 60.0)
"""Percent of the time in operators. Two kinds of operator may share the time, and a call's shares
scatter by some percent: neither of them takes most of it then."""

LONGEST_BUSY = 1.5
"""Times the measured time that the kernels, or the operators of the profiled call, may take."""


@dataclass(frozen=True)
class CountedPass(ABC):
    """What was counted of one pass, beside its time.

    `parts` are its kernels on a GPU, its operators on a CPU, `busy_ms` the time in them and `bytes`
    what they move or allocate. A kind of device has the counters of these (`COUNTERS`, the parts
    first) and of its shares in percent, the longest time per part that starting it could take, and
    a message for each verdict that is told.
    """

    COUNTERS: ClassVar[tuple[str, str, str]]
    SHARES: ClassVar[Mapping[str, str]]
    LONGEST_GAP_MS: ClassVar[float]
    MESSAGES: ClassVar[Mapping[str, str]]

    value: int
    milliseconds: float
    parts: int
    busy_ms: float
    bytes: float
    compulsory_bytes: float

    @classmethod
    def of(cls, series: Series, row: Row, estimates: Estimates, **known: float) -> Self | None:
        """What was counted of the pass behind a row; None where nothing was."""
        experiment, work = series.experiment, series.metric.work
        counted = experiment.counters_of(row, series.metric.name)
        parts, busy, moved = cls.COUNTERS
        if work is None or not counted.get(busy):
            return None
        return cls(
            value=experiment.value_of(row),
            milliseconds=estimates.of_row(experiment, row).median,
            parts=int(counted[parts]),
            busy_ms=counted[busy],
            bytes=counted[moved],
            compulsory_bytes=work.compulsory_bytes(row, row["dtype"]),
            **{share: counted[counter] for share, counter in cls.SHARES.items()},
            **known,
        )

    @property
    def idle(self) -> float:
        """Percent of the time in which no part runs."""
        return max(0.0, 100 * (1 - self.busy_ms / self.milliseconds))

    @property
    def agrees(self) -> bool:
        """Whether the time that was counted can be that of the pass that was timed."""
        if self.busy_ms > LONGEST_BUSY * self.milliseconds:
            return False
        gap_ms = (self.milliseconds - self.busy_ms) / self.parts
        return gap_ms <= self.LONGEST_GAP_MS or not IDLE.holds(self.idle)

    @property
    def excess(self) -> float:
        """Bytes over those that any implementation must move."""
        return self.bytes / self.compulsory_bytes

    @property
    def verdict(self) -> str:
        """The cause; ``none`` where no rule holds clearly."""
        return self._cause() if self.agrees else "none"

    @abstractmethod
    def _cause(self) -> str:
        """The first of the rules that holds."""

    @property
    @abstractmethod
    def figures(self) -> Mapping[str, tuple[str, float]]:
        """What statements quote beside the number of parts, by name: its unit and the figure."""

    def to_json(self) -> dict[str, Any]:
        """The pass as evidence."""
        figures = {
            "milliseconds": self.milliseconds,
            "busy_milliseconds": self.busy_ms,
            "bytes": self.bytes,
            "compulsory_bytes": self.compulsory_bytes,
            **{
                f"{name}_percent": n
                for name, (unit, n) in self.figures.items()
                if unit == "percent"
            },
        }
        printed = {name: rounded(figure, EVIDENCE_DIGITS) for name, figure in figures.items()}
        return {"value": self.value, self.COUNTERS[0]: self.parts, **printed}


@dataclass(frozen=True)
class CountedKernels(CountedPass):
    """What was counted of one pass on a GPU, beside its time and what the device can copy.

    - ``launch_bound``: no kernel runs for half of the time or more.
    - ``matrix_bound``, or ``unfused`` or ``memory_bound``: the matrix units, or DRAM against the
      measured copy bandwidth, are busy; the busier decides. It is unfused where several kernels
      move a multiple of the bytes that any implementation must move.
    - ``neither``: no rule holds, so neither is saturated.
    """

    COUNTERS = ("kernels", "busy_time", "dram_bytes")
    SHARES: ClassVar[Mapping[str, str]] = {"matrix": "matrix_activity"}
    LONGEST_GAP_MS = 0.2
    MESSAGES = by_code(
        *("cause.launch_bound", "cause.matrix_bound", "cause.memory_bound", "cause.unfused"),
        "cause.neither",
    )

    matrix: float
    copy_bytes_per_ms: float

    @property
    def memory(self) -> float:
        """DRAM traffic of the kernels, in percent of the measured copy bandwidth."""
        return 100 * self.bytes / self.busy_ms / self.copy_bytes_per_ms

    def _cause(self) -> str:
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


@dataclass(frozen=True)
class CountedOperators(CountedPass):
    """What was counted of one pass on a CPU; shares in percent of the time in operators.

    - ``launch_bound``: no operator runs for much of the time, which goes into calling them.
    - ``fused``: attention in one operator takes most of the time in operators.
    - ``products``: matrix products take most of it.
    - ``unfused`` or ``elementwise``: softmax, element-wise operators and copies take most of it. It
      is unfused where several operators allocate a multiple of the bytes that any implementation
      must move.
    - ``none``: no rule holds clearly.
    """

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

    def _cause(self) -> str:
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


def spans_of(passes: Sequence[CountedPass]) -> dict[str, Tellable]:
    """What statements on passes with one cause quote: the lowest and highest of each figure."""
    parts, unit = [counted.parts for counted in passes], passes[0].COUNTERS[0]
    spans: dict[str, Tellable] = {unit: Span(min(parts), max(parts), unit)}
    for name, (unit, _) in passes[0].figures.items():
        values = [counted.figures[name][1] for counted in passes]
        spans[name] = span(rounded(min(values)), rounded(max(values)), unit)
    return spans
