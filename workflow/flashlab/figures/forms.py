"""Which form a figure has, and what is in it: the report asks this too, which draws none."""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import FLOPS, Metric

EFFECTS = "effects"
"""The beginning of the ids of the figures of a variant's effect."""

FEW = 2
"""Most lines of a panel whose values are printed at the points, and their ratio below the axis."""

MOST_LINES = 3
"""More implementations than this are marks, bars and bands instead."""

MOST_VALUES = 6
"""Most values of a sweep of which each has a panel of marks, or a group of bars."""

MOST_BARS_OF_HALF = 24
"""Most bars of a panel that is half as wide as a page."""

CEILING_ROOM = 1.2
"""By which factor an axis of rates grows at most to show a ceiling: the data come first."""


def is_of_many(experiment: Experiment, names: Sequence[str]) -> bool:
    """True for a figure of too many implementations for lines, at few values of a sweep."""
    is_plain = len(experiment.variants) == 1 and not experiment.has_alternatives
    return is_plain and len(names) > MOST_LINES and len(experiment.values) <= MOST_VALUES


def is_wide(experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]) -> bool:
    """True for a figure as wide as a page."""
    quantity = metrics[0].quantity
    if experiment.has_alternatives:
        return False
    if is_of_many(experiment, names):
        if quantity.exact:
            return False
        if quantity.logarithmic:
            return len(experiment.values) > FEW
        return len(names) * len(experiment.values) > MOST_BARS_OF_HALF
    few = len(names) * len(experiment.variants) <= FEW
    return few and len(metrics) > 1 and not experiment.is_of_problems


def has_guides(experiment: Experiment, names: Sequence[str], metric: Metric) -> bool:
    """True for lines of times that are drawn beside the growth of the operations."""
    is_valued = len(names) <= FEW and not experiment.is_of_problems and experiment.is_ordered
    is_of_time = metric.work is not None and metric.quantity.logarithmic
    return is_valued and is_of_time and len(experiment.variants) == 1


def ceiling_bounds(product: Ceiling | None, metric: Metric) -> tuple[float, float] | None:
    """The least and the greatest rate of a ceiling in a metric's unit; None of what is no rate."""
    if product is None or metric.unit not in FLOPS:
        return None
    low, high = (rate / FLOPS[metric.unit] for rate in product.bounds)
    return low, high


def has_room(bounds: tuple[float, float], highest: float) -> bool:
    """True if an axis from zero to a highest value shows a ceiling without squeezing the values."""
    return bounds[1] <= CEILING_ROOM * highest
