"""Dots on a logarithmic axis: a row for each implementation, a panel for each setting or metric.

The dots of a row are joined, and its outer ones have their numbers beside them. A run without a
result is a cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.figures.style import (
    FAILED,
    GREY,
    GROUND,
    INK,
    LEAST_SPAN,
    LINE_POINTS,
    POINTS,
    TITLE_HEIGHT,
    Look,
    Style,
    handle,
    lay_out,
    name_rows,
    new_panels,
    rows_of,
    scale_logarithmically,
    title_panel,
    title_points,
    widest,
    write,
)

ROW_POINTS = 10.4


def draw_dots(
    data: pd.DataFrame,
    panels: Mapping[Any, str],
    marks: Mapping[Any, str],
    lines: Mapping[Any, Sequence[float]],
    looks: Mapping[str, Look],
    width: float,
    notes: Sequence[Line2D],
) -> Figure:
    """A figure of dots.

    Args:
        data: a row for each dot: ``panel``, ``implementation``, ``mark``, ``value``, ``low``,
            ``high``, ``text`` (its number), ``is_best`` and ``title``; without a value for a run
            without a result.
        panels: the title of each, from left to right.
        marks: the legend's text of each kind of dot; the first kind is filled.
        lines: where lines of reference stand in a panel.
        looks: of the implementations, in the order of the rows.
        width: of the figure in inches.
        notes: more entries of the legend.
    """
    names = list(looks)
    figure, (grid,) = new_panels(width, 1, len(panels), sharey=True)
    beside = widest(names, "bold")
    room = (POINTS * width - beside) / len(panels)
    for (key, title), axes in zip(panels.items(), grid, strict=True):
        mine = data[data.panel == key]
        name_rows(axes, names, looks)
        axes.spines["left"].set_visible(False)
        _scale(axes, mine, lines[key], room, is_single=len(marks) == 1)
        _draw(axes, mine.assign(y=mine.implementation.map(names.index) + 0.5), [*marks], looks)
        title_panel(axes, title)
    dot: Style = {"linestyle": "none", "marker": "o", "markersize": 4.2, "markeredgecolor": INK}
    faces = zip(marks.values(), (GREY, *["white"] * len(marks)), strict=False)
    legend = [handle(text, markerfacecolor=face, **dot) for text, face in faces]
    legend = legend if len(legend) > 1 else []
    margins = (3.0, 4.0, TITLE_HEIGHT, LINE_POINTS + 4)
    lay_out(figure, ROW_POINTS * len(names), margins, [*legend, *notes], beside)
    return figure


def _scale(
    axes: Axes, data: pd.DataFrame, lines: Sequence[float], room: float, *, is_single: bool
) -> None:
    """A logarithmic axis about all dots, with room for a number at one end or at both."""
    values = [*data[["value", "low", "high"]].stack().dropna()]
    if not values:
        axes.set_xticks([])
        return
    after = min(0.35, (widest(data.text, "bold") + 6) / room)
    before = 0.06 if is_single else after
    low, high = math.log10(min(values)), math.log10(max(values))
    decades = max(high - low, math.log10(LEAST_SPAN)) / (1 - before - after)
    middle = (low + high) / 2 + decades * (after - before) / 2
    ends = (10 ** (middle - decades / 2), 10 ** (middle + decades / 2))
    scale_logarithmically(axes.xaxis, *ends, max(3, int(room / 45)))
    for line in lines:
        axes.axvline(line, color=GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.9)


def _draw(axes: Axes, data: pd.DataFrame, marks: Sequence[Any], looks: Mapping[str, Look]) -> None:
    """The dots of a panel, with lines between them, intervals and numbers."""
    shown = data.dropna(subset="value")
    rows = shown.groupby("y", sort=False)["value"].agg(["min", "max"])
    shades = data.drop_duplicates("y").set_index("y").implementation.map(lambda n: looks[n].shade)
    joined = [*shades[rows.index]]
    axes.hlines(rows.index, rows["min"], rows["max"], colors=joined, lw=1.6, zorder=1.4)
    axes.hlines(shown.y, shown.low, shown.high, colors=INK, lw=0.8, zorder=3)
    for mark in marks:
        mine = shown[shown["mark"] == mark]
        faces = [*shades[mine.y]] if mark == marks[0] else "white"
        dot: Style = {"s": 17.6, "linewidth": 0.5, "edgecolor": INK, "zorder": 2}
        title_points(axes.scatter(mine["value"], mine.y, facecolor=faces, **dot), mine.title)
    failed = data[~data.y.isin(rows.index)].drop_duplicates("y")
    transform = axes.get_yaxis_transform()
    (crosses,) = axes.plot([0.5] * len(failed), failed.y, transform=transform, c=GREY, **FAILED)
    title_points(crosses, failed.title)
    ordered = shown.sort_values(["y", "value"], kind="stable")
    for row, is_right, is_first in zip(
        rows_of(ordered),
        ~ordered.duplicated("y", keep="last"),
        ~ordered.duplicated("y"),
        strict=True,
    ):
        if is_right or is_first:
            text: Style = {"ha": "left" if is_right else "right", "va": "center_baseline"}
            text |= {"fontweight": "bold" if row.is_best else "normal", "bbox": GROUND}
            end = max(row.value, row.high) if is_right else min(row.value, row.low)
            offset = (4 if is_right else -4, 0)
            write(axes, row.text, (end, row.y), offset, zorder=3.5, **text)
