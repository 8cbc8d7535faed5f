"""The forest plot: how many times as fast the second side is, by implementation and sizes.

A row an implementation and class of sizes, a panel a time: the geometric mean with its interval,
and a tick for each setting that it is of.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.compare.listing import compared_of
from flashlab.figures import style
from flashlab.figures.labels import title_metric
from flashlab.files import read_json
from flashlab.numbers import tick
from flashlab.story.compare.means import shown_times
from flashlab.story.compare.table import Compared, as_speeds
from flashlab.story.tables import EQUAL, FASTER, SLOWER, UNDECIDED

FIGURE = "forest.svg"

COLOURS = {SLOWER: "#AB1700", FASTER: "#0061E0", EQUAL: "#333333", UNDECIDED: "#777777"}
ROW_POINTS = 9.0
GAP = 0.5
"""Between two implementations, in rows."""

NAME_POINTS = 10.0
"""Between the name of an implementation and its classes of sizes."""

LEAST_ENDS = (0.9, 1.1)
"""Speeds that the axis reaches at least."""

MOST_SPAN = 10.0
"""The speed that it reaches at most, either way; what goes farther is cut off at the edge."""

TICKS = {
    2.0: (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6),
    8.0: (0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0),
    MOST_SPAN**2: (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""The speeds that are named, by how many times the axis' end is its beginning, at most."""

Ends = tuple[float, float]


def _ends(speeds: pd.Series[float]) -> Ends:
    """The axis' ends for these speeds; intervals may reach out of it."""
    low, high = LEAST_ENDS
    ends = min(low, 0.97 * speeds.min()), max(high, 1.03 * speeds.max())
    return max(ends[0], 1 / MOST_SPAN), min(ends[1], MOST_SPAN)


def _scale(axes: Axes, ends: Ends) -> None:
    low, high = ends
    ticks = next(ticks for span, ticks in TICKS.items() if high / low <= span)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{tick(value)}×"))
    axes.xaxis.set_minor_locator(NullLocator())


def _rows(compared: Compared) -> pd.DataFrame:
    """A row for each implementation and class of sizes, with its ``place``."""
    speeds = compared.speeds
    classes = compared.classes(speeds)
    has = set(zip(speeds.implementation, speeds.sizes, strict=True))
    found, place = [], 0.0
    for name in compared.implementations:
        mine = [sizes for sizes in classes if (name, sizes) in has]
        for sizes in mine:
            found.append({"implementation": name, "sizes": sizes, "place": place + 0.5})
            place += 1
        place += GAP if mine else 0
    return pd.DataFrame(found)


def _draw_panel(axes: Axes, single: pd.DataFrame, pooled: pd.DataFrame) -> None:
    """Ticks of the settings, and on them the means: open where no difference is decided."""
    axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
    shown = single.x.clip(*axes.get_xlim())
    axes.plot(shown, single.place, "|", color="#9A9A9A", markersize=4.5, mew=0.7, zorder=1.5)
    for row in pooled.to_dict("records"):
        color = COLOURS[row["word"]]
        if pd.notna(row["slowest"]):
            ends = row["slowest"], row["fastest"]
            axes.hlines(row["place"], *ends, colors=color, linewidth=1.2, zorder=2)
        face = color if row["word"] in (FASTER, SLOWER) else "white"
        mark: style.Style = {"marker": "o", "markersize": 4, "markerfacecolor": face}
        axes.plot(row["x"], row["place"], color=color, markeredgecolor=color, zorder=3, **mark)


def draw_forest(compared: Compared, margin: float, languages: Sequence[str]) -> Figure:
    """The forest plot of the times that page one's table has."""
    metrics = shown_times(compared)
    names = [metric.name for metric in metrics]
    rows = _rows(compared)
    table = as_speeds(compared.table[compared.table.metric.isin(names)])
    table = table.merge(rows, on=["implementation", "sizes"])
    is_single = table["shape"].notna()
    ends = _ends(table.x[is_single])
    figure, (panels,) = style.new_panels(style.WIDE, 1, len(metrics), sharey=True)
    height = float(rows.place.max()) + 0.5
    widest = max(map(style.text_points, rows.sizes))
    before = widest + (NAME_POINTS if widest else 4)
    for axes, metric in zip(panels, metrics, strict=True):
        axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
        _scale(axes, ends)
        of_metric = table.metric == metric.name
        _draw_panel(axes, table[of_metric & is_single], table[of_metric & ~is_single])
        style.title_panel(axes, title_metric(metric, languages))
        style.name_rows(axes, [*rows.sizes])
        axes.set_yticks(rows.place)
        axes.set_ylim(height, 0)
        for _, each in itertools.pairwise(rows.groupby("implementation", sort=False).place):
            axes.axhline(each[1].min() - 0.5 - GAP / 2, color="#E4E4E4", linewidth=0.5, zorder=0.5)
    for name, place in rows.groupby("implementation", sort=False).place.first().items():
        at, coords = (0, place), panels[0].get_yaxis_transform()
        beside: style.Style = {"ha": "right", "fontweight": "bold"}
        style.write(panels[0], str(name), at, (-before, 0), coords, **beside)
    left = max(style.text_points(str(each), weight="bold") for each in rows.implementation)
    margins = (4.0, 4.0, style.TITLE_HEIGHT, style.LINE_POINTS + 4)
    style.lay_out(figure, ROW_POINTS * height, margins, before=before + left)
    return figure


def draw_comparison(comparison_file: Path, folder: Path) -> None:
    """Write the forest plot of a comparison into a folder, if it has any times: `FIGURE`."""
    document = read_json(comparison_file)
    folder.mkdir(parents=True, exist_ok=True)
    compared = compared_of(document)
    if len(compared.speeds):
        with style.drawing():
            figure = draw_forest(compared, document["margin"], document["languages"])
            style.save(figure, folder / FIGURE)
