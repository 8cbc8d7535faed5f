"""Dots, where the values of a sweep name whole problems: a row each, a dot for each implementation.

A problem of which an implementation has no result has no dot of it; the tables say why.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.analysis.experiment import Sweep
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import title_lines
from flashlab.figures.lines import write_title
from flashlab.figures.placement import text_inches
from flashlab.figures.style import (
    HALF_INCHES,
    LABEL_POINTS,
    SMALL_POINTS,
    as_number,
    colour,
    draw_legend,
    logarithmic_ticks,
    marker,
    name_artists,
    place_panels,
)

ROW_INCHES = 0.16
HEAD_INCHES = 0.16
TAIL_INCHES = 0.2


def _draw_panel(axes: Axes, sweep: Sweep, names: Sequence[str], metric: Metric) -> None:
    """The dots of one metric."""
    shown: list[float] = []
    for entry in sweep.plan["implementations"]:
        name = entry["name"]
        if name not in names:
            continue
        rows = [
            row
            for variant in sweep.variants
            for row in sweep.metric_rows(name, variant, metric.name)
            if row["status"] == "ok"
        ]
        values = [row["value"] for row in rows]
        places = [sweep.values.index(sweep.value_of(row)) for row in rows]
        shown += values
        drawn = axes.plot(
            values,
            places,
            linestyle="none",
            marker=marker(entry),
            color=colour(entry),
            markeredgecolor="white",
            markeredgewidth=0.3,
            markersize=5.5,
        )
        name_artists(name, drawn)
    if shown:
        low, high = min(shown) / 1.5, max(shown) * 1.5
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(FixedLocator(logarithmic_ticks(low, high, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(as_number))
    axes.set_yticks(
        range(len(sweep.values)), [f"{sweep.parameter.symbol} = {v}" for v in sweep.values]
    )
    axes.set_ylim(len(sweep.values) - 0.5, -0.5)


def draw_problems(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """A panel a metric, one below the other, each with a row for every problem."""
    figure, grid = plt.subplots(len(metrics), 1, squeeze=False)
    labels = [f"{sweep.parameter.symbol} = {value}" for value in sweep.values]
    left = max(text_inches(label, SMALL_POINTS) for label in labels) + 0.08
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=marker(entry),
            color=colour(entry),
            markersize=5,
            label=entry["name"],
        )
        for entry in sweep.plan["implementations"]
        if entry["name"] in names
    ]
    titles = [title_lines(metric, languages, HALF_INCHES, LABEL_POINTS) for metric in metrics]
    head = HEAD_INCHES * max(map(len, titles))
    legend = draw_legend(figure, handles, HALF_INCHES)
    inner, gap = ROW_INCHES * len(sweep.values), head + TAIL_INCHES
    place_panels(
        figure,
        HALF_INCHES,
        inner * len(metrics) + gap * (len(metrics) - 1),
        (left, 0.06, TAIL_INCHES + legend, head),
        hspace=gap / inner,
    )
    for axes, metric, title in zip(grid[:, 0], metrics, titles, strict=True):
        _draw_panel(axes, sweep, names, metric)
        write_title(axes, title, LABEL_POINTS, 3)
    return figure
