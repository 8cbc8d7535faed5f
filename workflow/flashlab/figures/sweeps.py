"""The figures of an experiment: a panel a metric, a line an implementation and variant.

Ticks stand at the measured values; bars are 95% intervals; a run without a result is marked with
its status above the panel, never as zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from flashlab.catalogs import in_all
from flashlab.figures.labels import (
    in_languages,
    label_covaried,
    label_parameter,
    label_variant,
    title_metric,
)
from flashlab.figures.style import (
    LABEL_POINTS,
    PAGE_INCHES,
    POINTS,
    as_number,
    colour,
    drawing,
    each_variant,
    facet_grid,
    name_artists,
    place_panels,
    save,
    scale_sizes,
)
from flashlab.files import read_json
from flashlab.glyphs import legible_plan
from flashlab.sweep import Sweep, read_sweep

LABEL_INCHES = 1.35
PANEL_INCHES = ((PAGE_INCHES - LABEL_INCHES) / 2, 1.13)
SINGLE_PANEL = 1.35
"""How many times as wide a panel is that stands alone."""

LINE_POINTS = LABEL_POINTS + 2.5
"""Height of a line of a label: what many labels make a panel higher by."""

MARK_POINTS = 8
"""Height of a row of marks above a panel, and of a line that says what they stand for."""

LEADER = 0.045
"""Length of the line from the panel's edge to a label, as a share of the panel's width."""

LINE = ["implementation", "variant"]
"""The columns that tell a line from the others."""


def _entries(sweep: Sweep, figure: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The implementations that a figure shows."""
    return [e for e in sweep.plan["implementations"] if e["name"] in figure["implementations"]]


def _frame(sweep: Sweep, figure: Mapping[str, Any], languages: Sequence[str]) -> pd.DataFrame:
    """A row for each run and metric; a run without a result has no value.

    ``line`` is the label at the line's end, ``short`` the line's name in a text.
    """
    entries = _entries(sweep, figure)
    rows = []
    for entry, (position, variant) in itertools.product(entries, enumerate(sweep.variants)):
        words = label_variant(sweep.benchmark, variant, languages) if sweep.variants[1:] else ""
        label = in_languages(entry["label"], languages, "\n")
        line = {
            "implementation": entry["name"],
            "variant": position,
            "line": words if words and len(entries) == 1 else f"{label}\n{words}".strip(),
            "short": f"{entry['name']} {words}".strip(),
            "color": colour(entry),
        }
        for metric in sweep.benchmark.panels(figure["quantity"]):
            for row in sweep.metric_rows(entry["name"], variant, metric.name):
                kept = {key: row[key] for key in ("metric", "status", "value", "low", "high")}
                rows.append({**line, **kept, "size": sweep.value_of(row)})
    data = pd.DataFrame(rows).astype({"value": float, "low": float, "high": float})
    failed = data[data["status"] != "ok"]
    return data.assign(level=failed.groupby(LINE, sort=False).ngroup())


def _draw_lines(data: pd.DataFrame, color: str, marker: str, label: str) -> None:
    """The lines of an implementation in the current panel, with their intervals."""
    axes = plt.gca()
    for measured, style in each_variant(data.dropna(subset="value"), color):
        drawn: list[Any] = axes.plot(
            measured["size"], measured["value"], marker=marker, markersize=5, linewidth=1.4, **style
        )
        bounded = measured.dropna(subset=["low", "high"])
        bars = axes.errorbar(
            bounded["size"],
            bounded["value"],
            yerr=(bounded["value"] - bounded["low"], bounded["high"] - bounded["value"]),
            fmt="none",
            ecolor=color,
            elinewidth=0.8,
            capsize=2,
        )
        name_artists(label, [*drawn, *bars.lines[1], *bars.lines[2]])


def _mark_failures(data: pd.DataFrame, color: str, marker: str, label: str) -> None:
    """Mark each run without a result above the upper edge, clear of the data: a row a line."""
    for row in data[data["status"] != "ok"].to_dict("records"):
        mark = plt.gca().annotate(
            "×",
            (row["size"], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, MARK_POINTS * row["level"] + 1),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=color,
            fontsize=LABEL_POINTS - 2,
        )
        name_artists(label, [mark])


def _in_stretches(chosen: Sequence[int], values: Sequence[int]) -> str:
    """The chosen ones of a sweep's values, three neighbours or more in short: 1 – 4, 16."""
    found = []
    positions = enumerate(values.index(value) for value in chosen)
    for _, group in itertools.groupby(positions, key=lambda pair: pair[1] - pair[0]):
        stretch = [str(values[position]) for _, position in group]
        found += [f"{stretch[0]} – {stretch[-1]}"] if len(stretch) > 2 else stretch
    return ", ".join(found)


def _explain_failures(axes: Axes, failures: Any, sweep: Sweep, languages: Sequence[str]) -> None:
    """Write what the marks stand for at the figure's upper edge: a text a line and status."""
    for position, ((name, _, status), runs) in enumerate(failures):
        words = in_all(languages, "figures", status)
        at = _in_stretches(sorted(set(runs["size"])), sweep.values)
        text = axes.annotate(
            f"× {runs['short'].iloc[0]}: {words}, {sweep.parameter.symbol} = {at}",
            (axes.get_position().x0, 1.0),
            xycoords="figure fraction",
            xytext=(0, -MARK_POINTS * position - 1),
            textcoords="offset points",
            ha="left",
            va="top",
            color=runs["color"].iloc[0],
            fontsize=LABEL_POINTS - 2,
            annotation_clip=False,
        )
        name_artists(name, [text])


