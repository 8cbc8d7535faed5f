"""Page one's figure: every metric against the baseline, in the first experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flashlab.figures.comparisons import Comparisons
from flashlab.figures.labels import (
    label_briefly,
    label_variant,
    title_experiment,
    title_metric,
)
from flashlab.figures.style import (
    GREY,
    PAGE_INCHES,
    SMALL_POINTS,
    draw_legend,
    each_variant,
    facet_grid,
    name_artists,
    place_panels,
    scale_sizes,
)
from flashlab.statistics import MARGIN

EXPERIMENTS = 5
"""Experiments that the figure shows: the first ones, as many as are legible on A4."""

ROW_INCHES = 0.72
TITLE_INCHES = 0.13
TITLE_LETTERS = 22
"""Letters of a title that fit its column."""


def _draw_ratios(data: pd.DataFrame, color: str, marker: str, label: str) -> None:
    """The ratios of an implementation in the current panel, with their intervals."""
    axes = plt.gca()
    for found, style in each_variant(data, color):
        drawn: list[Any] = axes.plot(
            found["size"], found["ratio"], marker=marker, markersize=3.6, linewidth=1.1, **style
        )
        bounded = found.dropna(subset=["low", "high"])
        bars = axes.vlines(
            bounded["size"], bounded["low"], bounded["high"], color=color, linewidth=0.9
        )
        name_artists(label, [*drawn, bars])


def _scale_ratios(axes: Axes, data: pd.DataFrame) -> None:
    """Ratios on a logarithmic scale that holds all of these, and 1."""
    ratios = data[["ratio", "low", "high"]]
    axes.set_yscale("log", base=2)
    axes.set_ylim(np.fmin(ratios.min().min(), 0.9) / 1.15, np.fmax(ratios.max().max(), 1.1) * 1.15)
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}×"))
    axes.yaxis.set_minor_locator(NullLocator())


def draw_summary(compared: Comparisons, languages: Sequence[str]) -> Figure:
    """Every metric against the baseline: a column an experiment, a row a metric.

    Experiments without a ratio are left out.
    """
    metrics, ratios = compared.metrics, compared.data.dropna(subset="ratio")
    found = set(ratios["experiment"])
    sweeps = [sweep for sweep in compared.sweeps if sweep.name in found][:EXPERIMENTS]
    names = [sweep.name for sweep in sweeps]
    data = ratios[ratios["experiment"].isin(names)]
    grid = facet_grid(
        data,
        compared.entries,
        row="metric",
        row_order=[metric.name for metric in metrics],
        col="experiment",
        col_order=names,
        sharex="col",
        sharey="row",
    )
    grid.map_dataframe(_draw_ratios)
    for row, metric in zip(grid.axes, metrics, strict=True):
        _scale_ratios(row[0], data[data["metric"] == metric.name])
        row[0].set_ylabel(title_metric(metric, languages, "\n"), fontsize=SMALL_POINTS + 0.5)
        for axes, sweep in zip(row, sweeps, strict=True):
            axes.axhspan(1 / (1 + MARGIN), 1 + MARGIN, color="#DDDDDD", linewidth=0, zorder=0.5)
            axes.axhline(1, color=GREY, linewidth=0.7, zorder=0.6)
            scale_sizes(axes, sweep.values, [str(value) for value in sweep.values])
            axes.tick_params(labelsize=SMALL_POINTS - 0.5, pad=1.5)
            axes.margins(x=0.12)
    titles = [title_experiment(sweep, languages, TITLE_LETTERS) for sweep in sweeps]
    for column, sweep, title in zip(grid.axes.T, sweeps, titles, strict=True):
        style: dict[str, Any] = {"fontsize": SMALL_POINTS + 0.5}
        column[0].set_title("\n".join(title), linespacing=1.2, pad=4, **style)
        column[-1].set_xlabel(label_briefly(sweep), labelpad=1, **style)
    benchmark, entries = sweeps[0].benchmark, compared.entries
    variants = [label_variant(benchmark, variant, languages) for variant in compared.variants]
    legend = draw_legend(grid.figure, entries, variants, languages)
    above = 0.1 + TITLE_INCHES * max(map(len, titles))
    margins = 0.66, 0.08, 0.36 + legend, above
    place_panels(
        grid.figure, PAGE_INCHES, ROW_INCHES * len(metrics), margins, wspace=0.1, hspace=0.14
    )
    figure: Figure = grid.figure
    return figure
