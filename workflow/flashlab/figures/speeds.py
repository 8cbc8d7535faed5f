"""Page one's figure of an experiment with two implementations: every speed, and the numbers.

A row a setting: each pass and the total on one logarithmic axis that all experiments share, with
95% intervals, and beside it the numbers and the share of the memory. A mark is hollow, and its
number grey, where no difference of more than the margin is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from flashlab import statistics
from flashlab.figures import style
from flashlab.figures.style import Style
from flashlab.numbers import times

WIDTH = 110 / 25.4
"""Of a figure, in inches."""

ROW, LABELS, NUMBER = 11.0, 31.0, 38.0
"""The height of a row, and the widths of its label and of a number, in points."""

PASSES, TOTAL = (("^", "#6B86A3"), ("v", "#6B86A3")), ("o", "#0A4C9C")
"""The marker and the colour of the passes in their order, and of the total, which is last."""


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
        heads: of the columns, for each metric and for the share; empty where another figure has
            them.
        is_last: whether this is the last figure.
    """
    values = sorted({int(at) for each in speeds.values() for at in each.index})
    figure, ((axes,),) = style.new_panels(WIDTH)
    style.name_rows(axes, [str(value) for value in values])
    axes.tick_params(axis="y", labelcolor=style.GREY)
    at, beside = (0, 0.5), (4 - LABELS, 0)
    style.write(axes, symbol, at, beside, axes.get_yaxis_transform(), color=style.GREY)
    margin = 1 + statistics.MARGIN
    style.scale_logarithmically(axes.xaxis, *limits, most=6, unit="×")
    axes.axvspan(1 / margin, margin, color="#DADADA", linewidth=0, zorder=0.6)
    axes.axvline(1, color="black", linewidth=0.7, zorder=0.7)
    axes.tick_params(axis="x", labelbottom=is_last, length=2 if is_last else 0)
    axes.spines["bottom"].set_visible(is_last)
    middles = [row + 0.5 for row in range(len(values))]
    axes.hlines(middles, *limits, color="#EFEFEF", lw=0.5, zorder=0.5)
    for number, (head, (metric, table)) in enumerate(zip(heads, speeds.items(), strict=False)):
        is_total = metric == list(speeds)[-1]
        marker, color = TOTAL if is_total else PASSES[number % len(PASSES)]
        rows = [values.index(int(at)) for at in table.index]
        is_decided = [verdict in ("faster", "slower") for verdict in table.verdict]
        places = [row + 0.5 for row in rows]
        axes.hlines(places, table.low, table.high, color=color, lw=0.9, zorder=2)
        kept: Style = {"s": 25 if is_total else 16, "linewidth": 0.8, "clip_on": False}
        faces = [color if each else "white" for each in is_decided]
        marks = axes.scatter(table.x, places, marker=marker, c=faces, ec=color, zorder=3, **kept)
        texts = [f"{times(row.x, row.low, row.high)}×" for row in style.rows_of(table)]
        titles = (f"{symbol} = {values[r]}: {t}" for r, t in zip(rows, texts, strict=True))
        style.title_points(marks, titles)
        bold: Style = {"color": style.RATIO, "weight": "bold" if is_total else "normal"}
        looks = [bold if each else {"color": style.GREY} for each in is_decided]
        style.write_column(axes, (number + 1) * NUMBER, head, zip(rows, texts, strict=True), *looks)
    found = ((values.index(at), text) for at, text in shares.items())
    style.write_column(axes, len(heads) * NUMBER, heads[-1], found)
    above = 2.2 * style.LINE_POINTS if any(heads) else 3.0
    below = style.LINE_POINTS + 4 if is_last else 3.0
    style.lay_out(figure, ROW * len(values), (LABELS, NUMBER * len(heads) + 1, above, below))
    return figure
