"""The forest plot: how many times as fast the second side is, by implementation and sizes.

A row an implementation and class of sizes, a panel a time: the geometric mean with its interval,
and a tick for each setting that it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from flashlab.compare.report import FIGURE, compared_of
from flashlab.figures import style
from flashlab.figures.labels import title_metric
from flashlab.files import read_json
from flashlab.numbers import tick
from flashlab.story.compare import Compared
from flashlab.story.speeds import EQUAL, FASTER, SLOWER, UNDECIDED

COLOURS = {SLOWER: "#AB1700", FASTER: "#0061E0", EQUAL: "#333333", UNDECIDED: "#777777"}
WIDTH, ROW, AROUND = 180 / 25.4, 0.13, 0.5
"""Of the figure, of a row, and of what stands above and below the rows, in inches."""

GAP = 0.5
"""Between two implementations, in rows."""

LEAST_ENDS, MOST_SPAN = (0.9, 1.1), 10.0
"""Speeds that the axis reaches at least, and the one that it reaches at most, either way."""


def _rows(c: Compared) -> pd.DataFrame:
    """A row for each implementation and class of sizes, with its ``place`` and its ``label``."""
    found, place = [], 0.5
    for name in c.implementations:
        mine = {*c.single[c.single.implementation == name].sizes.fillna("")}
        for sizes in (each for each in c.classes if each in mine):
            found.append({"implementation": name, "sizes": sizes, "place": place})
            place += 1
        place += GAP
    rows = pd.DataFrame(found)
    is_first = ~rows.implementation.duplicated()
    return rows.assign(label=rows.implementation.where(is_first, "") + "  " + rows.sizes)


def _draw_panel(axes: Axes, table: pd.DataFrame, margin: float) -> None:
    """Ticks of the settings, and on them the means: open where no difference is decided."""
    axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
    axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
    is_single = table["shape"].notna()
    single = table[is_single]
    shown = single.x.astype(float).clip(*axes.get_xlim())
    axes.plot(shown, single.place, "|", color="#9A9A9A", markersize=4.5, markeredgewidth=0.7)
    for row in table[~is_single].to_dict("records"):
        color = COLOURS[row["word"]]
        if pd.notna(row["slowest"]):
            axes.hlines(row["place"], row["slowest"], row["fastest"], colors=color, linewidth=1.2)
        face = color if row["word"] in (FASTER, SLOWER) else "white"
        axes.plot(row["x"], row["place"], "o", color=color, markersize=4, markerfacecolor=face)


def draw_forest(c: Compared, margin: float, languages: Sequence[str]) -> Figure:
    """The forest plot of the measured times."""
    rows = _rows(c)
    table = c.speeds.assign(sizes=c.speeds.sizes.fillna("")).merge(
        rows, on=["implementation", "sizes"]
    )
    speeds = c.single.x.astype(float)
    low = max(min(LEAST_ENDS[0], 0.97 * speeds.min()), 1 / MOST_SPAN)
    high = min(max(LEAST_ENDS[1], 1.03 * speeds.max()), MOST_SPAN)
    height = float(rows.place.max()) + 0.5
    figure = plt.figure(figsize=(WIDTH, ROW * height + AROUND), layout="constrained")
    panels = figure.subplots(1, len(c.times), squeeze=False, sharey=True)[0]
    for axes, metric in zip(panels, c.times, strict=True):
        axes.set(xscale="log", xlim=(low, high), ylim=(height, 0))
        axes.set_yticks(rows.place, rows.label)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{tick(value)}×"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(
            [t for t in (0.1, 0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 5, 10) if low <= t <= high]
        )
        axes.tick_params(axis="y", length=0)
        axes.grid(False, axis="y")
        axes.set_title(title_metric(metric, languages), loc="left")
        _draw_panel(axes, table[table.metric == metric.name], margin)
    return figure


def draw_comparison(comparison_file: Path, folder: Path) -> None:
    """Write the forest plot of a comparison into a folder, if it has any times: `FIGURE`."""
    document = read_json(comparison_file)
    folder.mkdir(parents=True, exist_ok=True)
    compared = compared_of(document)
    if len(compared.single):
        with style.drawing():
            figure = draw_forest(compared, document["margin"], document["languages"])
            style.save(figure, folder / FIGURE)
