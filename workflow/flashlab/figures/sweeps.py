"""The figures of an experiment: a panel for each pass, a line for each implementation.

Ticks stand at the measured values; bars are 95% intervals; a run without a result is marked with
its status above the panel, never as zero.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.catalogs import SYMBOLS, in_all
from flashlab.figures.style import (
    LABEL_POINTS,
    PAGE_INCHES,
    as_number,
    colour,
    drawing,
    implementation_id,
    marker,
    save,
)
from flashlab.glyphs import legible_plan
from flashlab.tables import read_csv

LABEL_INCHES = 1.35
PANEL_INCHES = ((PAGE_INCHES - LABEL_INCHES) / 2, 1.72)
POINTS = 72
"""Points in an inch."""

LINE_INCHES = (LABEL_POINTS + 2.5) / POINTS
"""Height of a line of a label: what many labels make a panel higher by."""

MARK_POINTS = 8
"""Height of a row of marks above a panel, and of a line that says what they stand for."""

LEADER = 0.045
"""Length of the line from the panel's edge to a label, as a share of the panel's width."""


@dataclass(frozen=True)
class Metric:
    """How a metric is drawn: one panel for each of `passes`, from these columns of the tables."""

    passes: tuple[str, ...]
    value: str
    low: str | None
    high: str | None
    unit: str
    logarithmic: bool


METRICS = {
    "time": Metric(("forward", "backward"), "time_ms", "time_low_ms", "time_high_ms", "ms", True),
    "rate": Metric(
        ("forward", "backward"),
        *("rate_TFLOPs", "rate_low_TFLOPs", "rate_high_TFLOPs", "TFLOP/s"),
        logarithmic=False,
    ),
    "memory": Metric(("",), "peak_memory_MiB", None, None, "MiB", True),
}


@dataclass(frozen=True)
class Series:
    """One line of a panel: whose, its label, look, and rows of the table in order of the sweep.

    `short` is its name within a line of text.
    """

    name: str
    short: str
    label: str
    colour: str
    marker: str
    rows: list[dict[str, Any]]


def _series(
    plan: Mapping[str, Any],
    languages: Sequence[str],
    chosen: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> list[Series]:
    """The lines of a panel: one for each implementation, or one each for causal and full."""
    masks = sorted({bool(row["causal"]) for row in rows})
    found = []
    for entry in plan["implementations"]:
        if entry["name"] not in chosen:
            continue
        name = "\n".join(dict.fromkeys(entry["label"][language] for language in languages))
        for causal in masks:
            mine = [
                dict(row)
                for row in rows
                if row["implementation"] == entry["name"] and row["causal"] == causal
            ]
            short, label, style = entry["name"], name, entry["style"]
            if len(masks) > 1:
                mask = in_all(languages, "figures", "causal" if causal else "full")
                short = f"{short} {mask}"
                label = mask if len(chosen) == 1 else f"{name}\n{mask}"
                style = 2 * style + causal if len(chosen) > 1 else style + 4 * causal
            found.append(
                Series(
                    entry["name"],
                    short,
                    label,
                    colour(style),
                    marker(style),
                    sorted(mine, key=lambda row: row[plan["sweep"]]),
                )
            )
    return found


def _draw_line(axes: Axes, series: Series, sweep: str, metric: Metric) -> None:
    measured = [row for row in series.rows if row[metric.value] is not None]
    if not measured:
        return
    drawn: list[Any] = axes.plot(
        [row[sweep] for row in measured],
        [row[metric.value] for row in measured],
        color=series.colour,
        marker=series.marker,
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linewidth=1.4,
    )
    if metric.low and metric.high:
        bounded = [row for row in measured if row[metric.low] is not None]
        bars = axes.errorbar(
            [row[sweep] for row in bounded],
            [row[metric.value] for row in bounded],
            yerr=[
                [row[metric.value] - row[metric.low] for row in bounded],
                [row[metric.high] - row[metric.value] for row in bounded],
            ],
            fmt="none",
            ecolor=series.colour,
            elinewidth=0.8,
            capsize=2,
        )
        drawn += [part for parts in bars.lines[1:] for part in parts]
    implementation_id(axes, series.name, drawn)


def _failed(all_series: Sequence[Series]) -> list[Series]:
    """Those with a run that has no result."""
    return [series for series in all_series if any(r["status"] != "ok" for r in series.rows)]


def _mark_failures(axes: Axes, all_series: Sequence[Series], sweep: str) -> None:
    """Mark each run without a result above the upper edge, clear of the data: a row a series."""
    for level, series in enumerate(_failed(all_series)):
        for row in series.rows:
            if row["status"] == "ok":
                continue
            mark = axes.annotate(
                "×",
                (row[sweep], 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, MARK_POINTS * level + 1),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=series.colour,
                fontsize=LABEL_POINTS - 2,
            )
            implementation_id(axes, series.name, [mark])


def _in_stretches(chosen: Sequence[int], values: Sequence[int]) -> str:
    """The chosen ones of a sweep's values, neighbours from the third on in short: 1 – 4, 16."""
    found = []
    positions = enumerate(values.index(value) for value in chosen)
    for _, group in itertools.groupby(positions, key=lambda pair: pair[1] - pair[0]):
        stretch = [str(values[position]) for _, position in group]
        found += [f"{stretch[0]} – {stretch[-1]}"] if len(stretch) > 2 else stretch
    return ", ".join(found)


