"""Page one's figure of an experiment with two implementations: every speed, and the numbers.

A row a setting: each pass and the total on one logarithmic axis that all experiments share, with
95% intervals, and beside it the numbers and the share of the memory. A mark is hollow, and its
number grey, where no difference of more than the margin is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab import statistics
from flashlab.figures.style import GREY, RATIO, SMALL_POINTS, Style, rows_of, title_points
from flashlab.numbers import percent, times

WIDTH_MM, ROW_MM = 110.0, 3.9
LABELS_MM, NUMBER_MM = 11.0, 13.5
HEADS_MM, AXIS_MM, EDGE_MM = 6.5, 4.5, 1.0
MM = 1 / 25.4

PASSES, TOTAL = "^v", "o"
"""The markers of the passes in their order, and of the total, which is last."""

PASS_COLOUR, TOTAL_COLOUR = "#6B86A3", "#0A4C9C"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
ROOM = 1.15


@dataclass(frozen=True)
class SpeedRows:
    """The rows of an experiment.

    Attributes:
        symbol: of the swept parameter.
        values: of the sweep, a row each.
        speeds: by metric, the total last: ``x``, ``low``, ``high`` and ``verdict``, by value.
        shares: of the baseline's memory, by value.
        heads: of the columns, one for each metric and one for the share.
    """

    symbol: str
    values: Sequence[int]
    speeds: Mapping[str, pd.DataFrame]
    shares: Mapping[int, float]
    heads: Sequence[str]


def limits_of(rows: Sequence[SpeedRows]) -> tuple[float, float]:
    """The limits of the shared axis, about all estimates and 1."""
    every = [1.0, *(x for each in rows for speeds in each.speeds.values() for x in speeds.x)]
    return min(every) / ROOM, max(every) * ROOM


def draw_speeds(
    rows: SpeedRows, limits: tuple[float, float], *, has_heads: bool, has_axis: bool
) -> Figure:
    """The rows of an experiment; page one's first figure has the heads, its last the axis."""
    above, below = (HEADS_MM if has_heads else EDGE_MM), (AXIS_MM if has_axis else EDGE_MM)
    height = above + below + ROW_MM * len(rows.values)
    figure = plt.figure(figsize=(WIDTH_MM * MM, height * MM))
    width = WIDTH_MM - LABELS_MM - NUMBER_MM * len(rows.heads)
    place = (LABELS_MM / WIDTH_MM, below / height, width / WIDTH_MM, 1 - (above + below) / height)
    axes = figure.add_axes(place)
    _scale(axes, limits, len(rows.values), has_axis=has_axis)
    total = list(rows.speeds)[-1]
    for number, (metric, speeds) in enumerate(rows.speeds.items()):
        right = 1 + (number + 1) * NUMBER_MM / width
        marker = TOTAL if metric == total else PASSES[number % 2]
        _draw_speeds(axes, rows, speeds, marker, right)
    for y, value in enumerate(rows.values):
        if value in rows.shares:
            right = 1 + len(rows.heads) * NUMBER_MM / width
            _write(axes, right, y + 0.5, percent(rows.shares[value]))
        _write(axes, -1.5 / width, y + 0.5, str(value), color=GREY)
    _write(axes, -(LABELS_MM - 0.5) / width, 0.5, rows.symbol, color=GREY, ha="left")
    for number, head in enumerate(rows.heads if has_heads else ()):
        right = 1 + (number + 1) * NUMBER_MM / width
        _write(axes, right, -0.25, head, color=GREY, va="bottom")
    return figure


def _draw_speeds(
    axes: Axes, rows: SpeedRows, speeds: pd.DataFrame, marker: str, right: float
) -> None:
    """The marks of a metric with their intervals, and its column of numbers."""
    is_total = marker == TOTAL
    color = TOTAL_COLOUR if is_total else PASS_COLOUR
    size: Style = {"markersize": 5 if is_total else 4, "markeredgewidth": 0.8, "clip_on": False}
    for row in rows_of(speeds):
        y, is_decided = (
            list(rows.values).index(row.Index) + 0.5,
            row.verdict in ("faster", "slower"),
        )
        text = f"{times(row.x, row.low, row.high)}×"
        if row.high > row.low:
            axes.plot([row.low, row.high], [y, y], color=color, lw=0.9, zorder=2)
        face: Style = {"markerfacecolor": color if is_decided else "white", "color": color}
        (mark,) = axes.plot([row.x], [y], marker, zorder=3 + is_total, **size, **face)
        interval = f" ({times(row.low)}–{times(row.high)})" if row.high > row.low else ""
        title_points(mark, [f"{rows.symbol} = {row.Index}: {text}{interval}"])
        weight = "bold" if is_total and is_decided else "normal"
        _write(axes, right, y, text, color=RATIO if is_decided else GREY, fontweight=weight)


def _scale(axes: Axes, limits: tuple[float, float], count: int, *, has_axis: bool) -> None:
    margin = 1 + statistics.MARGIN
    axes.set(xscale="log", xlim=limits, ylim=(count, 0))
    axes.axvspan(1 / margin, margin, color="#DADADA", linewidth=0, zorder=0.6)
    axes.axvline(1, color="black", linewidth=0.7, zorder=0.7)
    inside = [tick for tick in TICKS if limits[0] <= tick <= limits[1]]
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.tick_params(axis="x", labelbottom=has_axis, length=2 if has_axis else 0)
    axes.set_yticks([])
    for side in ("left", *(() if has_axis else ("bottom",))):
        axes.spines[side].set_visible(False)
    for y in range(count):
        axes.axhline(y + 0.5, color="#EFEFEF", linewidth=0.5, zorder=0.5)


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    given: Style = {
        "ha": "right",
        "va": "center",
        "fontsize": SMALL_POINTS,
        "linespacing": 1.1,
        **style,
    }
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), clip_on=False, **given)
