"""The rule of every comparison: a ratio with its interval, and the verdict that it gives.

A difference counts only where the whole interval lies beyond the margin. Where it lies wholly
within, both are equal, and otherwise nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashlab import statistics
from flashlab.analysis.ratios import verdict_of
from flashlab.benchmarks.model import Metric

TIMES = ("s", "ms", "us", "ns")
"""Units of the metrics that are called faster and slower; others are better and worse."""

EQUAL, INCONCLUSIVE = "equal", "inconclusive"
FAILED, MENDED = "failed", "mended"
LOSSES, GAINS = ("slower", "worse"), ("faster", "better")
STATED = (FAILED, *LOSSES, MENDED, *GAINS)
"""The verdicts that state a difference, the most pressing first: ``failed`` is a run that had a
result on the first side alone."""

VERDICTS = (*STATED, INCONCLUSIVE, EQUAL)


@dataclass(frozen=True)
class Ratio:
    """A second value over a first, with its interval if there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def verdict(self, metric: Metric, margin: float = statistics.MARGIN) -> str:
        """What it says of the second value of a metric (`flashlab.analysis.ratios.verdict_of`)."""
        found = verdict_of(self.low, self.high, margin)
        if found in (EQUAL, INCONCLUSIVE):
            return found
        gained = (found == "above") == metric.higher_is_better
        return (GAINS if gained else LOSSES)[0 if metric.unit in TIMES else 1]
