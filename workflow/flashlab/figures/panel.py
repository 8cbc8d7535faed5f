"""The panel of the figures of sweeps: lines of values, with their intervals, along a sweep.

Ticks stand at the measured values; bars are 95% intervals. A run without a result is marked above
the panel, never drawn as zero; an implausible one is marked where it stands, or at the panel's edge
where it lies beyond. Values of a sweep that name whole problems stand side by side, with no line
between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import IMPLAUSIBLE, Experiment
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import ceiling_bounds, has_room
from flashlab.figures.labels import covaried, in_words, label_product, label_variant
from flashlab.figures.placement import POINTS, spread, text_inches
from flashlab.figures.style import (
    DASHES,
    GREY,
    LINE_POINTS,
    SMALL_POINTS,
    TICK_INCHES,
    Look,
    Style,
    handle,
    name_artists,
    scale_linearly,
    scale_logarithmically,
    title_panel,
    write,
)
from flashlab.telling.stretches import ends_of_stretch, neighbours

LINE = ["implementation", "variant"]
"""The columns that identify a line."""

MARK_POINTS = 7
"""Height of a row of marks above a panel."""

MARK: Style = {"marker": "x", "markersize": 3.5, "markeredgewidth": 1, "linestyle": "none"}
GROUND: Style = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}
"""Behind a text that stands on lines."""

POINT: Style = {"size": 1.3, "linestyle": "none"}
"""Properties of the values of whole problems."""

MARGIN = 0.11
"""Free space on each side of the axis of sizes, as a share of the space between."""

FARTHEST = 1.25
"""An interval that goes farther beyond the highest value is cut off at the panel's edge."""


# The data


def run_frame(
    experiment: Experiment, names: Collection[str], metrics: Sequence[Metric]
) -> pd.DataFrame:
    """A row for each run of these implementations and metric; no value without a result.

    ``variant`` is the variant's position in the sweep, ``size`` the value of the swept parameter.
    An implausible value is in ``beyond`` instead.
    """
    measured = ["metric", "status", "value", "low", "high"]
    rows = [
        (name, position, experiment.value_of(row), *(row[column] for column in measured))
        for name in experiment.implementations
        if name in names
        for position, variant in enumerate(experiment.variants)
        for metric in metrics
        for row in experiment.metric_rows(name, variant, metric.name)
    ]
    data = pd.DataFrame(rows, columns=[*LINE, "size", *measured])
    return set_apart(data.astype(dict.fromkeys(("value", "low", "high"), float)))


def set_apart(data: pd.DataFrame) -> pd.DataFrame:
    """The rows with implausible values in a column of their own, ``beyond``."""
    is_beyond = data["status"] == IMPLAUSIBLE
    shown = data[["value", "low", "high"]].mask(is_beyond)
    return data.assign(beyond=data["value"].where(is_beyond), **shown)


def line_frame(
    experiment: Experiment,
    names: Collection[str],
    metrics: Sequence[Metric],
    languages: Sequence[str],
) -> pd.DataFrame:
    """The runs as lines: of variants with the same exact values, only the first is there.

    ``place`` is where a run stands along the axis, ``label`` the line's, and ``level`` the row of
    marks of a line that has a run without a result.
    """
    data = run_frame(experiment, names, metrics)
    if all(metric.exact for metric in metrics):
        values = data.groupby(LINE)[["metric", "size", "value", "status"]]
        said = values.apply(lambda rows: rows.to_json(orient="values")).reset_index(name="said")
        data = data.merge(said.drop_duplicates(["implementation", "said"])[LINE])
    shown, several = data["implementation"], data.groupby("implementation")["variant"]
    labels = [label_variant(experiment.benchmark, v, languages) for v in experiment.variants]
    words = data["variant"].map(dict(enumerate(labels)))
    words = words.where(several.transform("nunique") > 1, "")
    alone = (words != "") & (shown.nunique() == 1)
    return data.assign(
        place=data["size"].map(dict(zip(experiment.values, _places_of(experiment), strict=True))),
        label=words.where(alone, (shown + " " + words).str.strip()),
        level=data[data["status"] != "ok"].groupby(LINE, sort=False).ngroup(),
    )


def sizes_of(experiment: Experiment) -> dict[str, list[Any]]:
    """The sizes below the ticks of a sweep, by symbol: its values, and those that vary along.

    Of whole problems, whose sizes are many and in a table, the values alone.
    """
    along = {} if experiment.is_of_problems else covaried(experiment)
    return {experiment.parameter.symbol: experiment.values, **along}


def ticks_of(experiment: Experiment) -> list[str]:
    """The labels of a sweep's values, a line for each of `sizes_of`."""
    return ["\n".join(map(str, each)) for each in zip(*sizes_of(experiment).values(), strict=True)]


def write_symbols(axes: Axes, experiment: Experiment) -> float:
    """Write each size's symbol before its line of ticks; the width that takes, in points."""
    left = max(4.0, POINTS * text_inches(ticks_of(experiment)[0], SMALL_POINTS) / 2 - 1)
    for row, symbol in enumerate(sizes_of(experiment)):
        head: Style = {"ha": "right", "va": "top", "color": GREY}
        below = -3.8 - row * LINE_POINTS
        write(axes, symbol, (0, 0), (-left, below), "axes fraction", **head)  # clear of the first
    return left


