"""Page one's overview of many implementations: how far each is from the best at every setting.

A row an implementation, a panel a use; a tick is a setting, the dot the median of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from flashlab import statistics
from flashlab.figures.style import (
    GREY,
    INK,
    LINE_POINTS,
    WIDE,
    Look,
    Style,
    lay_out,
    name_rows,
    new_panels,
    scale_logarithmically,
    text_points,
    title_panel,
    title_points,
    write,
)
from flashlab.numbers import times

ROW_POINTS, GAP_POINTS = 10.0, 6.0
"""The height of a row, and the gap between a panel and its columns of numbers."""

BAND = "#E6EEF5"
PERCENT = 100.0


@dataclass(frozen=True)
class Strip:
    """A panel: the distance of each implementation (a column) from the best at each setting.

    It is in percent of the best's speed or, where `is_share` is false, a multiple of the least.
    """

    title: str
    distances: pd.DataFrame
    is_share: bool

    def text(self, distance: float) -> str:
        """A distance in print: a whole percentage, or a multiple."""
        return f"{distance:.0f}" if self.is_share else f"{times(distance)}×"

    def columns(self) -> list[pd.Series[str]]:
        """The numbers beside the panel, by implementation: the median, and the worst."""
        worst = self.distances.min() if self.is_share else self.distances.max()
        return [column.map(self.text) for column in (self.distances.median(), worst)]


def draw_strips(
    strips: Sequence[Strip], looks: Mapping[str, Look], heads: tuple[str, str]
) -> Figure:
    """The strips of each implementation, in the order of `looks`.

    Args:
        strips: the panels.
        looks: of the implementations.
        heads: those of the columns of numbers: the median, and the worst.
    """
    names = list(looks)
    figure, (panels,) = new_panels(WIDE, 1, len(strips), sharey=True)
    widest = 0.0
    for axes, strip in zip(panels, strips, strict=True):
        name_rows(axes, names, looks)
        axes.spines["left"].set_visible(False)
        _scale(axes, strip)
        _draw(axes, strip, looks)
        title_panel(axes, strip.title)
        right, style = 0.0, {"ha": "right", "va": "bottom", "color": GREY, "linespacing": 1.1}
        for head, column in zip(heads, strip.columns(), strict=True):
            right += GAP_POINTS + max(map(text_points, (head, *column)))
            write(axes, head, (1, 1), (right, 1.5), "axes fraction", **style)
            for name, text in column.items():
                at, coords = (1, names.index(str(name)) + 0.5), axes.get_yaxis_transform()
                write(axes, text, at, (right, 0), coords, ha="right", va="center_baseline")
        widest = max(widest, right)
    above = LINE_POINTS * (1.2 + max(head.count("\n") for head in heads))
    before = max(text_points(name, weight="bold") for name in names)
    margins = (6.0, widest, above, LINE_POINTS + 4)
    lay_out(figure, ROW_POINTS * len(names), margins, before=before)
    return figure


def _scale(axes: Axes, strip: Strip) -> None:
    """An axis from zero to the best, whose margin is a band; of multiples a logarithmic one."""
    if strip.is_share:
        axes.axvspan(PERCENT / (1 + statistics.MARGIN), PERCENT, color=BAND, zorder=0.5)
        axes.set_xlim(0, PERCENT + 3)
        axes.xaxis.set_major_locator(FixedLocator([0, PERCENT / 2, PERCENT]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}%"))
    else:
        most = max(10.0, 1.2 * float(strip.distances.max().max()))
        scale_logarithmically(axes.xaxis, 0.85, most, most=4, unit="×")


def _draw(axes: Axes, strip: Strip, looks: Mapping[str, Look]) -> None:
    """A tick for each setting, a line from end to end, and a dot at the median."""
    rows = strip.distances.melt(var_name="name", value_name="distance").dropna()
    names = {name: row + 0.5 for row, name in enumerate(looks)}
    rows = rows.assign(row=rows["name"].map(names))
    style: Style = {"marker": "|", "s": 36, "linewidth": 0.9, "alpha": 0.75, "legend": False}
    palette = {name: look.text for name, look in looks.items()}
    sns.scatterplot(rows, x="distance", y="row", hue="name", palette=palette, ax=axes, **style)
    axes.set(xlabel="", ylabel="")
    for name, distances in strip.distances.items():
        y, median, look = names[str(name)], float(distances.median()), looks[str(name)]
        ends = [distances.min(), distances.max()]
        axes.plot(ends, [y, y], color="#CFCFCF", lw=1, zorder=0.9)
        dot: Style = {"markersize": 4.6, "markeredgewidth": 0.5, "clip_on": False, "zorder": 3}
        (mark,) = axes.plot(median, y, "o", color=look.shade, mec=INK, **dot)
        title_points(mark, [f"{name}: {strip.text(median)}"])
