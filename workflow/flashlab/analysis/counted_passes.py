"""What was counted of a pass beside its time: what the causes on a GPU and on a CPU share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.analysis.series import Series
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
    @abstractmethod
    def verdict(self) -> str:
        """The cause; ``none`` where no rule holds clearly."""

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


def spans_of(passes: Sequence[CountedPass]) -> dict[str, Tellable]:
    """What statements on passes with one cause quote: the lowest and highest of each figure."""
    parts, unit = [counted.parts for counted in passes], passes[0].COUNTERS[0]
    spans: dict[str, Tellable] = {unit: Span(min(parts), max(parts), unit)}
    for name, (unit, _) in passes[0].figures.items():
        values = [counted.figures[name][1] for counted in passes]
        spans[name] = span(rounded(min(values)), rounded(max(values)), unit)
    return spans
