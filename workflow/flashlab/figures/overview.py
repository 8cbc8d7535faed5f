"""Page one's figures: of many implementations how far each is from the best, of two every speed.

Of many: a row an implementation, a panel a use; a tick is a setting, the dot the median of them.
Of two: a row a setting, each pass and the total on one logarithmic axis that all experiments share,
with 95% intervals, and beside it the numbers and the share of the memory. A mark is hollow, and its
number grey, where no difference of more than the margin is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab import statistics
from flashlab.figures import style
from flashlab.figures.style import Look, Style
from flashlab.numbers import times

ROW_POINTS, GAP_POINTS = 10.0, 6.0
"""The height of a row, and the gap between a panel and its columns of numbers."""

BAND = "#E6EEF5"
PERCENT = 100.0

WIDTH = 110 / 25.4
"""Of a figure, in inches."""

SETTING, LABELS, NUMBER = 11.0, 31.0, 38.0
"""The height of a row, and the widths of its label and of a number, in points."""

PASSES, TOTAL = (("^", "#6B86A3"), ("v", "#6B86A3")), ("o", "#0A4C9C")
"""The marker and the colour of the passes in their order, and of the total, which is last."""


def draw_strips(
    strips: Mapping[str, tuple[pd.DataFrame, bool]], looks: Mapping[str, Look], heads: Sequence[str]
) -> Figure:
    """The strips of each implementation, in the order of `looks`.

    Args:
        strips: by title, the distance of each implementation (a column) from the best at each
            setting: in percent of the best's speed or, where that is false, a multiple of the
            least.
        looks: of the implementations.
        heads: those of the columns of numbers: the median, and the worst.
    """
    names = list(looks)
    figure, (panels,) = style.new_panels(style.WIDE, 1, len(strips), sharey=True)
    columns = 0.0
    for axes, (title, (distances, is_share)) in zip(panels, strips.items(), strict=True):
        style.name_rows(axes, names, looks)
        _scale(axes, distances, is_share)
        style.title_panel(axes, title)
        worst = distances.min() if is_share else distances.max()
        to_text = (lambda x: f"{x:.0f}") if is_share else (lambda x: f"{times(x)}×")
        numbers = [each.map(to_text) for each in (distances.median(), worst)]
        _draw(axes, distances, numbers[0], looks)
        right = 0.0
        for head, column in zip(heads, numbers, strict=True):
            right += GAP_POINTS + style.widest((head, *column))
            rows = ((names.index(str(name)), text) for name, text in column.items())
            style.write_column(axes, right, head, rows)
        columns = max(columns, right)
    above = style.LINE_POINTS * (1.2 + max(head.count("\n") for head in heads))
    margins = (6.0, columns, above, style.LINE_POINTS + 4)
    style.lay_out(figure, ROW_POINTS * len(names), margins, before=style.widest(names, "bold"))
    return figure


def _scale(axes: Axes, distances: pd.DataFrame, is_share: bool) -> None:
    """An axis from zero to the best, whose margin is a band; of multiples a logarithmic one."""
    if is_share:
        axes.axvspan(PERCENT / (1 + statistics.MARGIN), PERCENT, color=BAND, zorder=0.5)
        axes.set_xlim(0, PERCENT + 3)
        axes.set_xticks([0, PERCENT / 2, PERCENT], ["0%", "50%", "100%"])
    else:
        most = max(10.0, 1.2 * float(distances.max().max()))
        style.scale_logarithmically(axes.xaxis, 0.85, most, most=4, unit="×")


def _draw(
    axes: Axes, distances: pd.DataFrame, medians: pd.Series[str], looks: Mapping[str, Look]
) -> None:
    """A tick for each setting, a line from end to end, and a dot at the median."""
    long = distances.melt(var_name="name", value_name="x").dropna()
    names, shades = [*looks], [style.dark(looks[name].shade) for name in long["name"]]
    tick: Style = {"marker": "|", "s": 36, "linewidth": 0.9, "alpha": 0.75}
    axes.scatter(long.x, long["name"].map(names.index) + 0.5, c=shades, **tick)
    for name, column in distances.items():
        y, median, look = names.index(str(name)) + 0.5, column.median(), looks[str(name)]
        ends = [column.min(), column.max()]
        axes.plot(ends, [y, y], color="#CFCFCF", lw=1, zorder=0.9)
        dot: Style = {"markersize": 4.6, "markeredgewidth": 0.5, "clip_on": False, "zorder": 3}
        (mark,) = axes.plot(median, y, "o", color=look.shade, mec=style.INK, **dot)
        style.title_points(mark, [f"{name}: {medians[str(name)]}"])


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
        texts = [*map(style.speed, style.rows_of(table))]
        titles = (f"{symbol} = {values[r]}: {t}" for r, t in zip(rows, texts, strict=True))
        style.title_points(marks, titles)
        bold: Style = {"color": style.RATIO, "weight": "bold"}
        looks = [bold if each else {"color": style.GREY} for each in is_decided]
        style.write_column(axes, (number + 1) * NUMBER, head, zip(rows, texts, strict=True), *looks)
    found = ((values.index(at), text) for at, text in shares.items())
    style.write_column(axes, len(heads) * NUMBER, heads[-1], found)
    above = 2.2 * style.LINE_POINTS if any(heads) else 3.0
    below = style.LINE_POINTS + 4 if is_last else 3.0
    style.lay_out(figure, SETTING * len(values), (LABELS, NUMBER * len(heads) + 1, above, below))
    return figure
