"""Bars, of alternatives at one setting: one for each implementation and variant.

A run without a result has its status in place of a bar, never one of length zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from flashlab.analysis.experiment import Sweep
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import label_variant, title_lines
from flashlab.figures.lines import LINE_POINTS, line_frame, write_title
from flashlab.figures.placement import POINTS, text_inches
from flashlab.figures.style import (
    GREY,
    HALF_INCHES,
    LABEL_POINTS,
    SMALL_POINTS,
    as_number,
    colour,
    draw_legend,
    name_artists,
    place_panels,
    text_colour,
)
from flashlab.telling.catalogs import in_all

BAR_INCHES = 0.115
GROUP_GAP = 0.5
"""Between the bars of two implementations, in bars."""

LIGHT = 0.35
"""Opacity of the bars of every second variant, which have an edge."""


def _frame(sweep: Sweep, names: Sequence[str], metrics: Sequence[Metric]) -> pd.DataFrame:
    """A row for each run and metric, each with its place from above."""
    every = range(len(sweep.variants))
    data = pd.concat(
        [
            line_frame(sweep, names, metrics, ["en"], [sweep.variants[position]])
            for position in every
        ],
        ignore_index=True,
    )
    order = [name for name in sweep.implementations if name in names]
    height = len(sweep.variants) + GROUP_GAP
    place = data["implementation"].map(order.index) * height + data["variant"]
    return data.assign(place=place + 0.5 + GROUP_GAP / 2)


def _value_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw_panel(
    axes: Axes,
    data: pd.DataFrame,
    entries: Mapping[str, Mapping[str, Any]],
    languages: Sequence[str],
    width: float,
) -> None:
    """The bars of one metric, the value at the end of each, in a panel so many inches wide."""
    widest = data["value"].max()
    room = max(
        (text_inches(_value_text(v), SMALL_POINTS) for v in data["value"].dropna()), default=0
    )
    if data["value"].notna().any():
        axes.set_xlim(0, widest / max(0.3, 1 - (room + 4 / POINTS) / width))
    for row in data.to_dict("records"):
        shade = colour(entries[row["implementation"]])
        if row["status"] != "ok":
            text = in_all(languages, "figures", str(row["status"]))
            value, told = 0.0, f"× {text}"
        else:
            value, told = row["value"], _value_text(row["value"])
            light = bool(row["variant"] % 2)
            bars = axes.barh(
                row["place"],
                value,
                height=0.82,
                color=(shade, LIGHT) if light else shade,
                edgecolor=shade,
                linewidth=0.6,
            )
            name_artists(row["implementation"], list(bars))
        label = axes.annotate(
            told,
            (value, row["place"]),
            xytext=(2, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=SMALL_POINTS,
            color=text_colour(shade),
            annotation_clip=False,
        )
        name_artists(row["implementation"], [label])
    _set_ticks(axes, width)


def _set_ticks(axes: Axes, width: float) -> None:
    """Round ticks, without those whose label would reach beyond the panel."""
    end = axes.get_xlim()[1]
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end)
    label = {tick: text_inches(as_number(tick, 0), SMALL_POINTS) for tick in ticks}
    axes.set_xticks([t for t in ticks if 0 <= t <= end * (1 - label[t] / 2 / width)])
    axes.xaxis.set_major_formatter(FuncFormatter(as_number))


def _handles(sweep: Sweep, languages: Sequence[str]) -> list[Line2D]:
    """The legend of the two fillings of bars, if there are several variants."""
    if len(sweep.variants) < 2:
        return []
    look: dict[str, Any] = {"marker": "s", "linestyle": "none", "markeredgecolor": GREY}
    return [
        Line2D(
            [],
            [],
            label=label_variant(sweep.benchmark, variant, languages),
            markerfacecolor=(GREY, LIGHT) if position % 2 else GREY,
            markersize=4,
            **look,
        )
        for position, variant in enumerate(sweep.variants)
    ]


def draw_bars(
    sweep: Sweep,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    width: float = HALF_INCHES,
    points: float = LABEL_POINTS,
) -> Figure:
    """A panel a metric, one below the other; in each a bar for every implementation and variant.

    A metric that no run has is left out.
    """
    data = _frame(sweep, names, metrics)
    known = [m for m in metrics if data[data["metric"] == m.name]["value"].notna().any()]
    metrics = known or metrics[:1]
    entries = {entry["name"]: entry for entry in sweep.plan["implementations"]}
    order = [name for name in sweep.implementations if name in names]
    rows = len(order) * (len(sweep.variants) + GROUP_GAP)
    titles = [title_lines(metric, languages, width, points) for metric in metrics]
    head = (3 + points * 1.25 * max(map(len, titles))) / POINTS
    tail = (4 + LINE_POINTS) / POINTS
    inner = rows * BAR_INCHES
    left = max(text_inches(name, SMALL_POINTS, bold=True) for name in order) + 5 / POINTS
    figure, grid = plt.subplots(len(metrics), 1, squeeze=False)
    legend = draw_legend(figure, _handles(sweep, languages), width)
    gap = head + tail
    place_panels(
        figure,
        width,
        inner * len(metrics) + gap * (len(metrics) - 1),
        (left, 4 / POINTS, tail + legend, head),
        hspace=gap / inner,
    )
    for axes, metric, title in zip(grid[:, 0], metrics, titles, strict=True):
        shown = data[(data["metric"] == metric.name) & (data["status"] != "absent")]
        _draw_panel(axes, shown, entries, languages, width - left)
        axes.set_ylim(rows, 0)
        height = len(sweep.variants) + GROUP_GAP
        axes.set_yticks([(position + 0.5) * height for position in range(len(order))], order)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="y", length=0)
        for name, label in zip(order, axes.get_yticklabels(), strict=True):
            label.set_color(text_colour(colour(entries[name])))
            label.set_fontweight("bold")
            label.set_fontsize(SMALL_POINTS)
        write_title(axes, title, points, 3)
    return figure
