"""Dots on a logarithmic axis: a row for each implementation, a panel for each setting or metric.

The dots of a row are joined, and its outer ones have their numbers beside them. A run without a
result is a cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.analysis.ratios import exceeds_margin
from flashlab.figures import style
from flashlab.figures.style import Look, Style
from flashlab.numbers import measured

ROW_POINTS = 10.4


def draw_dots(
    data: pd.DataFrame,
    panels: Mapping[int, str],
    marks: Mapping[str, str],
    looks: Mapping[str, Look],
    notes: Sequence[Line2D],
) -> Figure:
    """A figure of dots.

    Args:
        data: a row for each run and metric: ``metric``, ``implementation``, ``at``, ``status``,
            ``value``, ``low``, ``high`` and ``title``; no value without a result.
        panels: the title of each value of the sweep, from left to right.
        marks: the legend's text of each metric; the dots of the first are filled.
        looks: of the implementations, in the order of the rows.
        notes: more entries of the legend.
    """
    names, width = [*looks], style.HALF if len(panels) < 3 else style.WIDE
    figure, (grid,) = style.new_panels(width, 1, len(panels), sharey=True)
    best = data.groupby(["metric", "at"])["value"].transform("min")
    data = data.assign(best=best, y=data.implementation.map(names.index) + 0.5)
    data = data[data["value"].notna() | (data.status != "ok")]
    beside = style.widest(names, "bold")
    room = (style.POINTS * width - beside) / len(panels)
    for (at, title), axes in zip(panels.items(), grid, strict=True):
        style.name_rows(axes, names, looks)
        mine = data[data["at"] == at]
        shown = mine.dropna(subset="value")
        numbers = zip(shown["value"], shown.low, shown.high, strict=True)
        shown = shown.assign(text=[measured(*each) for each in numbers])
        _scale(axes, shown, room, is_single=len(marks) == 1)
        _draw(axes, mine, shown, [*marks], looks)
        style.title_panel(axes, title)
    dot: Style = {"ls": "none", "marker": "o", "markersize": 4.2, "markeredgecolor": style.INK}
    faces = zip(marks.values(), (style.GREY, *["white"] * len(marks)), strict=False)
    legend = [style.handle(text, markerfacecolor=face, **dot) for text, face in faces]
    legend = legend if len(legend) > 1 else []
    margins = (3.0, 4.0, style.TITLE_HEIGHT, style.LINE_POINTS + 4)
    style.lay_out(figure, ROW_POINTS * len(names), margins, [*legend, *notes], beside)
    return figure


def _scale(axes: Axes, data: pd.DataFrame, room: float, *, is_single: bool) -> None:
    """A logarithmic axis about all dots, with room for a number at one end or at both."""
    values = [*data[["value", "low", "high"]].stack().dropna()]
    if not values:
        axes.set_xticks([])
        return
    after = min(0.35, (style.widest(data.text, "bold") + 6) / room)
    before = 0.06 if is_single else after
    low, high = math.log10(min(values)), math.log10(max(values))
    decades = max(high - low, math.log10(style.LEAST_SPAN)) / (1 - before - after)
    middle = (low + high) / 2 + decades * (after - before) / 2
    ends = (10 ** (middle - decades / 2), 10 ** (middle + decades / 2))
    style.scale_logarithmically(axes.xaxis, *ends, max(3, int(room / 45)))
    for line in data.best.unique():
        axes.axvline(line, color=style.GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.9)


def _draw(
    axes: Axes,
    data: pd.DataFrame,
    shown: pd.DataFrame,
    marks: Sequence[str],
    looks: Mapping[str, Look],
) -> None:
    """The dots of a panel, with lines between them, intervals and numbers."""
    rows = shown.groupby("y", sort=False)["value"].agg(["min", "max"])
    shades = data.drop_duplicates("y").set_index("y").implementation.map(lambda n: looks[n].shade)
    joined = [*shades[rows.index]]
    axes.hlines(rows.index, rows["min"], rows["max"], colors=joined, lw=1.6, zorder=1.4)
    axes.hlines(shown.y, shown.low, shown.high, colors=style.INK, lw=0.8, zorder=3)
    for mark in marks:
        mine = shown[shown.metric == mark]
        faces = [*shades[mine.y]] if mark == marks[0] else "white"
        dot: Style = {"s": 17.6, "linewidth": 0.5, "edgecolor": style.INK, "zorder": 2}
        style.title_points(axes.scatter(mine["value"], mine.y, facecolor=faces, **dot), mine.title)
    failed = data[~data.y.isin(rows.index)].drop_duplicates("y")
    grey: Style = {"transform": axes.get_yaxis_transform(), "c": style.GREY, **style.FAILED}
    (crosses,) = axes.plot([0.5] * len(failed), failed.y, **grey)
    style.title_points(crosses, failed.title)
    ordered = shown.sort_values(["y", "value"], kind="stable")
    is_last, is_first = ~ordered.duplicated("y", keep="last"), ~ordered.duplicated("y")
    for row in style.rows_of(ordered):
        is_right = is_last[row.Index]
        if is_right or is_first[row.Index]:
            is_best = not exceeds_margin(row.value / row.best)
            text: Style = {"ha": "left" if is_right else "right", "va": "center_baseline"}
            text |= {"fontweight": "bold" if is_best else "normal", "bbox": style.GROUND}
            end = max(row.value, row.high) if is_right else min(row.value, row.low)
            offset = (4 if is_right else -4, 0)
            style.write(axes, row.text, (end, row.y), offset, zorder=3.5, **text)
