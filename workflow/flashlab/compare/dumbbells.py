"""The dumbbells: for each run, where the second side stands against the first.

A figure for each implementation, a panel for each metric, a row for each run: a line from the first
side, at 1, to the second, at the ratio, with its 95% interval. A metric that is the same in every
run has no panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.rule import EQUAL, GAINS, INCONCLUSIVE, LOSSES
from flashlab.figures import style
from flashlab.figures.labels import title_metric
from flashlab.files import read_json

COLOURS = {
    **dict.fromkeys(LOSSES, "#AB1700"),
    **dict.fromkeys(GAINS, "#0061E0"),
    EQUAL: "#333333",
    INCONCLUSIVE: "#999999",
}
ROW_INCHES = 0.115
MOST_ROWS = 40
"""Rows that fit on a page; an implementation with more runs has several figures."""

LEAST_SPAN = 1.25
"""The ratio that the axis reaches at least, in both directions."""

MOST_SPAN = 10.0
"""An interval that goes farther is cut off at the panel's edge."""


def _scale(axes: Axes, ratios: pd.DataFrame) -> None:
    """The logarithmic axis, as far from 1 as these ratios and their intervals go."""
    widest = float(np.exp(np.nanmax(np.abs(np.log(ratios.to_numpy(dtype=float))))))
    span = min(max(1.06 * widest, LEAST_SPAN), MOST_SPAN)
    steps = (1.1, 1.2) if span < 1.5 else (1.25, 1.5, 2.0) if span < 2.5 else (2.0, 5.0, 10.0)
    ticks = [tick for step in steps if step <= span for tick in (step, 1 / step)]
    axes.set_xscale("log")
    axes.set_xlim(1 / span, span)
    axes.xaxis.set_major_locator(FixedLocator(sorted([1.0, *ticks])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.as_number(round(value, 2))))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_panel(axes: Axes, pairs: pd.DataFrame) -> None:
    _scale(axes, pairs[["ratio", "low", "high"]])
    shades = [COLOURS[verdict] for verdict in pairs["verdict"]]
    axes.hlines(pairs["row"], 1, pairs["ratio"], colors=shades, linewidth=1.4, zorder=2)
    axes.hlines(pairs["row"], pairs["low"], pairs["high"], colors=shades, linewidth=0.6, zorder=2)
    axes.plot([1] * len(pairs), pairs["row"], "o", ms=3.2, color=style.GREY, mfc="white", zorder=3)
    for is_open, marker, size in ((True, "D", 2.6), (False, "o", 3.4)):
        some = pairs[(pairs["verdict"] == INCONCLUSIVE) == is_open]
        colours = [COLOURS[verdict] for verdict in some["verdict"]]
        axes.scatter(
            some["ratio"], some["row"], s=size**2, c=colours, marker=marker, lw=0, zorder=4
        )


def _draw(
    pairs: pd.DataFrame, benchmark: Benchmark, margin: float, languages: Sequence[str]
) -> Figure:
    """One figure of an implementation's pairs, with a row for each shape."""
    shapes = list(pairs["shape"].unique())
    pairs = pairs.assign(row=pairs["shape"].map(shapes.index) + 0.5)
    compared = set(pairs["metric"][pairs["ratio"] != 1]) or set(pairs["metric"])
    metrics = [metric for metric in benchmark.measured if metric.name in compared]
    figure, (panels,) = style.new_panels(style.PAGE_INCHES, 1, len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
        _draw_panel(axes, pairs[pairs["metric"] == metric.name])
        style.title_panel(axes, [title_metric(metric, languages)])
        style.name_rows(axes, shapes)
    style.lay_out(figure, max(ROW_INCHES * len(shapes), 0.3))
    return figure


def draw_comparison(comparison_file: Path, folder: Path) -> None:
    """Write the figures of a comparison into a folder: ``<implementation>-<number>.svg``."""
    document = read_json(comparison_file)
    benchmark = find_benchmark(document["benchmark"])
    folder.mkdir(parents=True, exist_ok=True)
    pairs = pd.DataFrame(
        {"implementation": pair["run"]["implementation"], **pair}
        for pair in document["pairs"]
        if pair["metric"]
    )
    with style.drawing():
        for name in pairs["implementation"].unique() if len(pairs) else ():
            of_it = pairs[pairs["implementation"] == name]
            page = pd.factorize(of_it["shape"])[0] // MOST_ROWS
            for number in range(page.max() + 1):
                shown = of_it[page == number]
                figure = _draw(shown, benchmark, document["margin"], document["languages"])
                style.save(figure, folder / f"{name}-{number + 1}.svg")
