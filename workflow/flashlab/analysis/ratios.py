"""Ratios of medians with their intervals, verdicts by the margin, and printed digits."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flashlab import statistics
from flashlab.analysis.pairing import RunEstimate
from flashlab.statistics import CONFIDENCE, Estimate, Floats, function_estimate, interval_of

SIGNIFICANT_DIGITS = 3
EVIDENCE_DIGITS = 9


def rounded(value: float, digits: int = SIGNIFICANT_DIGITS) -> float:
    """A number as printed: to so many significant digits."""
    return float(f"{value:.{digits}g}")


ROUNDING_ERROR = 1e-12
"""The difference allowed between a ratio and the inverse of its inverse."""


def exceeds_margin(ratio: float) -> bool:
    """True if a ratio is above 1 by more than the margin.

    It is below 1 by more than that where its inverse exceeds it. So the margin is symmetric
    in the logarithm, and to exchange two names exchanges "above" and "below".
    """
    return math.log(ratio) > math.log1p(statistics.MARGIN) + ROUNDING_ERROR


def verdict_of(
    low: float | None, high: float | None, margin: float | None = None
) -> Literal["above", "below", "equal", "inconclusive"]:
    """The verdict of a ratio's 95% interval: wholly above or below the margin, or wholly within.

    The interval itself decides, not what is printed of it; without one, nothing does. The margin,
    `flashlab.statistics.MARGIN` unless another is given, is symmetric in the logarithm, so that to
    exchange both sides exchanges above and below.
    """
    if low is None or high is None:
        return "inconclusive"
    limit = math.log1p(statistics.MARGIN if margin is None else margin) + ROUNDING_ERROR
    if math.log(low) > limit:
        return "above"
    if math.log(high) < -limit:
        return "below"
    return "equal" if math.log(low) >= -limit and math.log(high) <= limit else "inconclusive"


OPPOSITE = {"above": "below", "below": "above"}
"""The verdict on a ratio's inverse, where it is another one."""


def inverse_of(ratio: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """The inverse of a ratio with its interval: of numbers, or of columns of them; None stays."""
    x, lowest, highest = (None if each is None else 1 / each for each in (ratio, high, low))
    return x, lowest, highest


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians at one value of the sweep, with its 95% interval if there is one.

    `pairs` are the processes that ran side by side and
    were compared one by one; none where it is that of two independent medians.
    """

    value: int
    ratio: float
    low: float | None
    high: float | None
    samples: int
    pairs: int = 0

    @property
    def verdict(self) -> str:
        """``above``, ``below`` or ``equal`` by the margin, else ``inconclusive`` (`verdict_of`)."""
        return verdict_of(self.low, self.high)


def function_of(
    value: int, function: Callable[..., Floats], estimates: Sequence[Estimate]
) -> Ratio:
    """A function of independent medians, such as a sum, with its interval."""
    found = function_estimate(function, estimates)
    low, high = interval_of(found) or (None, None)
    return Ratio(value, found.median, low, high, found.count)


LATER_ERROR = 0.01
"""The error of each look at a ratio after the first, whose interval is the usual one. With each
process that is added to decide a verdict, it is looked at once more (compare `compare.bench`)."""


def ratio(value: int, numerator: Estimate, denominator: Estimate) -> Ratio:
    """Ratio of two medians; exactly 1 where both are the same run's.

    Of two runs whose processes ran side by side, the interval is that of the pairs (`pairing`),
    which holds the ratio in any case: where a process was left out of a median, it is in the pairs.
    """
    quotient = numerator.median / denominator.median
    found, pairs, error = None, 0, 1 - CONFIDENCE
    if isinstance(numerator, RunEstimate) and isinstance(denominator, RunEstimate):
        if paired := numerator.over(denominator):
            found, pairs = paired.estimate, paired.processes
        if min(numerator.looks, denominator.looks):
            error = LATER_ERROR
    if found is None:
        found = function_estimate(operator.truediv, (numerator, denominator))
    if (ends := interval_of(found, error)) is None:
        return Ratio(value, quotient, None, None, found.count, pairs)
    low, high = min(ends[0], quotient), max(ends[1], quotient)
    return Ratio(value, quotient, low, high, found.count, pairs)
