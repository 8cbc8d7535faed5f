"""The dumbbells: for each run, where the second side stands against the first.

A figure for each implementation, a panel for each metric, a row for each run: a line from the first
side, at 1, to the second, at the ratio, with its 95% interval. A metric that is the same in every
run has no panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.benchmarks.registry import find_benchmark
from flashlab.comparing.verdicts import EQUAL, GAINS, INCONCLUSIVE, LOSSES
from flashlab.figures.labels import title_metric
from flashlab.figures.style import (
    GREY,
    PAGE_INCHES,
    as_number,
    drawing,
    lay_out,
    name_rows,
    new_panels,
    save,
    title_panel,
)
from flashlab.files import read_json

COLOURS = {
    **dict.fromkeys(LOSSES, "#AB1700"),
    **dict.fromkeys(GAINS, "#0061E0"),
    EQUAL: "#333333",
    INCONCLUSIVE: "#999999",
}
ROW_INCHES = 0.115
MOST_ROWS = 40
"""Rows that fit on a page; an implementation with more runs has several figures."""

LEAST_SPAN = 1.25
"""The ratio that the axis reaches at least, in both directions."""

MOST_SPAN = 10.0
"""An interval that goes farther is cut off at the panel's edge."""


def _span(pairs: Sequence[Mapping[str, Any]]) -> float:
    """How far the axis reaches from 1, as a factor."""
    ends = [pair[end] for pair in pairs for end in ("ratio", "low", "high") if pair[end]]
    widest = max((math.exp(abs(math.log(end))) for end in ends), default=1.0)
    return min(max(1.06 * widest, LEAST_SPAN), MOST_SPAN)


def _ticks(span: float) -> list[float]:
    steps = (1.1, 1.2) if span < 1.5 else (1.25, 1.5, 2.0) if span < 2.5 else (2.0, 5.0, 10.0)
    above = [step for step in steps if step <= span]
    return sorted([1.0, *above, *(1 / step for step in above)])


def _draw_panel(axes: Axes, pairs: Sequence[Mapping[str, Any]], rows: Mapping[str, float]) -> None:
    span = _span(pairs)
    axes.set_xscale("log")
    axes.set_xlim(1 / span, span)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(span)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: as_number(round(value, 2))))
    axes.xaxis.set_minor_locator(NullLocator())
    for pair in pairs:
        row, shade = rows[pair["shape"]], COLOURS[pair["verdict"]]
        axes.plot([1, pair["ratio"]], [row, row], color=shade, linewidth=1.4, zorder=2)
        if pair["low"]:
            axes.plot([pair["low"], pair["high"]], [row, row], color=shade, linewidth=0.6, zorder=2)
        axes.plot(1, row, "o", markersize=3.2, color=GREY, markerfacecolor="white", zorder=3)
        open_mark = pair["verdict"] == INCONCLUSIVE
        axes.plot(
            pair["ratio"],
            row,
            "D" if open_mark else "o",
            markersize=2.6 if open_mark else 3.4,
            color=shade,
            markeredgewidth=0,
            zorder=4,
        )


def _draw(
    document: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], languages: Sequence[str]
) -> Figure:
    """One figure of an implementation's pairs, with a row for each shape."""
    benchmark = find_benchmark(document["benchmark"])
    shapes = list(dict.fromkeys(pair["shape"] for pair in pairs))
    rows = {shape: position + 0.5 for position, shape in enumerate(shapes)}
    compared = {pair["metric"] for pair in pairs}
    changed = {pair["metric"] for pair in pairs if pair["ratio"] != 1}
    metrics = [m for m in benchmark.measured if m.name in (changed or compared)]
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        margin = 1 + document["margin"]
        axes.axvspan(1 / margin, margin, color="#EEEEEE", zorder=0)
        _draw_panel(axes, [p for p in pairs if p["metric"] == metric.name], rows)
        title_panel(axes, [title_metric(metric, languages)])
        name_rows(axes, shapes, list(rows.values()), len(shapes))
    lay_out(figure, max(ROW_INCHES * len(shapes), 0.3))
    return figure


def draw_comparison(comparison_file: Path, folder: Path) -> None:
    """Write the figures of a comparison into a folder: ``<implementation>-<number>.svg``."""
    document = read_json(comparison_file)
    languages = document["languages"]
    folder.mkdir(parents=True, exist_ok=True)
    measured = [pair for pair in document["pairs"] if pair["metric"]]
    with drawing():
        for name in dict.fromkeys(pair["run"]["implementation"] for pair in measured):
            mine = [pair for pair in measured if pair["run"]["implementation"] == name]
            shapes = list(dict.fromkeys(pair["shape"] for pair in mine))
            for begin in range(0, len(shapes), MOST_ROWS):
                some = set(shapes[begin : begin + MOST_ROWS])
                figure = _draw(document, [p for p in mine if p["shape"] in some], languages)
                save(figure, folder / f"{name}-{begin // MOST_ROWS + 1}.svg")