def _spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> Any:
    """Places for labels as near as can be to where they are wanted, in order, without overlap."""
    extents = np.asarray(heights)
    offsets = np.cumsum(extents) - extents / 2
    places = isotonic_regression(np.asarray(wanted) - offsets).x
    return np.clip(places, low, max(low, high - extents.sum())) + offsets


def _label_ends(axes: Axes, data: pd.DataFrame) -> None:
    """Write each line's label beside its last point, moved apart where two would overlap."""
    ends = data.dropna(subset="value").groupby(LINE, sort=False).tail(1)
    if ends.empty:
        return
    to_axes = axes.transData - axes.transAxes
    ends[["x", "y"]] = to_axes.transform(ends[["size", "value"]].to_numpy())
    ends = ends.sort_values("y", kind="stable")
    height = LINE_POINTS / POINTS * axes.figure.dpi / axes.bbox.height
    heights = [height * (line.count("\n") + 1) for line in ends["line"]]
    ends["place"] = _spread(ends["y"].to_list(), heights, -height, 1 + height)
    for end in ends.to_dict("records"):
        (leader,) = axes.plot(
            [end["x"], 1.0, 1.0 + LEADER],
            [end["y"], end["y"], end["place"]],
            transform=axes.transAxes,
            color=end["color"],
            linewidth=0.6,
            zorder=1.5,
            clip_on=False,
        )
        label = axes.annotate(
            end["line"],
            (1.0 + LEADER, end["place"]),
            xycoords="axes fraction",
            xytext=(2, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            color=end["color"],
            fontweight="bold",
            linespacing=1.05,
            annotation_clip=False,
        )
        name_artists(end["implementation"], [leader, label])


def _scale_values(axes: Axes, logarithmic: bool) -> None:
    """The vertical axis: at least two octaves of a logarithmic one, and from zero otherwise."""
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        low, high = axes.get_ylim()
        if high / low < 4:  # else nearly equal values would look far apart
            centre = math.sqrt(low * high)
            axes.set_ylim(centre / 2, centre * 2)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(as_number))


def draw(sweep: Sweep, languages: Sequence[str], figure: Mapping[str, Any]) -> Figure:
    """One figure of an experiment: a panel for each metric of its quantity.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    metrics = sweep.benchmark.panels(figure["quantity"])
    quantity = metrics[0].quantity
    data = _frame(sweep, figure, languages)
    failures = data[data["status"] != "ok"].groupby([*LINE, "status"], sort=False)
    ticks = [
        "\n".join([str(value), *along])
        for value, along in zip(sweep.values, label_covaried(sweep), strict=True)
    ]
    marks = MARK_POINTS * data["level"].nunique()
    grid = facet_grid(
        data, _entries(sweep, figure), col="metric", col_order=[metric.name for metric in metrics]
    )
    grid.map_dataframe(_draw_lines)
    grid.map_dataframe(_mark_failures)
    width = PANEL_INCHES[0] * (SINGLE_PANEL if len(metrics) == 1 else len(metrics)) + LABEL_INCHES
    lines = "\n".join(data.drop_duplicates(LINE)["line"]).count("\n") + 1
    height = max(PANEL_INCHES[1], lines * LINE_POINTS / POINTS - 0.1)
    above = 0.22 + (marks + MARK_POINTS * failures.ngroups) / POINTS
    margins = 0.84, LABEL_INCHES, 0.4 + 0.13 * ticks[0].count("\n"), above
    place_panels(grid.figure, width, height, margins, wspace=0.12)
    first, last = grid.axes.flat[0], grid.axes.flat[-1]
    for axes, metric in zip(grid.axes.flat, metrics, strict=True):
        if not axes.has_data():  # the marks of failures stand at the sizes all the same
            axes.update_datalim([(value, 1.0) for value in sweep.values])
        scale_sizes(axes, sweep.values, ticks)
        axes.set_xlabel(label_parameter(sweep.parameter, languages))
        if len(metrics) > 1:
            pad = plt.rcParams["axes.titlepad"] + marks
            axes.set_title(title_metric(metric, languages), pad=pad)
    first.set_ylabel(f"{in_languages(quantity.labels, languages, chr(10))} ({quantity.unit})")
    if data["value"].notna().any():
        _scale_values(first, quantity.logarithmic)
    else:
        first.yaxis.set_major_locator(ticker.NullLocator())
    _explain_failures(first, failures, sweep, languages)
    _label_ends(last, data[data["metric"] == metrics[-1].name])
    drawn: Figure = grid.figure
    return drawn


def draw_figures(plan_file: Path, tables: Path, languages_file: Path, output: Path) -> None:
    """Draw the figures of the experiment planned in `plan_file` as ``output/<id>.svg``.

    A title or label is drawn as `legible_plan` gives it; any other character that the vendored
    fonts lack is an error. The files are the same at every call.

    Args:
        plan_file: ``plan/experiments/<name>.json``.
        tables: folder of all experiments' tables.
        languages_file: ``plan/languages.json``.
        output: folder to draw into.
    """
    sweep = read_sweep(legible_plan(read_json(plan_file)), tables)
    languages = read_json(languages_file)
    with drawing():
        for figure in sweep.plan["figures"]:
            save(draw(sweep, languages, figure), output / f"{figure['id']}.svg")
