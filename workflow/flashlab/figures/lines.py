"""Panels of lines: a line an implementation and variant, labelled at its end.

Ticks stand at the measured values; bars are 95% intervals. A run without a result is marked above
the panel, never drawn as zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Sweep, Variant
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import label_variant
from flashlab.figures.placement import (
    POINTS,
    Box,
    boxes_along,
    free_boxes,
    spread,
    text_inches,
    wrap_texts,
)
from flashlab.figures.style import (
    FAINT,
    SMALL_POINTS,
    each_variant,
    name_artists,
    text_colour,
)
from flashlab.telling.catalogs import in_all

LINE = ["implementation", "variant"]
"""The columns that tell a line from the others."""

MOST_LINES = 5
"""With more lines than these, only the emphasised ones are in colour."""

LINE_POINTS = SMALL_POINTS * 1.25
"""Height of a line of text."""

MARK_POINTS = 7
"""Height of a row of marks above a panel."""

LEADER_POINTS = 7
"""Length of the line from the panel's edge to a label."""

GAP_POINTS = 2.0
"""Between that line and the label."""

EDGE_POINTS = 5.0
"""How far a text within a panel may stand out over its right edge."""

BESIDE = [
    *((0.6, dy) for dy in (0.0, 0.6, -0.6)),
    *((dx, dy) for dy in (0.95, -0.95, 1.3, -1.3) for dx in (0.0, 0.3, -0.3, 0.6, -0.6)),
]
"""Where a line's label may stand from its last point: to the right, above, below."""


def _drawn_variants(sweep: Sweep, name: str, metrics: Sequence[Metric]) -> list[Variant]:
    """The variants of an implementation, without those whose exact values are another's."""
    if not all(metric.exact for metric in metrics):
        return sweep.variants
    found: dict[Any, Variant] = {}
    for variant in sweep.variants:
        rows = [row for m in metrics for row in sweep.metric_rows(name, variant, m.name)]
        found.setdefault(
            tuple((sweep.value_of(row), row["value"], row["status"]) for row in rows), variant
        )
    return list(found.values())


def line_frame(
    sweep: Sweep,
    names: Collection[str],
    metrics: Sequence[Metric],
    languages: Sequence[str],
    variants: Sequence[Variant] | None = None,
) -> pd.DataFrame:
    """A row for each run and metric; a run without a result has no value.

    ``line`` is the label at the line's end. ``level`` numbers the lines that have a run without a
    result, which is marked in a row of its own.
    """
    rows = []
    shown = [name for name in sweep.implementations if name in names]
    for name in shown:
        drawn = _drawn_variants(sweep, name, metrics)
        for variant in drawn:
            if variants is not None and variant not in variants:
                continue
            several = len(drawn) > 1 and variants is None
            words = label_variant(sweep.benchmark, variant, languages) if several else ""
            line = {
                "implementation": name,
                "variant": sweep.variants.index(variant),
                "line": words if words and len(shown) == 1 else f"{name} {words}".strip(),
            }
            for metric in metrics:
                for row in sweep.metric_rows(name, variant, metric.name):
                    kept = {key: row[key] for key in ("metric", "status", "value", "low", "high")}
                    rows.append({**line, **kept, "size": sweep.value_of(row)})
    columns = [*LINE, "line", "metric", "status", "value", "low", "high", "size"]
    data = pd.DataFrame(rows, columns=columns)
    return data.astype({"value": float, "low": float, "high": float})


def with_levels(data: pd.DataFrame) -> pd.DataFrame:
    """The same with ``level``: which row of marks is a line's own; none where it has no failure."""
    failed = data[data["status"] != "ok"]
    return data.assign(level=failed.groupby(LINE, sort=False).ngroup())