def _failures(
    all_series: Sequence[Series], sweep: str, languages: Sequence[str]
) -> list[tuple[Series, str]]:
    """What the marks stand for: a line for each series and status, with the sizes."""
    values = sorted({row[sweep] for series in all_series for row in series.rows})
    found = []
    for series in _failed(all_series):
        for status in dict.fromkeys(row["status"] for row in series.rows):
            if status == "ok":
                continue
            failed = [row[sweep] for row in series.rows if row["status"] == status]
            said = in_all(languages, "figures", status)
            at = f"{SYMBOLS[sweep]} = {_in_stretches(failed, values)}"
            found.append((series, f"× {series.short}: {said}, {at}"))
    return found


def _explain_failures(axes: Axes, failures: Sequence[tuple[Series, str]]) -> None:
    """Write the lines on failures at the figure's upper edge, once for all of its panels."""
    for position, (series, said) in enumerate(failures):
        line = axes.annotate(
            said,
            (axes.get_position().x0, 1.0),
            xycoords="figure fraction",
            xytext=(0, -MARK_POINTS * position - 1),
            textcoords="offset points",
            ha="left",
            va="top",
            color=series.colour,
            fontsize=LABEL_POINTS - 2,
            annotation_clip=False,
        )
        implementation_id(axes, series.name, [line])


def _label_ends(axes: Axes, all_series: Sequence[Series], sweep: str, metric: Metric) -> None:
    """Write each line's label beside its last point, moved apart where two would overlap."""
    ends = []
    for series in all_series:
        measured = [row for row in series.rows if row[metric.value] is not None]
        if measured:
            last = measured[-1]
            x, y = axes.transData.transform((last[sweep], last[metric.value]))
            ends.append([y, series, series.label.count("\n") + 1, (x, y)])
    pixels_per_point = axes.figure.dpi / POINTS
    heights = {id(end): (LABEL_POINTS + 2.5) * end[2] * pixels_per_point for end in ends}
    bottom, top = float("-inf"), axes.bbox.y1 + LABEL_POINTS * pixels_per_point
    ends.sort(key=lambda end: end[0])
    for end in ends:  # upwards, each above the one before
        end[0] = max(end[0], bottom + heights[id(end)] / 2)
        bottom = end[0] + heights[id(end)] / 2
    for end in reversed(ends):  # and down again, where the upmost left the figure
        end[0] = min(end[0], top - heights[id(end)] / 2)
        top = end[0] - heights[id(end)] / 2
        y = axes.transAxes.inverted().transform((0, end[0]))[1]
        x, point = axes.transAxes.inverted().transform(end[3])
        (leader,) = axes.plot(
            [x, 1.0, 1.0 + LEADER],
            [point, point, y],
            transform=axes.transAxes,
            color=end[1].colour,
            linewidth=0.6,
            zorder=1.5,
            clip_on=False,
        )
        label = axes.annotate(
            end[1].label,
            (1.0 + LEADER, y),
            xycoords="axes fraction",
            xytext=(2, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            color=end[1].colour,
            fontweight="bold",
            linespacing=1.05,
            annotation_clip=False,
        )
        implementation_id(axes, end[1].name, [leader, label])


def _scale_axes(axes: Axes, values: Sequence[int], metric: Metric) -> None:
    empty = not axes.has_data()
    if empty:  # the marks of failures stand at the sizes all the same
        axes.update_datalim([(value, 1.0) for value in values])
    if len(values) > 1 and all(b == 2 * a for a, b in itertools.pairwise(values)):
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    if metric.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(as_number))
    if empty:
        axes.yaxis.set_major_locator(ticker.NullLocator())
        axes.autoscale_view()


