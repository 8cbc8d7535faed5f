"""The forest plot: how many times as fast the second side is, by implementation and sizes.

A row an implementation and class of sizes, a panel a time: the geometric mean with its interval,
and a tick for each setting that it is of.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from flashlab.figures import style
from flashlab.figures.labels import title_metric
from flashlab.numbers import tick
from flashlab.story.compare import Compared
from flashlab.story.speeds import FASTER, SLOWER

ROW_POINTS, BAND = 9.4, "#EEEEEE"
LEAST_ENDS, MOST_SPAN = (0.9, 1.1), 10.0
"""Speeds that the axis reaches at least, and the one that it reaches at most, either way."""

TICKS = (0.1, 0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 5, 10)


def draw_forest(c: Compared, languages: Sequence[str]) -> Figure:
    """The forest plot of the measured times; means are hollow where no difference is decided."""
    margin = c.about["margin"]
    table = c.speeds[c.speeds.metric.isin([metric.name for metric in c.times])]
    table = table.dropna(subset=["implementation", "sizes"])
    table = table.assign(row=table.implementation + "  " + table.sizes)
    styles = {f"{n}  {s}": at for at, n in enumerate(c.implementations) for s in c.classes}
    looks = style.looks_of({row: at for row, at in styles.items() if row in {*table.row}})
    table = table.assign(y=table.row.map([*looks].index) + 0.5)
    speeds = c.single.x.astype(float)
    low = max(min(LEAST_ENDS[0], 0.97 * speeds.min()), 1 / MOST_SPAN)
    high = min(max(LEAST_ENDS[1], 1.03 * speeds.max()), MOST_SPAN)
    figure, (panels,) = style.new_panels(style.WIDE, 1, len(c.times), sharey=True)
    for axes, metric in zip(panels, c.times, strict=True):
        mine = table[table.metric == metric.name]
        single, means = mine[mine["shape"].notna()], mine[mine["shape"].isna()]
        style.name_rows(axes, [*looks], looks)
        style.title_panel(axes, title_metric(metric, languages))
        axes.set(xscale="log", xlim=(low, high), xticks=[t for t in TICKS if low <= t <= high])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{tick(value)}×"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.axvspan(1 / (1 + margin), 1 + margin, color=BAND, zorder=0)
        axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
        axes.plot(single.x.astype(float).clip(low, high), single.y, "|", c=style.PALE, ms=4.5)
        shades = [looks[row].shade for row in means.row]
        filled = zip(means.word.isin([FASTER, SLOWER]), shades, strict=True)
        axes.hlines(means.y, means.slowest, means.fastest, colors=shades, linewidth=1.2)
        faces = [shade if is_decided else "white" for is_decided, shade in filled]
        axes.scatter(means.x, means.y, 15, faces, edgecolors=shades, linewidths=0.8, zorder=3)
    margins = (3.0, 4.0, style.TITLE_HEIGHT, style.LINE_POINTS + 4)
    style.lay_out(figure, ROW_POINTS * len(looks), margins, before=style.widest(looks, "bold"))
    return figure
