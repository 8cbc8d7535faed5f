"""A row for each implementation: bars of alternatives at one setting, or dots at a few settings.

A bar of time is split into how long the device was busy and how long it was idle, where that is
known. A run without a result has its status in place of a bar. Numbers stand in the table beside
it; of each metric the least and the greatest are printed.

Dots are on a logarithmic axis, a panel for each setting. Those of a row are joined, and its outer
ones have their numbers beside them. A run without a result is a cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.analysis.ratios import exceeds_margin
from flashlab.figures import style
from flashlab.figures.style import Look, Style
from flashlab.numbers import measured

BAR_POINTS, GAP, ROW_POINTS = 6.8, 0.5, 10.4
"""The heights of a bar and of a row of dots, and the gap between two implementations in bars."""

LIGHT = 0.35
"""Opacity of the bars of a second variant, and of idle time."""


def draw_bars(
    data: pd.DataFrame, panels: Mapping[str, str], looks: Mapping[str, Look], legend: Sequence[str]
) -> Figure:
    """A panel for each metric, one below the other.

    Args:
        data: a row for each run and metric: ``metric``, ``implementation``, ``variant`` (its
            position), ``status``, the words ``failed`` for it, ``value``, ``low``, ``high``,
            ``title``, and ``busy``, the part of a value in which the device was busy, if known.
        panels: the title of each metric.
        looks: of the implementations, in order.
        legend: the words for full colours and for light ones.
    """
    figure, grid = style.new_panels(style.HALF, len(panels))
    group = data.variant.max() + 1 + GAP
    for axes, (metric, title) in zip(grid[:, 0], panels.items(), strict=True):
        mine = data[data.metric == metric]
        style.name_rows(axes, list(looks), looks, group)
        axes.spines["left"].set_visible(True)
        known = mine["value"].dropna()
        printed = {known.idxmin(), known.idxmax()} if len(known) else set()
        for row in style.rows_of(mine):
            y = list(looks).index(row.implementation) * group + row.variant + (GAP + 1) / 2
            text = _draw_bar(axes, y, row, looks[row.implementation])
            if row.status != "ok" or row.Index in printed:
                end = 0 if row.status != "ok" else max(row.value, row.high if row.high > 0 else 0)
                look: Style = {**looks[row.implementation].text, "weight": "normal"}
                style.write(axes, text, (end, y), (2, 0), **look, va="center_baseline")
        most = mine[["value", "high"]].max().max()
        axes.set_xlim(0, 1.12 * most if most > 0 else 1)
        style.scale_linearly(axes.xaxis, 4)
        style.title_panel(axes, title)
    square: Style = {"marker": "s", "markersize": 4, "ls": "none", "markeredgecolor": style.GREY}
    fills = zip(legend, (style.GREY, (style.GREY, LIGHT)), strict=False)
    handles = [style.handle(text, markerfacecolor=fill, **square) for text, fill in fills]
    margins = (style.widest(looks, "bold") + 4, 6.0, style.TITLE_HEIGHT, style.LINE_POINTS + 6)
    style.lay_out(figure, BAR_POINTS * group * len(looks), margins, handles)
    return figure


def _draw_bar(axes: Axes, y: float, row: Any, look: Look) -> str:
    """A bar with its interval, if there is a result; its number, or what became of the run."""
    if row.status != "ok":
        return f"× {row.failed}"
    fill = (look.shade, LIGHT) if row.variant % 2 or row.busy > 0 else look.shade
    (bar,) = axes.barh(y, row.value, 0.82, color=fill, edgecolor=look.shade, linewidth=0.6)
    style.title_points(bar, [row.title])
    if row.busy > 0:
        axes.barh(y, row.busy, 0.82, color=look.shade)
    axes.hlines(y, row.low, row.high, color=style.GREY, linewidth=0.8)
    return measured((row.value, row.low, row.high))


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
    numbers = zip(data["value"], data.low, data.high, strict=True)
    data = data.assign(text=["" if x != x else measured((x, *ends)) for x, *ends in numbers])
    beside = style.widest(names, "bold")
    room = (style.POINTS * width - beside) / len(panels)
    for (at, title), axes in zip(panels.items(), grid, strict=True):
        style.name_rows(axes, names, looks)
        mine = data[data["at"] == at]
        _scale_dots(axes, mine, room, is_single=len(marks) == 1)
        _dots(axes, mine, [*marks], looks)
        style.title_panel(axes, title)
    dot: Style = {"ls": "none", "marker": "o", "markersize": 4.2, "markeredgecolor": style.INK}
    faces = zip(marks.values(), (style.GREY, *["white"] * len(marks)), strict=False)
    legend = [style.handle(text, markerfacecolor=face, **dot) for text, face in faces]
    legend = legend if len(legend) > 1 else []
    margins = (3.0, 4.0, style.TITLE_HEIGHT, style.LINE_POINTS + 4)
    style.lay_out(figure, ROW_POINTS * len(names), margins, [*legend, *notes], beside)
    return figure


def _scale_dots(axes: Axes, data: pd.DataFrame, room: float, *, is_single: bool) -> None:
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
    for line in data.best.dropna().unique():
        axes.axvline(line, color=style.GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.9)


def _dots(axes: Axes, data: pd.DataFrame, marks: Sequence[str], looks: Mapping[str, Look]) -> None:
    """The dots of a panel, with lines between them, intervals and numbers."""
    shown = data.dropna(subset="value")
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
