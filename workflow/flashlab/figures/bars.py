"""Bars, of alternatives at one setting: one for each implementation and variant.

A run without a result has its status in place of a bar, never one of length zero. Within a time's
bar stands a thin one of how long the device was busy, where that is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import in_words, label_variant, said, title_with_unit
from flashlab.figures.panel import MARK, run_frame
from flashlab.figures.style import (
    GREY,
    HALF_INCHES,
    Look,
    Style,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    name_artists,
    name_rows,
    new_panels,
    scale_linearly,
    title_panel,
    write,
)

BAR_INCHES = 0.115
GROUP_GAP = 0.5
"""Between the bars of two implementations, in bars."""

INK = "#333333"
INNER: Style = {"height": 0.22, "color": INK}
"""Of the bar within a bar: the part of a time in which the device was busy."""

LIGHT = 0.35
"""Opacity of the bars of every second variant, which have an edge."""


def _draw_bars(
    axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], languages: Sequence[str]
) -> None:
    """The bars of one metric with their intervals, the value at the end of each.

    In no language, a run without a result has × alone.
    """
    for row in data.to_dict("records"):
        name, value, place = row["implementation"], row["value"], row["place"]
        look, end = looks[name], 0.0
        if row["status"] == "ok":
            fill = (look.shade, LIGHT) if row["variant"] % 2 else look.shade
            bars = axes.barh(place, value, 0.82, color=fill, edgecolor=look.shade, linewidth=0.6)
            interval = axes.hlines(place, row["low"], row["high"], color=GREY, linewidth=0.8)
            name_artists(name, [*bars, interval])
            text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
            end = max(value, row["high"]) if row["high"] > value else value
        else:
            text = " ".join(["×", *said(row["status"], languages)])
            if row["beyond"] > 0:
                text += f" ({row['beyond']:.3g})"
        style = {"va": "center_baseline", "color": look.text, "in_layout": row["status"] == "ok"}
        name_artists(name, [write(axes, text, (end, place), (2, 0), **style)])
    axes.set_xlim(0, data["value"].max() if data["value"].max() > 0 else 1)


def _busy_rows(
    experiment: Experiment, names: Sequence[str], shown: pd.DataFrame
) -> list[dict[str, Any]]:
    """For each run that is shown and of which it is known: how long the device was busy in it."""
    benchmark = experiment.benchmark
    occupied, known = benchmark.occupied, {metric.name for metric in benchmark.metrics}
    if occupied is None or occupied.busy not in known or {*shown["metric"]} != {occupied.whole}:
        return []
    busy = run_frame(experiment, names, [benchmark.metric(occupied.busy)])
    places = shown[["implementation", "variant", "place"]]
    found: list[dict[str, Any]] = (
        busy.dropna(subset="value").merge(places).to_dict("records")  # type: ignore[assignment]
    )
    return found


def draw_bars(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    width: float = HALF_INCHES,
) -> Figure:
    """A panel a metric, one below the other; in each a bar for every implementation and variant.

    A metric that no run has is left out.
    """
    data = run_frame(experiment, names, metrics)
    known = data.dropna(subset="value")["metric"].unique()
    metrics = [metric for metric in metrics if metric.name in known] or metrics[:1]
    looks = looks_of(experiment.plan["implementations"])
    order = [name for name in experiment.implementations if name in names]
    group = len(experiment.variants) + GROUP_GAP
    first = (GROUP_GAP + 1) / 2
    data["place"] = data["implementation"].map(order.index) * group + data["variant"] + first
    is_small = width < HALF_INCHES
    figure, panels = new_panels(width, len(metrics))
    is_busy = False
    for axes, metric in zip(panels[:, 0], metrics, strict=True):
        name_rows(axes, order, [(i + 0.5) * group for i in range(len(order))], len(order) * group)
        for name, tick in zip(order, axes.yaxis.get_major_ticks(), strict=True):
            tick.label1.set(color=looks[name].text, fontweight="bold")
        shown = data[(data["metric"] == metric.name) & (data["status"] != "absent")]
        _draw_bars(axes, shown, looks, [] if is_small else languages)
        for row in [] if is_small else _busy_rows(experiment, names, shown):
            name_artists(row["implementation"], [*axes.barh(row["place"], row["value"], **INNER)])
            is_busy = True
        scale_linearly(axes.xaxis, 2 if is_small else 4)
        title_panel(axes, title_with_unit(metric, languages))
    square: Style = {"marker": "s", "markersize": 4, "linestyle": "none", "markeredgecolor": GREY}
    handles = [
        handle(
            label_variant(experiment.benchmark, variant, languages), markerfacecolor=fill, **square
        )
        for variant, fill in zip(
            experiment.variants, itertools.cycle([GREY, (GREY, LIGHT)]), strict=False
        )
        if len(experiment.variants) > 1
    ]
    if is_busy:
        handles.append(handle(in_words("busy", languages), **square | {"markerfacecolor": INK}))
    failures = [status for status in data["status"].unique() if status not in ("ok", "absent")]
    handles += [handle(in_words(s, languages), color=GREY, **MARK) for s in failures if is_small]
    draw_legend(figure, handles)
    lay_out(figure, len(order) * group * BAR_INCHES)
    return figure
