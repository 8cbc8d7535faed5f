"""Bars, of alternatives at one setting: one for each implementation and variant.

A run without a result has its status in place of a bar, never one of length zero. A time's bar is
split into how long the device was busy and how long it was idle, where that is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import GROUP_GAP, HALF_INCHES, drawn_metrics
from flashlab.figures.labels import in_words, label_variant, said, title_with_unit
from flashlab.figures.panel import run_frame
from flashlab.figures.style import (
    GREY,
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
from flashlab.numbers import measured

LIGHT = 0.35
"""Opacity of the bars of every second variant, which have an edge, and of idle time."""


def _draw_bars(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    busy: Mapping[tuple[str, int], float],
    words: Sequence[str],
    languages: Sequence[str],
) -> None:
    """The bars of one metric with their intervals, the value at the end of each.

    Where it is known how much of a time the device was `busy`, by implementation and variant, a bar
    is split, and the variant is in `words` behind the value.
    """
    for row in data.to_dict("records"):
        name, value, place = row["implementation"], row["value"], row["place"]
        look, end, share = looks[name], 0.0, busy.get((name, row["variant"]))
        if row["status"] == "ok":
            is_light = row["variant"] % 2 if share is None else True
            fill = (look.shade, LIGHT) if is_light else look.shade
            edge: Style = {"edgecolor": look.shade, "linewidth": 0.6}
            drawn: list[Artist] = [*axes.barh(place, value, 0.82, color=fill, **edge)]
            if share is not None:
                drawn += axes.barh(place, share, 0.82, color=look.shade)
            drawn.append(axes.hlines(place, row["low"], row["high"], color=GREY, linewidth=0.8))
            name_artists(name, drawn)
            text = measured(value, row["low"], row["high"])
            if busy:
                text = f"{text} {words[row['variant']]}".strip()
            end = max(value, row["high"]) if row["high"] > value else value
        else:
            text = " ".join(["×", *said(row["status"], languages)])
            if row["beyond"] > 0:
                text += f" ({measured(row['beyond'])})"
        style = {"va": "center_baseline", "color": look.text, "in_layout": row["status"] == "ok"}
        name_artists(name, [write(axes, text, (end, place), (2, 0), **style)])
    axes.set_xlim(0, data["value"].max() if data["value"].max() > 0 else 1)


def _busy_times(
    experiment: Experiment, names: Sequence[str], metric: Metric
) -> dict[tuple[str, int], float]:
    """The device's busy time within a time, by run, where it was measured."""
    benchmark = experiment.benchmark
    occupied, known = benchmark.occupied, {metric.name for metric in benchmark.metrics}
    if occupied is None or occupied.busy not in known or metric.name != occupied.whole:
        return {}
    busy = run_frame(experiment, names, [benchmark.metric(occupied.busy)]).dropna(subset="value")
    keys = zip(busy["implementation"], busy["variant"], strict=True)
    return dict(zip(keys, busy["value"], strict=True))


def draw_bars(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    panel: float,
    whole: float,
) -> Figure:
    """A panel a metric, one below the other; in each a bar for every implementation and variant.

    A metric that no run has is left out.
    """
    metrics = drawn_metrics(experiment, names, metrics)
    data = run_frame(experiment, names, metrics)
    looks = looks_of(experiment.plan["implementations"])
    order = [name for name in experiment.implementations if name in names]
    group = len(experiment.variants) + GROUP_GAP
    first = (GROUP_GAP + 1) / 2
    data["place"] = data["implementation"].map(order.index) * group + data["variant"] + first
    words = [label_variant(experiment.benchmark, v, languages) for v in experiment.variants]
    figure, panels = new_panels(HALF_INCHES, len(metrics))
    split = {metric.name: _busy_times(experiment, names, metric) for metric in metrics}
    for axes, metric in zip(panels[:, 0], metrics, strict=True):
        places = [(i + 0.5) * group for i in range(len(order))]
        name_rows(axes, order, places, len(order) * group, looks)
        shown = data[(data["metric"] == metric.name) & (data["status"] != "absent")]
        _draw_bars(axes, shown, looks, split[metric.name], words, languages)
        scale_linearly(axes.xaxis, 4)
        title_panel(axes, title_with_unit(metric, languages))
    square: Style = {"marker": "s", "markersize": 4, "linestyle": "none", "markeredgecolor": GREY}
    fills = itertools.cycle([GREY, (GREY, LIGHT)])
    entries = [(word, fill) for word, fill in zip(words, fills, strict=False) if len(words) > 1]
    if any(split.values()):
        states = (in_words(key, languages) for key in ("busy", "idle"))
        entries = list(zip(states, (GREY, (GREY, LIGHT)), strict=True))
    draw_legend(figure, [handle(text, markerfacecolor=fill, **square) for text, fill in entries])
    lay_out(figure, panel, whole)
    return figure
