"""Forest plots: for each run, the ratio of the second side to the first, with its 95% interval.

A figure for each implementation, a panel for each metric, a row for each run; all have one scale. A
metric that is the same in every run has no panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
ROW_INCHES = 0.104
MOST_ROWS = 40
"""Rows that fit on a page; an implementation with more runs has several figures."""

LEAST_ENDS = (0.9, 1.1)
"""Ratios that the axis reaches at least."""

MOST_SPAN = 10.0
"""The ratio that it reaches at most, either way; what goes farther is cut off at the edge."""

TICKS = {
    2.0: (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6),
    8.0: (0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0),
    MOST_SPAN**2: (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""The ratios that are named, by how many times the axis' end is its beginning, at most."""

Ends = tuple[float, float]


def _ends(ratios: pd.Series[float]) -> Ends:
    """From where to where the axis goes for these ratios; intervals may reach out of it."""
    low, high = LEAST_ENDS
    ends = min(low, 0.95 * ratios.min()), max(high, 1.05 * ratios.max())
    return max(ends[0], 1 / MOST_SPAN), min(ends[1], MOST_SPAN)


def _scale(axes: Axes, ends: Ends) -> None:
    low, high = ends
    ticks = next(ticks for span, ticks in TICKS.items() if high / low <= span)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.as_number(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_panel(axes: Axes, pairs: pd.DataFrame) -> None:
    axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
    shades = [COLOURS[verdict] for verdict in pairs["verdict"]]
    axes.hlines(pairs["row"], pairs["low"], pairs["high"], colors=shades, linewidth=1.0, zorder=2)
    for is_open, marker, size in ((True, "D", 2.6), (False, "o", 3.4)):
        some = pairs[(pairs["verdict"] == INCONCLUSIVE) == is_open]
        colours = [COLOURS[verdict] for verdict in some["verdict"]]
        axes.scatter(
            some["ratio"], some["row"], s=size**2, c=colours, marker=marker, lw=0, zorder=4
        )


def _draw(
    pairs: pd.DataFrame, benchmark: Benchmark, margin: float, ends: Ends, languages: Sequence[str]
) -> Figure:
    """One figure of an implementation's pairs, with a row for each shape."""
    shapes = list(pairs["shape"].unique())
    pairs = pairs.assign(row=pairs["shape"].map(shapes.index) + 0.5)
    compared = set(pairs["metric"][pairs["ratio"] != 1]) or set(pairs["metric"])
    metrics = [metric for metric in benchmark.measured if metric.name in compared]
    figure, (panels,) = style.new_panels(style.PAGE_INCHES, 1, len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
        _scale(axes, ends)
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
    ends = _ends(pairs["ratio"]) if len(pairs) else LEAST_ENDS
    with style.drawing():
        for name in pairs["implementation"].unique() if len(pairs) else ():
            of_it = pairs[pairs["implementation"] == name]
            page = pd.factorize(of_it["shape"])[0] // MOST_ROWS
            for number in range(page.max() + 1):
                shown = of_it[page == number]
                figure = _draw(shown, benchmark, document["margin"], ends, document["languages"])
                style.save(figure, folder / f"{name}-{number + 1}.svg")
