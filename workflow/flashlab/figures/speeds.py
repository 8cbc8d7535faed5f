"""Page one's figure of an experiment with two implementations: every speed, and the numbers.

A row a setting: each pass and the total on one logarithmic axis that all experiments share, with
95% intervals, and beside it the numbers and the share of the memory. A mark is hollow, and its
number grey, where no difference of more than the margin is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab import statistics
from flashlab.figures.style import (
    GREY,
    LINE_POINTS,
    RATIO,
    Style,
    lay_out,
    name_rows,
    new_panels,
    rows_of,
    title_points,
    write,
)
from flashlab.numbers import times

WIDTH = 110 / 25.4
"""Of a figure, in inches."""

ROW, LABELS, NUMBER = 11.0, 31.0, 38.0
"""The height of a row, and the widths of its label and of a number, in points."""

PASSES, TOTAL = (("^", "#6B86A3"), ("v", "#6B86A3")), ("o", "#0A4C9C")
"""The marker and the colour of the passes in their order, and of the total, which is last."""

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def draw_speeds(
    symbol: str,
    speeds: Mapping[str, pd.DataFrame],
    shares: Mapping[int, str],
    limits: tuple[float, float],
    heads: Sequence[str],
    *,
    is_last: bool,
) -> Figure:
    """The rows of an experiment; page one's last figure has the axis.

    Args:
        symbol: of the swept parameter.
        speeds: by metric, the total last: ``x``, ``low``, ``high`` and ``verdict`` by value.
        shares: of the baseline's memory, by value.
        limits: of the axis.
        heads: of the columns, for each metric and for the share; none where another figure has
            them.
        is_last: whether this is the last figure.
    """
    values = sorted({int(at) for each in speeds.values() for at in each.index})
    figure, ((axes,),) = new_panels(WIDTH)
    name_rows(axes, [str(value) for value in values])
    axes.tick_params(axis="y", labelcolor=GREY)
    write(axes, symbol, (0, 0.5), (4 - LABELS, 0), axes.get_yaxis_transform(), color=GREY)
    margin = 1 + statistics.MARGIN
    axes.set(xscale="log", xlim=limits)
    axes.axvspan(1 / margin, margin, color="#DADADA", linewidth=0, zorder=0.6)
    axes.axvline(1, color="black", linewidth=0.7, zorder=0.7)
    axes.xaxis.set_major_locator(FixedLocator([t for t in TICKS if limits[0] <= t <= limits[1]]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.tick_params(axis="x", labelbottom=is_last, length=2 if is_last else 0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(is_last)
    axes.hlines(
        [row + 0.5 for row in range(len(values))], *limits, color="#EFEFEF", lw=0.5, zorder=0.5
    )
    columns: list[dict[int, tuple[str, Style]]] = []
    for number, (metric, table) in enumerate(speeds.items()):
        is_total = metric == list(speeds)[-1]
        marker, color = TOTAL if is_total else PASSES[number % len(PASSES)]
        rows = [values.index(int(at)) + 0.5 for at in table.index]
        is_decided = [verdict in ("faster", "slower") for verdict in table.verdict]
        axes.hlines(rows, table.low, table.high, color=color, lw=0.9, zorder=2)
        style: Style = {"s": 25 if is_total else 16, "linewidth": 0.8, "clip_on": False}
        faces = [color if each else "white" for each in is_decided]
        marks = axes.scatter(table.x, rows, marker=marker, c=faces, ec=color, zorder=3, **style)
        texts = [f"{times(row.x, row.low, row.high)}×" for row in rows_of(table)]
        title_points(
            marks, [f"{symbol} = {at}: {t}" for at, t in zip(table.index, texts, strict=True)]
        )
        looks = [
            {"color": RATIO if each else GREY, "weight": "bold" if is_total and each else "normal"}
            for each in is_decided
        ]
        found = zip(texts, looks, strict=True)
        columns.append(dict(zip(map(int, table.index), found, strict=True)))
    columns.append({at: (text, {}) for at, text in shares.items()})
    for number, column in enumerate(columns, start=1):
        for at, (text, look) in column.items():
            place = (1, values.index(at) + 0.5), (number * NUMBER, 0)
            write(axes, text, *place, axes.get_yaxis_transform(), ha="right", **look)
        if heads:
            head: Style = {"ha": "right", "va": "bottom", "color": GREY, "linespacing": 1.1}
            write(axes, heads[number - 1], (1, 1), (number * NUMBER, 2), "axes fraction", **head)
    above, below = 2.2 * LINE_POINTS if heads else 3.0, LINE_POINTS + 4 if is_last else 3.0
    lay_out(figure, ROW * len(values), (LABELS, NUMBER * len(columns) + 1, above, below))
    return figure
