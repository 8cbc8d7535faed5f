"""Page one's figure of an experiment with two implementations: every speed-up, and the numbers.

A row a setting: forward, backward and total on one logarithmic axis that all experiments share,
with 95% intervals, and beside it the numbers and the share of the memory. A mark is hollow, and its
number grey, where the speed-up is not decided to differ by more than the margin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab import statistics
from flashlab.analysis.comparison_rows import variant_words
from flashlab.analysis.experiment import Experiment, Variant, chosen_metrics, metrics_of
from flashlab.analysis.frames import Gain, by_key, gains
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import said
from flashlab.figures.style import GREY, RATIO, SMALL_POINTS, Style, name_artists
from flashlab.numbers import times

WIDTH_MM = 110.0
ROW_MM, MOST_ROW_MM, ALL_ROWS_MM = 3.9, 6.0, 72.0
"""The least and the greatest height of a row, and that of all rows where both allow it."""

LABELS_MM, NUMBER_MM = 11.0, 13.5
HEADS_MM, AXIS_MM, EDGE_MM = 6.5, 4.5, 1.0
MM = 1 / 25.4

MARKERS = ("^", "v", "o", "s")
"""Of the passes in their order, and of the total, which is last."""

PASS, TOTAL = "#6B86A3", "#0A4C9C"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
ROOM = 1.15


@dataclass(frozen=True)
class Setting:
    """A row: its label, the speed-up by each metric, and the share of the memory, if known."""

    label: str
    speeds: Mapping[str, Gain]
    share: float | None


def _share(experiment: Experiment, other: str, value: int, variant: Any) -> float | None:
    """The other implementation's exact metric over the baseline's, where both have one."""
    values = []
    for metric in metrics_of(experiment.benchmark, exact=True)[:1]:
        for name in (other, experiment.baseline):
            rows = experiment.metric_rows(name, variant, metric.name)
            mine = [r["value"] for r in rows if experiment.value_of(r) == value]
            values += [v for v in mine if v is not None]
    return values[0] / values[1] if len(values) == 2 else None


def gains_over_baseline(
    experiment: Experiment, table: pd.DataFrame, other: str, variant: Variant
) -> dict[str, dict[int, Gain]]:
    """The gains of an implementation by metric and value, of the frame of comparisons.csv."""
    found: dict[str, dict[int, Gain]] = {}
    mine = by_key(gains(table[table.experiment == experiment.name], experiment.benchmark))
    for (_, words, metric, subject, reference, value), gain in mine.items():
        if (words, subject, reference) == (variant_words(variant), other, experiment.baseline):
            found.setdefault(metric, {})[value] = gain
    return found


def settings_of(experiment: Experiment, table: pd.DataFrame) -> list[Setting]:
    """The rows of an experiment with two implementations, of its last variant.

    What comes before that, such as runs without a mask, is another experiment's.

    Args:
        experiment: one of the baseline and another implementation.
        table: the frame of comparisons.csv.
    """
    names = experiment.implementations
    if len(names) != 2 or experiment.baseline not in names:
        return []
    (other,) = (name for name in names if name != experiment.baseline)
    rows = []
    for variant in experiment.variants[-1:]:
        found = gains_over_baseline(experiment, table, other, variant)
        for value in experiment.values:
            speeds = {metric: each[value] for metric, each in found.items() if value in each}
            if speeds:
                share = _share(experiment, other, value, variant)
                rows.append(Setting(str(value), speeds, share))
    return rows


def limits_of(rows: Sequence[Setting]) -> tuple[float, float]:
    """The limits of the shared axis, about all estimates and 1."""
    every = [speed[0] for row in rows for speed in row.speeds.values()]
    return min([*every, 1.0]) / ROOM, max([*every, 1.0]) * ROOM


def _draw(
    experiment: Experiment,
    rows: Sequence[Setting],
    limits: tuple[float, float],
    languages: Sequence[str],
    *,
    row_mm: float,
    heads: bool,
    axis: bool,
) -> Figure:
    """The rows of an experiment; the first figure has `heads` of columns, the last the `axis`."""
    metrics = [m for m in chosen_metrics(experiment.benchmark) if not m.higher_is_better]
    above, below = (HEADS_MM if heads else EDGE_MM), (AXIS_MM if axis else EDGE_MM)
    height = above + below + row_mm * len(rows)
    figure = plt.figure(figsize=(WIDTH_MM * MM, height * MM))
    numbers = NUMBER_MM * (len(metrics) + 1)
    width = WIDTH_MM - LABELS_MM - numbers
    place = (LABELS_MM / WIDTH_MM, below / height, width / WIDTH_MM, 1 - (above + below) / height)
    axes = figure.add_axes(place)
    _scale(axes, limits, len(rows), axis)
    (other,) = (name for name in experiment.implementations if name != experiment.baseline)
    for y, row in enumerate(rows):
        _draw_row(axes, row, y, metrics, other)
    for column, metric in enumerate([*metrics, None]):
        right = 1 + (column + 1) * NUMBER_MM / width
        if heads:
            head = _head(metric, languages, is_total=metric is metrics[-1])
            _write(axes, right, -0.25, head, color=GREY, va="bottom")
        for y, row in enumerate(rows):
            _write_number(axes, right, y + 0.5, row, metric, is_total=metric is metrics[-1])
    _write_labels(axes, experiment, rows, width)
    return figure


def _head(metric: Metric | None, languages: Sequence[str], *, is_total: bool) -> str:
    """The heading of a column: a pass, the total, or the share of the memory (no metric)."""
    if metric is None:
        return "\n".join(said("speedups.share", languages))
    if is_total:
        return "\n".join(said("speedups.total", languages))
    return "\n".join(dict.fromkeys(metric.part[language] for language in languages))


def _scale(axes: Axes, limits: tuple[float, float], count: int, axis: bool) -> None:
    margin = 1 + statistics.MARGIN
    axes.set(xscale="log", xlim=limits, ylim=(count, 0))
    axes.axvspan(1 / margin, margin, color="#DADADA", linewidth=0, zorder=0.6)
    axes.axvline(1, color="black", linewidth=0.7, zorder=0.7)
    inside = [tick for tick in TICKS if limits[0] <= tick <= limits[1]]
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.tick_params(axis="x", labelbottom=axis, length=2 if axis else 0)
    axes.set_yticks([])
    for side in ("left", *(() if axis else ("bottom",))):
        axes.spines[side].set_visible(False)
    for y in range(count):
        axes.axhline(y + 0.5, color="#EFEFEF", linewidth=0.5, zorder=0.5)


def _draw_row(axes: Axes, row: Setting, y: int, metrics: Sequence[Metric], name: str) -> None:
    for number, metric in enumerate(metrics):
        if metric.name not in row.speeds:
            continue
        gain = row.speeds[metric.name]
        x, low, high, _ = gain
        is_total = metric is metrics[-1]
        color = TOTAL if is_total else PASS
        drawn: list[Any] = []
        if low is not None and high is not None:
            drawn += axes.plot([low, high], [y + 0.5] * 2, color=color, lw=0.9, zorder=2)
        style: Style = {"marker": MARKERS[2 if is_total else number % 2], "color": color}
        style |= {"markersize": 5 if is_total else 4, "markeredgewidth": 0.8, "clip_on": False}
        style |= {"markerfacecolor": color if gain.is_decided else "white", "zorder": 3 + is_total}
        drawn += axes.plot([x], [y + 0.5], linestyle="none", **style)
        name_artists(name, drawn)


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    coords = axes.get_yaxis_transform()
    given = {"ha": "right", "va": "center", "fontsize": SMALL_POINTS, "linespacing": 1.1, **style}
    axes.text(x, y, text, transform=coords, clip_on=False, **given)


def _write_number(
    axes: Axes, x: float, y: float, row: Setting, metric: Metric | None, *, is_total: bool
) -> None:
    """A speed-up, or the share of the memory; grey where the speed-up is not decided."""
    if metric is None:
        if row.share is not None:
            _write(axes, x, y, f"{100 * row.share:.0f}%")
        return
    if metric.name in row.speeds:
        gain = row.speeds[metric.name]
        style: Style = {"color": RATIO if gain.is_decided else GREY}
        weight = "bold" if is_total and gain.is_decided else "normal"
        _write(axes, x, y, f"{times(*gain[:3])}×", fontweight=weight, **style)


def _write_labels(
    axes: Axes, experiment: Experiment, rows: Sequence[Setting], width: float
) -> None:
    """The swept values, with the parameter's symbol before the first."""
    symbol = experiment.parameter.symbol
    _write(axes, -(LABELS_MM - 0.5) / width, 0.5, symbol, color=GREY, ha="left")
    for y, row in enumerate(rows):
        _write(axes, -1.5 / width, y + 0.5, row.label, color=GREY)


def draw_speedups(
    experiments: Sequence[Experiment], table: pd.DataFrame, languages: Sequence[str]
) -> Iterator[tuple[str, Figure]]:
    """The figure of each sweep of two implementations, by its id: ``speedups-<experiment>``.

    None of a benchmark without times, whose ratios are no speed-ups.
    """
    metrics = chosen_metrics(experiments[0].benchmark)
    if all(metric.higher_is_better for metric in metrics):
        return
    sweeps = [each for each in experiments if each.is_ordered and not each.is_simulated]
    by_name = {each.name: (each, settings_of(each, table)) for each in sweeps}
    shown = {name: (each, rows) for name, (each, rows) in by_name.items() if rows}
    if not shown:
        return
    every = [row for _, rows in shown.values() for row in rows]
    limits, names = limits_of(every), list(shown)
    row_mm = min(MOST_ROW_MM, max(ROW_MM, ALL_ROWS_MM / len(every)))
    for name, (experiment, rows) in shown.items():
        ends = {"heads": name == names[0], "axis": name == names[-1]}
        yield f"speedups-{name}", _draw(experiment, rows, limits, languages, row_mm=row_mm, **ends)