def _places_of(experiment: Experiment) -> list[int]:
    return list(range(len(experiment.values))) if experiment.is_of_problems else experiment.values


def value_limits(
    data: pd.DataFrame, logarithmic: bool, *further: float
) -> tuple[float, float] | None:
    """The limits of the axis of values: from zero, or, if logarithmic, about all that it shows.

    None where there is no value. `further` are others to show.
    """
    values = data["value"].dropna()
    if values.empty:
        return None
    ends = data[["low", "high"]].stack().dropna()
    shown = [*values, *ends.clip(values.min() / FARTHEST, values.max() * FARTHEST), *further]
    low, high = min(shown), max(shown)
    if not logarithmic:
        return 0.0, 1.06 * high or 1.0
    free = max(1.1, (high / low) ** 0.06)
    return low / free, high * free


# The panel


def draw_panel(
    axes: Axes,
    experiment: Experiment,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    title: Sequence[str],
    height: float,
    *,
    ticks: Sequence[str],
    limits: tuple[float, float] | None,
    logarithmic: bool,
    labelled: Collection[str],
    rows: int,
) -> None:
    """Draw lines of `line_frame`, with all that belongs to them, in a panel so many inches high.

    `ticks` are the labels of the sweep's values, `limits` those of the values drawn
    (`value_limits`), on a `logarithmic` axis or one from zero. `labelled` are the implementations
    whose lines are labelled, and `rows` is how many rows of marks there is room for.
    """
    draw_series(axes, data, looks, **(POINT if experiment.is_of_problems else {}))
    _scale_places(axes, experiment, ticks)
    most = max(2, int(height / TICK_INCHES))
    if limits is None:
        axes.set_yticks([])
    elif logarithmic:
        scale_logarithmically(axes.yaxis, *limits, most)
    else:
        axes.set_ylim(*limits)
        scale_linearly(axes.yaxis, min(5, most))
    _mark_missing(axes, data[data["beyond"].isna()], looks)
    mark_beyond(axes, data, looks)
    _label_ends(axes, data[data["implementation"].isin(labelled)], looks, height)
    title_panel(axes, title, MARK_POINTS * rows)


def draw_series(
    axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], size: float = 1.0, **style: Any
) -> list[tuple[Line2D, pd.DataFrame]]:
    """Draw lines with markers and the intervals of their values; each line and its rows.

    `data` has a row for each value: the columns of `LINE`, ``place``, ``value``, ``low`` and
    ``high``. The markers are `size` times as large as by default; `style` are properties of all
    lines, in place of those of their looks.
    """
    lines = {
        f"{name} {variant}": (looks[str(name)], int(str(variant)), rows)
        for (name, variant), rows in data.dropna(subset="value").groupby(LINE, sort=False)
    }
    if not lines:
        return []
    # Seaborn otherwise makes ticks, to be replaced, and labels an axis only where it has some.
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(NullLocator())
    sns.lineplot(
        pd.concat([rows.assign(line=line) for line, (_, _, rows) in lines.items()]),
        x="place",
        y="value",
        hue="line",
        palette={line: look.shade for line, (look, _, _) in lines.items()},
        style="line",
        markers={line: look.marker for line, (look, _, _) in lines.items()},
        dashes={line: DASHES[variant % len(DASHES)] for line, (_, variant, _) in lines.items()},
        estimator=None,
        legend=False,
        ax=axes,
    )
    axes.set(xlabel="", ylabel="")
    axes.xaxis.label.set_visible(True)
    drawn = list(zip(axes.lines[-len(lines) :], lines.values(), strict=True))
    for artist, (look, variant, rows) in drawn:
        artist.set(**(look.weight(variant, size) | style))
        named: list[Artist] = [artist]
        if rows["low"].notna().any():
            named.append(_draw_intervals(axes, rows, look.shade))
        name_artists(rows["implementation"].iloc[0], named)
    return [(artist, rows) for artist, (_, _, rows) in drawn]


def _draw_intervals(axes: Axes, rows: pd.DataFrame, color: str) -> LineCollection:
    """Bars from ``low`` to ``high``: one path with gaps for all of them."""
    ends = rows[["low", "high"]].assign(gap=np.nan).to_numpy().ravel()
    bars = LineCollection([np.column_stack([rows["place"].repeat(3), ends])], colors=color, lw=0.8)
    axes.add_collection(bars)
    return bars


def _scale_places(axes: Axes, experiment: Experiment, ticks: Sequence[str]) -> None:
    """Ticks at the values of the sweep, logarithmic where they span two octaves."""
    places = _places_of(experiment)
    if not experiment.is_of_problems and 0 < 4 * places[0] <= places[-1]:
        axes.set_xscale("log", base=2)
    transform = axes.xaxis.get_transform()
    low, high = transform.transform([places[0], places[-1]])
    free = MARGIN * (high - low) or 0.5
    axes.set_xlim(*transform.inverted().transform([low - free, high + free]))
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FixedFormatter(ticks))
    axes.xaxis.set_minor_locator(NullLocator())


