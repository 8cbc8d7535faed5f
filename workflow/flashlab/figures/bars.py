"""Bars, of alternatives at one setting: a row for each implementation and variant.

A time is split into how long the device was busy and how long it was idle, where that is known. A
run without a result has its status in place of a bar. Numbers stand in the table beside it; of each
metric the least and the greatest are printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.figures import style
from flashlab.figures.style import Look, Style
from flashlab.numbers import measured

BAR_POINTS, GAP = 6.8, 0.5
"""The height of a bar, and the gap between two implementations in bars."""

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
            text = _draw(axes, y, row, looks[row.implementation])
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


def _draw(axes: Axes, y: float, row: Any, look: Look) -> str:
    """A bar with its interval, if there is a result; its number, or what became of the run."""
    if row.status != "ok":
        return f"× {row.failed}"
    fill = (look.shade, LIGHT) if row.variant % 2 or row.busy > 0 else look.shade
    (bar,) = axes.barh(y, row.value, 0.82, color=fill, edgecolor=look.shade, linewidth=0.6)
    style.title_points(bar, [row.title])
    if row.busy > 0:
        axes.barh(y, row.busy, 0.82, color=look.shade)
    axes.hlines(y, row.low, row.high, color=style.GREY, linewidth=0.8)
    return measured(row.value, row.low, row.high)
