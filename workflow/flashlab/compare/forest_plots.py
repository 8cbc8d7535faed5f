"""Forest plots: for each run the speed of the second side over the first, with its 95% interval.

A figure for each implementation, a panel for each time, a row for each setting; all have one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.benchmarks.model import Metric
from flashlab.compare.listing import compared_of
from flashlab.figures import style
from flashlab.figures.forms import PAGE_INCHES
from flashlab.figures.labels import title_metric
from flashlab.files import read_json
from flashlab.story.tables import EQUAL, FASTER, SLOWER, UNDECIDED

COLOURS = {SLOWER: "#AB1700", FASTER: "#0061E0", EQUAL: "#333333", UNDECIDED: "#999999"}
ROW_INCHES = 0.1
MOST_ROWS = 40
"""Rows that fit on a page; an implementation with more runs has several figures."""

LEAST_ENDS = (0.9, 1.1)
"""Speeds that the axis reaches at least."""

MOST_SPAN = 10.0
"""The largest ratio of speeds on the axis, either way; intervals beyond are cut off at the edge."""

TICKS = {
    2.0: (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6),
    8.0: (0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0),
    MOST_SPAN**2: (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""The labelled speeds, by the largest ratio of the axis' ends to which they apply."""

Ends = tuple[float, float]


def _ends(speeds: pd.Series[float]) -> Ends:
    """The ends of the axis for these speeds; intervals may reach beyond it."""
    low, high = LEAST_ENDS
    ends = min(low, 0.95 * speeds.min()), max(high, 1.05 * speeds.max())
    return max(ends[0], 1 / MOST_SPAN), min(ends[1], MOST_SPAN)


def _scale(axes: Axes, ends: Ends) -> None:
    low, high = ends
    ticks = next(ticks for span, ticks in TICKS.items() if high / low <= span)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.as_number(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_panel(axes: Axes, speeds: pd.DataFrame) -> None:
    axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
    shades = speeds.word.map(COLOURS)
    ends = speeds.slowest, speeds.fastest
    axes.hlines(speeds.row, *ends, colors=[*shades], linewidth=1.0, zorder=2)
    for is_open, marker, size in ((True, "D", 2.6), (False, "o", 3.4)):
        some = (speeds.word == UNDECIDED) == is_open
        at = speeds.x[some], speeds.row[some]
        axes.scatter(*at, s=size**2, c=shades[some], marker=marker, lw=0, zorder=4)


def _draw(
    speeds: pd.DataFrame,
    metrics: Sequence[Metric],
    margin: float,
    ends: Ends,
    languages: Sequence[str],
) -> Figure:
    """One figure of an implementation's speeds, with a row for each setting."""
    shapes = list(speeds["shape"].unique())
    speeds = speeds.assign(row=speeds["shape"].map(shapes.index) + 0.5)
    figure, (panels,) = style.new_panels(PAGE_INCHES, 1, len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
        _scale(axes, ends)
        _draw_panel(axes, speeds[speeds.metric == metric.name])
        style.title_panel(axes, [title_metric(metric, languages)])
        style.name_rows(axes, shapes)
    style.lay_out(figure, max(ROW_INCHES * len(shapes), 0.3))
    return figure


def draw_comparison(comparison_file: Path, folder: Path) -> None:
    """Write the figures of a comparison into a folder: ``<place>-<implementation>-<number>.svg``.

    The place is that of the implementation among all, as in the table of page one.
    """
    document = read_json(comparison_file)
    folder.mkdir(parents=True, exist_ok=True)
    compared = compared_of(document)
    speeds = compared.speeds
    if "seq_len" in speeds:
        speeds = speeds.sort_values("seq_len", kind="stable")
    ends = _ends(speeds.x) if len(speeds) else LEAST_ENDS
    metrics = [metric for metric in compared.times if (speeds.metric == metric.name).any()]
    given = document["margin"], ends, document["languages"]
    with style.drawing():
        for position, name in enumerate(compared.implementations):
            of_it = speeds[speeds.implementation == name]
            page = pd.Series(pd.factorize(of_it["shape"])[0] // MOST_ROWS, of_it.index)
            for number, shown in of_it.groupby(page):
                figure = _draw(shown, metrics, *given)
                style.save(figure, folder / f"{position:03}-{name}-{number}.svg")
