"""What was counted of a pass beside its time: what the causes on a GPU and on a CPU share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from flashlab.analysis.limits import IDLE
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.telling.values import Span, Tellable, span

LONGEST_BUSY = 1.5
"""Times the measured time that the kernels, or the operators of the profiled call, may take."""


@dataclass(frozen=True)
class CountedPass(ABC):
    """What was counted of one pass, beside its time.

    `parts` are its kernels on a GPU, its operators on a CPU, `busy_ms` the time in them and `bytes`
    what they move or allocate. A kind of device has its name for the parts (`PARTS`), the longest
    time per part that starting it could take, the method, and a message for each
    verdict that is told.
    """

    PARTS: ClassVar[str]
    LONGEST_GAP_MS: ClassVar[float]
    METHOD: ClassVar[str]
    MESSAGES: ClassVar[Mapping[str, str]]

    value: int
    milliseconds: float
    samples: int
    parts: int
    busy_ms: float
    bytes: float
    compulsory_bytes: float

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
    def evidence(self) -> Mapping[str, float]:
        """What a finding's evidence keeps of the pass, by name."""

    @property
    @abstractmethod
    def quoted(self) -> Mapping[str, tuple[str, float]]:
        """What the statements quote of the pass, by name: its unit and the figure."""

    def to_json(self) -> dict[str, Any]:
        """The pass as evidence."""
        figures = {name: rounded(each, EVIDENCE_DIGITS) for name, each in self.evidence.items()}
        return {"value": self.value, self.PARTS: self.parts, **figures}


def spans_of(found: Sequence[CountedPass]) -> dict[str, Tellable]:
    """What statements on passes with one cause quote: the lowest and highest of each figure."""
    parts = [each.parts for each in found]
    spans: dict[str, Tellable] = {found[0].PARTS: Span(min(parts), max(parts), found[0].PARTS)}
    for name, (unit, _) in found[0].quoted.items():
        values = [each.quoted[name][1] for each in found]
        spans[name] = span(rounded(min(values)), rounded(max(values)), unit)
    return spans
