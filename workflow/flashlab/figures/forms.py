"""Forms and sizes of figures, shared by their drawing and by the report's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import FLOPS, Metric

EFFECTS = "effects"
"""The beginning of the ids of the figures of a variant's effect."""

PAGE_INCHES = 180 / 25.4
"""Width of the text on A4."""

HALF_INCHES = 88 / 25.4
"""Width of a figure of which two stand side by side."""

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

VALUED_INCHES, BANDS_INCHES, GROUPS_INCHES = 1.25, 1.2, 0.58
"""The least height of a panel with printed values, of one with bands, and of one with bars."""

UPPER_INCHES, LOWER_INCHES = 1.0, 0.7
"""The least heights of the two panels of a curve."""

ROW_INCHES, BAR_INCHES = 0.143, 0.13
"""The least height of a row of marks, and of a bar of alternatives."""

GROUP_GAP = 0.5
"""The gap between the bars of two alternatives, in bars."""

PANELS_INCHES, GAP_INCHES = 1.25, 0.2
"""The least height of all panels of lines together, and the gap between two."""

LEAST_PANEL_INCHES = 0.4

TITLE_INCHES, LINE_INCHES = 0.2, 0.125
"""The heights of a panel's title, and of a line of ticks, of ratios or of a legend."""


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


# Sizes


@dataclass(frozen=True)
class Size:
    """The size of a figure in inches.

    Attributes:
        width: its width.
        panel: the least height of each of its panels.
        around: about what stands around them takes: titles, ticks, legends.
        panels: how many stand one below the other.
    """

    width: float
    panel: float
    around: float
    panels: int = 1

    @property
    def least(self) -> float:
        """The least height at which the figure is legible."""
        return self.around + self.panels * self.panel

    def panel_at(self, height: float) -> float:
        """The height of a panel of a figure of this height."""
        return (height - self.around) / self.panels


def drawn_metrics(
    experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]
) -> list[Metric]:
    """The metrics that any of the runs has, or the first one."""
    known = {
        row["metric"]
        for row in experiment.metrics
        if row["implementation"] in names and row["value"] is not None
    }
    return [metric for metric in metrics if metric.name in known] or [*metrics[:1]]


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


def size_of(experiment: Experiment, figure: Mapping[str, Any]) -> Size:
    """The size of a figure of a plan.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    names, quantity = figure["implementations"], figure["quantity"]
    if any(curve.name == quantity for curve in experiment.benchmark.curves):
        around = 2 * TITLE_INCHES + 4 * LINE_INCHES
        return Size(HALF_INCHES, UPPER_INCHES + LOWER_INCHES, around)
    metrics = experiment.benchmark.panels(quantity)
    width = PAGE_INCHES if is_wide(experiment, names, metrics) else HALF_INCHES
    if experiment.has_alternatives:
        count = len(drawn_metrics(experiment, names, metrics))
        bars = len(names) * (len(experiment.variants) + GROUP_GAP)
        around = count * (TITLE_INCHES + LINE_INCHES) + 2 * LINE_INCHES
        return Size(width, bars * BAR_INCHES, around, count)
    lines = _lines(experiment, names, metrics)
    failed = sum(len({*statuses} - {"ok"}) for statuses in lines.values())
    marked = sum(any(status != "ok" for status in statuses) for statuses in lines.values())
    ticks = 1 if experiment.is_of_problems else 1 + len(experiment.covarying)
    if not is_of_many(experiment, names):
        below = LINE_INCHES * (ticks + failed + 1)  # the ratios, or the label of the axis
        if len(lines) <= FEW and not experiment.is_of_problems:
            return Size(width, VALUED_INCHES, TITLE_INCHES + below + 0.8 * LINE_INCHES * marked)
        inner = (PANELS_INCHES - GAP_INCHES * (len(metrics) - 1)) / len(metrics)
        panel = max(inner, len(lines) * LINE_INCHES, LEAST_PANEL_INCHES)
        titles = len(metrics) * (TITLE_INCHES + 0.8 * LINE_INCHES * marked)
        return Size(HALF_INCHES, panel, titles + below, len(metrics))
    if metrics[0].quantity.exact:
        around = TITLE_INCHES + LINE_INCHES * (ticks + failed + 0.8 * marked)
        return Size(width, BANDS_INCHES, around)
    if metrics[0].quantity.logarithmic:
        return Size(width, ROW_INCHES * len(names), TITLE_INCHES + 2 * LINE_INCHES)
    share = 1 if width == PAGE_INCHES else 0.75
    ticks_and_legend = LINE_INCHES * (2 if width == PAGE_INCHES else 3)
    around = len(metrics) * TITLE_INCHES + ticks_and_legend
    return Size(width, GROUPS_INCHES * share, around, len(metrics))
