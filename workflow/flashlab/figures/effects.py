"""The effect of a variant, such as a mask, on each time: the speed with it over that without it.

A panel for each pass, a row an implementation; its marks are the last value of the sweep, filled,
and the first. A dashed line is what the operations allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab import statistics
from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import EFFECTS, HALF_INCHES
from flashlab.figures.labels import title_metric
from flashlab.figures.many import draw_row, legend_of_marks
from flashlab.figures.style import (
    GREY,
    draw_legend,
    lay_out,
    looks_of,
    name_rows,
    new_panels,
    title_panel,
)
from flashlab.numbers import tick, times

ROW_INCHES, LEAST_INCHES = 0.16, 0.7
"""The height of a row, and the least of a panel, which stands beside a table."""

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
ROOM = 2.2
"""The factor by which an axis goes beyond its marks, for their numbers."""


def _speeds(experiment: Experiment, table: pd.DataFrame, metrics: Sequence[Metric]) -> pd.DataFrame:
    """The speed with the variant over the speed without it, of each pass at each value.

    The columns are those that a row of marks is drawn from.
    """
    (variant,) = experiment.varying_variants
    names = [metric.name for metric in metrics]
    rows = table[
        (table.experiment == experiment.name)
        & (table.compared == variant.name)
        & table.metric.isin(names)
        & table.value.notna()
    ]
    return pd.DataFrame(
        {
            "implementation": rows.subject,
            "metric": rows.metric,
            "size": rows.value.astype(int),
            "value": 1 / rows.ratio,
            "low": 1 / rows.high,
            "high": 1 / rows.low,
            "beyond": float("nan"),
            "is_best": False,
        }
    )


def _operations(experiment: Experiment, metric: Metric, size: int) -> float | None:
    """The operations of a pass without the variant over those with it."""
    runs = [run for run in experiment.runs if experiment.value_of(run) == size]
    by_variant = {experiment.variant_of(run): run for run in runs}
    if metric.work is None or len(by_variant) < 2:
        return None
    without, given = (by_variant[variant] for variant in experiment.variants)
    return metric.work.operations(without) / metric.work.operations(given)


def draw_effect(
    experiment: Experiment, table: pd.DataFrame, languages: Sequence[str]
) -> Figure | None:
    """The figure of an experiment whose runs differ in one variant; None of any other."""
    metrics = [m for m in metrics_of(experiment.benchmark, exact=False) if not m.higher_is_better]
    if (len(experiment.variants), len(experiment.varying_variants)) != (2, 1):
        return None
    if not experiment.is_ordered or not metrics:
        return None
    data = _speeds(experiment, table, metrics)
    if data.empty:
        return None
    order = [name for name in experiment.implementations if name in set(data["implementation"])]
    looks = looks_of(experiment.plan["implementations"])
    figure, (panels,) = new_panels(HALF_INCHES, 1, len(metrics), sharey=True)
    limit = _operations(experiment, metrics[0], experiment.values[-1])
    shown = [*data["value"], 1.0, *([limit] if limit else [])]
    ends = list(dict.fromkeys((experiment.values[-1], experiment.values[0])))
    for axes, metric in zip(panels, metrics, strict=True):
        name_rows(axes, order, looks=looks)
        axes.spines["left"].set_visible(False)
        _scale(axes, min(shown), max(shown), limit)
        of_metric = data[(data["metric"] == metric.name) & data["size"].isin(ends)]
        for row, name in enumerate(order):
            mine = of_metric[of_metric["implementation"] == name]
            mine = mine.assign(metric=mine["size"])
            draw_row(axes, row + 0.5, mine, looks[name], ends[0], times)
        title_panel(axes, [title_metric(metric, languages)])
    symbol = experiment.parameter.symbol
    draw_legend(figure, legend_of_marks([f"{symbol} = {size}" for size in ends]))
    lay_out(figure, max(LEAST_INCHES, ROW_INCHES * len(order)))
    return figure


def _scale(axes: Axes, low: float, high: float, limit: float | None) -> None:
    """An axis that all panels share, with the margin about 1 and what the operations allow."""
    margin = 1 + statistics.MARGIN
    axes.set(xscale="log", xlim=(low / ROOM, high * ROOM))
    axes.axvspan(1 / margin, margin, color="#E6E6E6", linewidth=0, zorder=0.6)
    axes.axvline(1, color="black", linewidth=0.6, zorder=0.7)
    if limit:
        axes.axvline(limit, color=GREY, linewidth=0.6, linestyle=(0, (3, 2)), zorder=0.7)
    inside = [tick for tick in TICKS if low / ROOM <= tick <= high * ROOM]
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{tick(value)}×"))


def draw_effects(
    experiments: Sequence[Experiment], table: pd.DataFrame, languages: Sequence[str]
) -> Iterator[tuple[str, Figure]]:
    """The figure of each experiment whose runs differ in one variant: ``effects-<experiment>``."""
    for experiment in experiments:
        if figure := draw_effect(experiment, table, languages):
            yield f"{EFFECTS}-{experiment.name}", figure
