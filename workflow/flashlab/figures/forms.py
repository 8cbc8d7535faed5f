"""What the captions of figures say of their forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
"""The factor by which an axis of rates grows at most to show a ceiling: the data come first."""


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
            return len(experiment.values) > FEW or bool(experiment.steps)
        return len(names) * len(experiment.values) > MOST_BARS_OF_HALF
    few = len(names) * len(experiment.variants) <= FEW
    return few and len(metrics) > 1 and not experiment.is_of_problems


def has_guides(experiment: Experiment, names: Sequence[str], metric: Metric) -> bool:
    """True for lines of times that are drawn beside the growth of the operations."""
    is_valued = len(names) <= FEW and not experiment.is_of_problems and experiment.is_ordered
    is_of_time = metric.work is not None and metric.quantity.logarithmic
    return is_valued and is_of_time and len(experiment.variants) == 1


def ceiling_bounds(product: Ceiling | None, metric: Metric) -> tuple[float, float] | None:
    """The least and the greatest rate of a ceiling in a metric's unit; None if it is no rate."""
    if product is None or metric.unit not in FLOPS:
        return None
    low, high = (rate / FLOPS[metric.unit] for rate in product.bounds)
    return low, high


def has_room(bounds: tuple[float, float], highest: float) -> bool:
    """True where an axis from zero to a highest value shows a ceiling, and no value is squeezed."""
    return bounds[1] <= CEILING_ROOM * highest


def _lines(
    experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]
) -> dict[Any, list[str]]:
    """The statuses of each line's values; variants with the same exact values are one line."""
    statuses: dict[Any, list[str]] = {}
    for name in names:
        for variant in experiment.variants:
            rows = [row for m in metrics for row in experiment.metric_rows(name, variant, m.name)]
            said = tuple((row["value"], row["status"]) for row in rows)
            is_exact = all(metric.exact for metric in metrics)
            if rows:
                statuses[name, said if is_exact else variant] = [row["status"] for row in rows]
    return statuses


def ratio_below(
    experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]
) -> str | None:
    """What the ratios below the axes of two lines are: ``speed``, or ``share`` of the first.

    None where there are none.
    """
    if experiment.is_of_problems or len(_lines(experiment, names, metrics)) != FEW:
        return None
    if len(names) == 1 or metrics[0].exact:
        return "share"
    is_of_time = experiment.baseline in names and not metrics[0].higher_is_better
    return "speed" if is_of_time else None