def _points(axes: Axes, across: float, up: float) -> ScaledTranslation:
    return ScaledTranslation(across / POINTS, up / POINTS, axes.figure.dpi_scale_trans)


def _mark_missing(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Mark each run without a result above the upper edge, clear of the data: a row a line."""
    for _, runs in data[data["status"] != "ok"].groupby("level"):
        name, level = str(runs["implementation"].iloc[0]), float(runs["level"].iloc[0])
        above = axes.get_xaxis_transform() + _points(axes, 0, MARK_POINTS * (level + 0.5))
        marks = {**MARK, "color": looks[name].text, "clip_on": False, "transform": above}
        name_artists(name, axes.plot(runs["place"], [1.0] * len(runs), **marks))


def mark_beyond(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Mark each implausible value (`set_apart`), at the panel's edge where it lies beyond."""
    for name, runs in data.dropna(subset="beyond").groupby("implementation", sort=False):
        at = runs["beyond"].clip(*axes.get_ylim())
        marks = {**MARK, "color": looks[str(name)].text, "clip_on": False}
        name_artists(str(name), axes.plot(runs["place"], at, **marks))


def _label_ends(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], height: float) -> None:
    """Write each line's label beside the panel, as near to its last point as the others allow.

    A leader goes to it; that of a line which ends before the others has its marker instead.
    """
    ends = data.dropna(subset="value").groupby(LINE, sort=False).tail(1)
    if ends.empty:
        return
    places = (axes.transData - axes.transAxes).transform(ends[["place", "value"]].to_numpy())
    ends = ends.assign(x=places[:, 0], y=places[:, 1]).sort_values("y", kind="stable")
    heights = spread(ends["y"].tolist(), LINE_POINTS / POINTS / height)
    for end, y in zip(ends.to_dict("records"), heights, strict=True):
        look = looks[end["implementation"]]
        if end["place"] == data["place"].max():
            style: Style = {"color": look.shade, "linewidth": 0.5, "zorder": 1.5}
            drawn = axes.plot([end["x"], 1], [end["y"], y], transform=axes.transAxes, **style)
        else:
            at = axes.transAxes + _points(axes, -MARK_POINTS / 2, 0)
            drawn = axes.plot(1, y, transform=at, clip_on=False, **look.sample(end["variant"]))
        style = {"color": look.text, "fontweight": "bold" if look.stands_out else "normal"}
        label = write(axes, end["label"], (1, y), (2, 0), "axes fraction", **style)
        name_artists(end["implementation"], [label, *drawn])


def draw_ceiling(
    axes: Axes, product: Ceiling | None, metric: Metric, highest: float, languages: Sequence[str]
) -> None:
    """A line at the measured ceiling of a rate, or a band of its states, if there is room for it.

    `highest` is the greatest of the rates that are drawn (`figures.forms.has_room`).
    """
    bounds = ceiling_bounds(product, metric)
    if product is None or bounds is None or not has_room(bounds, highest):
        return
    low, high = bounds
    axes.set_ylim(top=max(axes.get_ylim()[1], 1.1 * high))  # with room for its words
    draw_reference(axes, high, label_product(product, metric.unit, languages), low)


def draw_reference(axes: Axes, value: float, text: str = "", low: float | None = None) -> None:
    """A line of reference, or a band down to `low`; its label is above it."""
    if low is None or low == value:
        axes.axhline(value, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1.5)
    else:
        axes.axhspan(low, value, color="#DADADA", linewidth=0, zorder=0.6)
    if text:
        style = {"va": "bottom", "color": GREY, "bbox": GROUND, "in_layout": False}
        write(axes, text, (0.02, value), (0, 1), ("axes fraction", "data"), **style)


# What the marks stand for


def _in_stretches(chosen: Sequence[int], values: Sequence[int]) -> str:
    """The chosen ones of a sweep's values, three neighbours or more in short: 1–4, 16."""
    stretches = neighbours(map(values.index, chosen))
    ends = (ends_of_stretch([values[position] for position in each]) for each in stretches)
    return ", ".join(itertools.chain.from_iterable(ends))


def explain_missing(
    data: pd.DataFrame, experiment: Experiment, looks: Mapping[str, Look], languages: Sequence[str]
) -> list[Line2D]:
    """The entries of a legend that explain the marks: one for each line and status."""
    entries = []
    for _, runs in data[data["status"] != "ok"].groupby(["level", "status"], sort=False):
        name, label, status = map(str, runs[["implementation", "label", "status"]].iloc[0])
        label = label if label.startswith(name) else f"{name} {label}"
        at = _in_stretches(sorted(set(runs["size"])), experiment.values)
        text = f"{label}: {in_words(status, languages)}, {experiment.parameter.symbol} = {at}"
        entries.append(handle(text, name, color=looks[name].text, **MARK))
    return entries