def _widen_narrow_range(axes: Axes) -> None:
    """Give a logarithmic axis at least one octave either side, or nearly equal values look far."""
    low, high = axes.get_ylim()
    if high / low < 4:
        centre = math.sqrt(low * high)
        axes.set_ylim(centre / 2, centre * 2)


def draw(
    plan: Mapping[str, Any],
    languages: Sequence[str],
    figure: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    passes: Sequence[Mapping[str, Any]],
) -> Figure:
    """One figure of an experiment: a panel for each pass, a line for each implementation."""
    metric = METRICS[figure["metric"]]
    sweep = plan["sweep"]
    count = len(metric.passes)
    width = PANEL_INCHES[0] * (1.35 if count == 1 else count) + LABEL_INCHES
    labelled = _series(plan, languages, figure["implementations"], runs)
    lines_of_labels = sum(series.label.count("\n") + 1 for series in labelled)
    failures = _failures(labelled, sweep, languages)
    marks = MARK_POINTS * len(_failed(labelled))
    above = (marks + MARK_POINTS * len(failures)) / POINTS
    height = max(PANEL_INCHES[1], lines_of_labels * LINE_INCHES + 0.5) + above
    drawn, panels = plt.subplots(
        1, count, figsize=(width, height), sharey=True, squeeze=False, layout=None
    )
    drawn.subplots_adjust(
        left=0.72 / width,
        right=1 - LABEL_INCHES / width,
        bottom=0.4 / height,
        top=1 - (0.22 + above) / height,
        wspace=0.12,
    )
    rows_of = {
        name: [row for row in passes if row["pass"] == name] if name else runs
        for name in metric.passes
    }
    lines = {
        name: _series(plan, languages, figure["implementations"], rows_of[name]) for name in rows_of
    }
    for axes, name in zip(panels[0], metric.passes, strict=True):
        for series in lines[name]:
            _draw_line(axes, series, sweep, metric)
        _scale_axes(axes, sorted({row[sweep] for row in rows_of[name]}), metric)
        axes.set_xlabel(in_all(languages, "figures", sweep))
        axes.set_ylabel("")
        if name:
            pad = plt.rcParams["axes.titlepad"] + marks
            axes.set_title(in_all(languages, "figures", name), loc="left", pad=pad)
    if metric.logarithmic:
        _widen_narrow_range(panels[0][0])
    else:
        panels[0][0].set_ylim(bottom=0)
    quantity = in_all(languages, "figures", figure["metric"], "\n")
    panels[0][0].set_ylabel(f"{quantity} ({metric.unit})")
    for axes, name in zip(panels[0], metric.passes, strict=True):
        _mark_failures(axes, lines[name], sweep)
    _explain_failures(panels[0][0], failures)
    _label_ends(panels[0][-1], lines[metric.passes[-1]], sweep, metric)
    return drawn


def draw_figures(plan_file: Path, tables: Path, languages_file: Path, output: Path) -> None:
    """Draw the figures of the experiment planned in `plan_file` as ``output/<id>.svg``.

    A title or label is drawn as `legible_plan` gives it; any other character that the vendored
    fonts lack is an error. The files are the same at every call.
    """
    plan = legible_plan(json.loads(plan_file.read_text(encoding="utf-8")))
    languages = json.loads(languages_file.read_text(encoding="utf-8"))
    runs, passes = read_csv(tables / "runs.csv"), read_csv(tables / "passes.csv")
    with drawing():
        for figure in plan["figures"]:
            drawn = draw(plan, languages, figure, runs, passes)
            save(drawn, output / f"{figure['id']}.svg")
