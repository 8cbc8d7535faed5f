"""Page one's overview of many implementations: how far each is from the best at every setting.

A row an implementation, a panel a use; a tick is a setting, the dot the median of them.
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