def emphasised_of(data: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The implementations to draw in colour: all of them where the lines are few."""
    if len(data.drop_duplicates(LINE)) <= MOST_LINES:
        return list(data["implementation"].unique())
    return list(names)


def draw_lines(data: pd.DataFrame, color: str, marker: str, label: str) -> None:
    """The lines of an implementation in the current panel, with their intervals."""
    axes = plt.gca()
    faint = color == FAINT
    for measured, style in each_variant(data.dropna(subset="value"), color):
        drawn: list[Any] = axes.plot(
            measured["size"],
            measured["value"],
            marker=marker,
            markersize=2.6 if faint else 3.8,
            markeredgewidth=0.4,
            linewidth=0.8 if faint else 1.3,
            zorder=2.0 if faint else 2.5,
            **style,
        )
        bounded = measured.dropna(subset=["low", "high"])
        bars = axes.vlines(
            bounded["size"], bounded["low"], bounded["high"], color=color, linewidth=0.8
        )
        name_artists(label, [*drawn, bars])


def mark_failures(axes: Axes, data: pd.DataFrame, shades: Mapping[str, str]) -> None:
    """Mark each run without a result above the upper edge, clear of the data: a row a line."""
    for row in data[data["status"] != "ok"].to_dict("records"):
        mark = axes.annotate(
            "×",
            (row["size"], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, MARK_POINTS * (row["level"] + 0.5)),
            textcoords="offset points",
            ha="center",
            va="center",
            color=text_colour(shades[row["implementation"]]),
            fontsize=SMALL_POINTS,
            fontweight="bold",
            annotation_clip=False,
        )
        name_artists(row["implementation"], [mark])


def _in_stretches(chosen: Sequence[int], values: Sequence[int]) -> str:
    """The chosen ones of a sweep's values, three neighbours or more in short: 1–4, 16."""
    found = []
    positions = enumerate(values.index(value) for value in chosen)
    for _, group in itertools.groupby(positions, key=lambda pair: pair[1] - pair[0]):
        stretch = [str(values[position]) for _, position in group]
        found += [f"{stretch[0]}–{stretch[-1]}"] if len(stretch) > 2 else stretch
    return ", ".join(found)


def explain_failures(
    data: pd.DataFrame,
    symbol: str,
    values: Sequence[int],
    languages: Sequence[str],
    width: float,
) -> list[tuple[str, str]]:
    """What the marks stand for: lines of text no wider than `width` inches, by implementation."""
    lines = []
    failures = data[data["status"] != "ok"].groupby([*LINE, "status"], sort=False)
    for (name, _, status), runs in failures:
        words = in_all(languages, "figures", str(status))
        label = str(runs["line"].iloc[0])
        label = label if label.startswith(str(name)) else f"{name} {label}"
        at = _in_stretches(sorted(set(runs["size"])), values)
        parts = [f"× {label}: {words},", f"{symbol} = {at}"]
        lines += [(str(name), line) for line in wrap_texts(parts, SMALL_POINTS, width)]
    return lines


def write_explanations(
    figure: Figure, lines: Sequence[tuple[str, str]], shades: Mapping[str, str]
) -> None:
    """Write lines of `explain_failures` one below the other at the figure's upper edge."""
    for position, (name, line) in enumerate(lines):
        text = figure.axes[0].annotate(
            line,
            (0.0, 1.0),
            xycoords="figure fraction",
            xytext=(0, -LINE_POINTS * (position + 0.5)),
            textcoords="offset points",
            ha="left",
            va="center",
            color=text_colour(shades[name]),
            fontsize=SMALL_POINTS,
            annotation_clip=False,
        )
        name_artists(name, [text])


def line_ends(data: pd.DataFrame) -> pd.DataFrame:
    """The last point of each line."""
    return data.dropna(subset="value").groupby(LINE, sort=False).tail(1)


def gutter_inches(data: pd.DataFrame) -> float:
    """How much room the labels of these lines take beside a panel."""
    widest = max((text_inches(line, SMALL_POINTS, bold=True) for line in data["line"]), default=0.0)
    return widest + (LEADER_POINTS + GAP_POINTS + 1) / POINTS


def stack_inches(lines: int) -> float:
    """The least height of a panel that has so many labels beside it."""
    return lines * LINE_POINTS / POINTS


def pixels_of(axes: Axes, data: pd.DataFrame) -> list[list[tuple[float, float]]]:
    """The points of each line that is drawn, in pixels."""
    measured = data.dropna(subset="value")
    return [
        [(x, y) for x, y in axes.transData.transform(own[["size", "value"]].to_numpy())]
        for _, own in measured.groupby(LINE, sort=False)
    ]


def covered_by(axes: Axes, data: pd.DataFrame) -> list[Box]:
    """The boxes, in pixels, that lines and their points cover."""
    unit = axes.figure.dpi / POINTS
    lines = pixels_of(axes, data)
    return [box for points in lines for box in boxes_along(points, 2.2 * unit, 0.7 * unit)]


def places_near(
    axes: Axes,
    text: str,
    point: Any,
    offsets: Iterable[tuple[float, float]],
    taken: Sequence[Box],
) -> list[Box]:
    """Where near a point a text covers nothing and stays in the panel, the best place first.

    All is in pixels; `offsets` are those of the text's centre, in its own widths and heights.
    """
    unit = axes.figure.dpi / POINTS
    wide = text_inches(text, SMALL_POINTS, bold=True) * axes.figure.dpi + 2 * unit
    tall = (0.8 * SMALL_POINTS + 1) * unit
    x, y = point
    boxes = [
        (x + (dx - 0.5) * wide, y + (dy - 0.5) * tall, x + (dx + 0.5) * wide, y + (dy + 0.5) * tall)
        for dx, dy in offsets
    ]
    frame = axes.bbox
    bounds = (frame.x0 + unit, frame.y0 + unit, frame.x1 + EDGE_POINTS * unit, frame.y1 + unit)
    return free_boxes(boxes, taken, bounds)


def write_into(axes: Axes, text: str, box: Box, color: str, implementation: str) -> None:
    """Write an implementation's text in the middle of a box in pixels."""
    label = axes.annotate(
        text,
        ((box[0] + box[2]) / 2 / axes.figure.dpi, (box[1] + box[3]) / 2 / axes.figure.dpi),
        xycoords=axes.figure.dpi_scale_trans,
        ha="center",
        va="center_baseline",
        fontsize=SMALL_POINTS,
        fontweight="bold",
        color=text_colour(color),
        annotation_clip=False,
    )
    name_artists(implementation, [label])


def _label_within(
    axes: Axes, data: pd.DataFrame, shades: Mapping[str, str], taken: list[Box]
) -> pd.DataFrame:
    """Label the lines that end early at their ends, where there is room; the ends of the others."""
    ends = line_ends(data)
    left = []
    for end in ends.to_dict("records"):
        shade = shades[end["implementation"]]
        places: list[Box] = []
        if end["size"] < data["size"].max() and shade != FAINT:
            point = axes.transData.transform((end["size"], end["value"]))
            places = places_near(axes, end["line"], point, BESIDE, taken)
        if places:
            taken.append(places[0])
            write_into(axes, end["line"], places[0], shade, end["implementation"])
        else:
            left.append(end)
    return pd.DataFrame(left, columns=ends.columns)


def label_ends(axes: Axes, data: pd.DataFrame, shades: Mapping[str, str]) -> list[Box]:
    """Write each line's label beside its last point, moved apart where two would overlap.

    Returns the boxes, in pixels, that the lines and the labels cover within the panel.
    """
    taken = covered_by(axes, data)
    ends = _label_within(axes, data, shades, taken)
    if ends.empty:
        return taken
    to_axes = axes.transData - axes.transAxes
    ends[["x", "y"]] = to_axes.transform(ends[["size", "value"]].to_numpy())
    ends = ends.sort_values("y", kind="stable")
    width, height = (extent / axes.figure.dpi for extent in (axes.bbox.width, axes.bbox.height))
    heights = np.full(len(ends), LINE_POINTS / POINTS / height)
    ends["place"] = spread(ends["y"].to_list(), heights.tolist(), 0.0, 1.0)
    edge = 1 + LEADER_POINTS / POINTS / width
    for end in ends.to_dict("records"):
        name = end["implementation"]
        color = shades[name]
        (leader,) = axes.plot(
            [end["x"], 1.0, edge],
            [end["y"], end["y"], end["place"]],
            transform=axes.transAxes,
            color=color,
            linewidth=0.5,
            linestyle="-" if end["size"] == data["size"].max() else (0, (1, 2)),
            zorder=1.5,
            clip_on=False,
        )
        label = axes.annotate(
            end["line"],
            (edge, end["place"]),
            xycoords="axes fraction",
            xytext=(GAP_POINTS, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            color=text_colour(color),
            fontsize=SMALL_POINTS,
            fontweight="normal" if color == FAINT else "bold",
            annotation_clip=False,
        )
        name_artists(name, [leader, label])
    return taken


def write_title(
    axes: Axes, lines: Sequence[str], points: float, above: float, left: float = 0.0
) -> None:
    """Write the lines of a title, `above` points above a panel, from this share of the figure."""
    axes.annotate(
        "\n".join(lines),
        (left, 1.0),
        xycoords=("figure fraction", "axes fraction"),
        xytext=(0, above),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize=points,
        fontweight="bold",
        linespacing=1.15,
        annotation_clip=False,
    )
