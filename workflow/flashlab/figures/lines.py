"""Lines along a sweep: a line for each implementation or variant, a panel for each metric.

Each line has its name at its end. Of few lines every value is printed; of more, the last one beside
the name, and those that are not named are grey. A run without a result is a cross above the panel,
never a zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from flashlab.figures.style import (
    DASHES,
    FAILED,
    GREY,
    GROUND,
    HALF,
    LINE_POINTS,
    POINTS,
    RATIO,
    TITLE_HEIGHT,
    WIDE,
    Look,
    Style,
    dark,
    lay_out,
    new_panels,
    rows_of,
    scale_linearly,
    scale_logarithmically,
    spread,
    text_points,
    tick_points,
    title_panel,
    title_points,
    widest,
    write,
)
from flashlab.numbers import measured

PANEL, LOW, CROSS, NUMBER, MARK = 86.0, 62.0, 7.0, 7.0, 3.0
"""The heights of a panel, of one of two rows, of a row of crosses above it and of a number, and
half that of a marker, in points."""

TICKS, TICK_GAP = 8, 3.0
"""Most labels of an axis of values, and the least gap between two below a panel, in points."""

MARGIN, FARTHEST = 0.11, 1.25
"""Free space on each side of a sweep, as a share of it, and how far beyond the extreme values an
interval is drawn."""


@dataclass(frozen=True)
class Along:
    """The axis of a sweep.

    Attributes:
        sizes: the values of the sweep and of the sizes that vary along with it, by their symbols.
        is_nominal: whether the values name whole problems, which stand side by side, unjoined.
    """

    sizes: Mapping[str, Sequence[int]]
    is_nominal: bool = False

    @property
    def symbol(self) -> str:
        """The symbol of the swept parameter."""
        return next(iter(self.sizes))

    @property
    def values(self) -> Sequence[int]:
        """The values of the swept parameter."""
        return self.sizes[self.symbol]

    @property
    def places(self) -> dict[int, int]:
        """Where each value stands."""
        places = range(len(self.values)) if self.is_nominal else self.values
        return dict(zip(self.values, places, strict=True))

    @property
    def is_logarithmic(self) -> bool:
        """True where neighbours are farther apart on a logarithmic axis than on a linear one."""
        values = np.asarray(self.values, dtype=float)
        if self.is_nominal or len(values) < 2 or values[0] <= 0:
            return False
        gaps = [np.diff(each).min() / np.ptp(each) for each in (np.log(values), values)]
        return bool(gaps[0] >= gaps[1])


@dataclass(frozen=True)
class Panel:
    """A panel: a metric, its title, and what stands beside its lines.

    Attributes:
        ratios: what is printed below the values of the sweep; its last character is its sign.
        guides: by line, what it would be at each value if it grew as the operations.
    """

    metric: str
    title: str
    is_logarithmic: bool = True
    ratios: Mapping[int, str] = field(default_factory=dict)
    guides: Sequence[Mapping[int, float]] = ()


@dataclass(frozen=True)
class End:
    """The end of a line: its name, whose look it has, and its last point."""

    text: str
    look: Look
    at: tuple[float, float]


def draw_lines(
    data: pd.DataFrame,
    panels: Sequence[Panel],
    along: Along,
    looks: Mapping[str, Look],
    *,
    rows: int = 1,
    is_valued: bool = True,
    notes: Sequence[Line2D] = (),
) -> Figure:
    """A figure of lines along a sweep.

    Args:
        data: a row for each run and metric: ``metric``, ``line`` (its name in the figure),
            ``implementation``, ``variant`` (its position), ``at``, ``status``, ``value``, ``low``,
            ``high`` and ``title``; no value without a result.
        panels: those of the figure, by rows; those of a row have one scale.
        along: the axis of the sweep.
        looks: of the implementations.
        rows: how many rows of panels there are.
        is_valued: whether every value is printed, or the last ones alone.
        notes: the entries of a legend.
    """
    columns = len(panels) // rows
    level = data[data.status != "ok"].groupby("line", sort=False).ngroup()
    data = data.assign(place=data["at"].map(along.places), level=level)
    above = CROSS * level.nunique()
    figure, grid = new_panels(WIDE if columns > 1 else HALF, rows, columns)
    shown = {panel.metric: data[data.metric == panel.metric] for panel in panels}
    known = {metric: mine.dropna(subset="value") for metric, mine in shown.items()}
    ends = {metric: _ends_of(mine, looks, is_valued) for metric, mine in known.items()}
    for number, (axes, panel) in enumerate(zip(grid.flat, panels, strict=True)):
        in_row = panels[number // columns * columns :][:columns]
        _draw_series(axes, known[panel.metric], looks, along)
        _scale(axes, pd.concat([known[each.metric] for each in in_row]), panel, is_valued)
        _draw_crosses(axes, shown[panel.metric], looks)
        for guide in panel.guides:
            places = [along.places[at] for at in guide]
            axes.plot(places, [*guide.values()], c=GREY, lw=0.7, ls=(0, (1, 1.5)), zorder=1.2)
        title_panel(axes, panel.title, above)
    below = (len(along.sizes) + any(panel.ratios for panel in panels)) * LINE_POINTS + 4
    ticks = max(tick_points(axes.yaxis) for axes in grid.flat)
    left = max(ticks, widest((*along.sizes, "×")) + _before(along))
    right = widest((end.text for each in ends.values() for end in each), "bold") + 6
    height = PANEL if rows == 1 else LOW
    lay_out(figure, height, (left, right, TITLE_HEIGHT + above, below), notes)
    for axes, panel in zip(grid.flat, panels, strict=True):
        _label_places(axes, along, panel.ratios)
        name_ends(axes, ends[panel.metric])
        if is_valued and not along.is_nominal:
            _print_numbers(axes, known[panel.metric], looks)
    return figure


# Lines and their axes


def _draw_series(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], along: Along) -> None:
    """Draw the lines with their markers and intervals."""
    firsts = data.drop_duplicates("line").set_index("line")
    for axis in (axes.xaxis, axes.yaxis):  # seaborn would make ticks, only to be replaced
        axis.set_major_locator(NullLocator())
    if data.empty:
        return
    look = {str(line): looks[name] for line, name in firsts.implementation.items()}
    keys: Style = {"x": "place", "y": "value", "hue": "line", "style": "line", "estimator": None}
    shapes: Style = {
        "palette": {line: each.shade for line, each in look.items()},
        "markers": {line: each.marker for line, each in look.items()},
        "dashes": {line: DASHES[of % len(DASHES)] for line, of in firsts.variant.items()},
    }
    sns.lineplot(data, ax=axes, legend=False, **keys, **shapes)
    axes.set(xlabel="", ylabel="")
    for drawn, (line, each) in zip(axes.lines, look.items(), strict=True):
        rows = data[data.line == line]
        drawn.set(**each.mark(firsts.variant[line] % 2 == 0), zorder=2 + each.is_named / 2)
        drawn.set_linewidth(1.3 if each.is_named else 0.8)
        if along.is_nominal:
            drawn.set(linestyle="none", markersize=5)
        title_points(drawn, rows.title)
        if each.is_named:
            axes.vlines(rows.place, rows.low, rows.high, color=each.shade, lw=0.8)


def _scale(axes: Axes, data: pd.DataFrame, panel: Panel, is_valued: bool) -> None:
    """Limits about all that is drawn, from zero or logarithmic, with room for numbers."""
    values = data["value"]
    if values.empty:
        return
    ends = data[["low", "high"]].stack().dropna()
    shown = [*values, *ends.clip(values.min() / FARTHEST, values.max() * FARTHEST)]
    low, high = min(shown), max(shown)
    if panel.is_logarithmic:
        room = max(1.2, (high / low) ** (0.14 if is_valued else 0.06))
        scale_logarithmically(axes.yaxis, low / room, high * room, TICKS)
        return
    axes.set_ylim(-0.13 * high if is_valued else 0, 1.2 * high or 1)
    scale_linearly(axes.yaxis, 5)
    ticks = [each for each in axes.get_yticks() if 0 <= each <= axes.get_ylim()[1]]
    axes.yaxis.set_major_locator(FixedLocator(ticks))


def _draw_crosses(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """A cross above the panel for each run without a result, a row a line."""
    for level, rows in data[data.status != "ok"].groupby("level"):
        up = CROSS * (float(str(level)) + 0.5) / POINTS
        above = axes.get_xaxis_transform() + ScaledTranslation(0, up, axes.figure.dpi_scale_trans)
        style: Style = {"color": dark(looks[rows.implementation.iloc[0]].shade), "clip_on": False}
        (crosses,) = axes.plot(rows.place, [1.0] * len(rows), transform=above, **style, **FAILED)
        title_points(crosses, rows.title)


def _before(along: Along) -> float:
    """How far left of a panel the symbols end, clear of the first tick, in points."""
    return max(4.0, text_points(str(along.values[0])) / 2 - 1)


def _label_places(axes: Axes, along: Along, ratios: Mapping[int, str]) -> None:
    """Label the values of the sweep, with ratios below: the last, and others that have room."""
    if along.is_logarithmic:
        axes.set_xscale("log", base=2)
    places, transform = [*along.places.values()], axes.xaxis.get_transform()
    low, high = transform.transform([places[0], places[-1]])
    free = MARGIN * (high - low) or 0.5
    axes.set_xlim(*transform.inverted().transform([low - free, high + free]))
    bold: Style = {"color": RATIO, "fontweight": "bold", "va": "top"}
    heads: list[tuple[str, Style]] = [(each, {"color": GREY, "va": "top"}) for each in along.sizes]
    heads += [(text[-1], bold) for text in [*ratios.values()][:1]]
    for row, (text, style) in enumerate(heads):
        offset = (-_before(along), -3.8 - row * LINE_POINTS)
        write(axes, text, (0, 0), offset, "axes fraction", ha="right", **style)
    edge, labels = math.inf, []
    down, coords = (0, -3.8 - len(along.sizes) * LINE_POINTS), ("data", "axes fraction")
    for at, *others in reversed([*zip(*along.sizes.values(), strict=True)]):
        label, ratio, place = (
            "\n".join(map(str, (at, *others))),
            ratios.get(at, ""),
            along.places[at],
        )
        x = axes.transData.transform((place, 1.0))[0]
        half = max(text_points(label), text_points(ratio, weight="bold")) / 2
        has_room = x + half + TICK_GAP <= edge
        edge = x - half if has_room else edge
        labels.append(label if has_room else "")
        if ratio and has_room:
            write(axes, ratio, (place, 0), down, coords, ha="center", **bold)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FixedFormatter(labels[::-1]))
    axes.xaxis.set_minor_locator(NullLocator())


# Names and numbers


def _ends_of(data: pd.DataFrame, looks: Mapping[str, Look], is_valued: bool) -> list[End]:
    """The ends of lines; where their values are not printed, with the last one."""
    ends = []
    for row in rows_of(data.drop_duplicates("line", keep="last")):
        last = "" if is_valued else f" {measured(row.value, row.low, row.high)}"
        ends.append(End(row.line + last, looks[row.implementation], (row.place, row.value)))
    return ends


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Write names of lines beside a panel, as near to their last points as the others allow.

    A leader goes from the point to the name.
    """
    to_axes = axes.transData - axes.transAxes
    ordered = sorted(ends, key=lambda end: float(to_axes.transform(end.at)[1]))
    points = [to_axes.transform(end.at) for end in ordered]
    extent = LINE_POINTS / axes.get_window_extent().height
    heights = spread([y for _, y in points], extent)
    for end, (x, y), height in zip(ordered, points, heights, strict=True):
        write(axes, end.text, (1, height), (3, 0), "axes fraction", **end.look.text)
        leader: Style = {"color": end.look.shade, "lw": 0.5, "zorder": 1.5, "clip_on": False}
        axes.plot([x, 1], [y, height], transform=axes.transAxes, **leader)


Box = NDArray[np.float64]
"""Left, bottom, right, top, in points; or the coordinates of points."""


def _print_numbers(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Print each value at its point, clear of all points and all other texts.

    The highest at a value of the sweep is above its point if it can be, others are below. Where
    there is no place at all, a value is not printed. The ends of lines come first.
    """
    if data.empty:
        return
    points, lows, highs = (
        axes.transData.transform(np.column_stack([data.place, data[end].fillna(data["value"])]))
        for end in ("value", "low", "high")
    )
    taken = [*np.hstack([points - MARK, points + MARK])]
    lines = [points[(data.line == line).to_numpy()] for line in data.line.unique()]
    paths = _sampled([*lines, *np.stack([lows, highs], axis=1)])
    is_inner = data.duplicated("line") & data.duplicated("line", keep="last")
    is_highest = data.groupby("at")["value"].transform("max") == data["value"]
    for i in np.lexsort((~is_highest, is_inner)):
        row = data.iloc[i]
        text = measured(row["value"], row.low, row.high)
        candidates = _beside(points[i], text_points(text), is_highest.iloc[i])
        inside = [box for box in candidates if _is_free(box, taken, axes.get_window_extent())]
        if inside:
            crossed = [((paths > box[:2]) & (paths < box[2:])).all(axis=1).sum() for box in inside]
            box = inside[int(np.argmin(crossed))]
            taken.append(box)
            x, y = (box[:2] + box[2:]) / 2 - points[i]
            style: Style = {**looks[row.implementation].text, "weight": "normal", "ha": "center"}
            write(axes, text, (row.place, row["value"]), (x, y), bbox=GROUND, zorder=2.8, **style)


def _sampled(lines: Sequence[Box]) -> Box:
    """Points along lines."""
    shares = np.linspace(0, 1, 25)[:, None]
    pairs = itertools.chain.from_iterable(map(itertools.pairwise, lines))
    return np.concatenate([first + shares * (second - first) for first, second in pairs])


def _beside(point: Box, width: float, is_highest: bool) -> list[Box]:
    """The boxes that a number may have beside its point, the best first."""
    x, y = point
    up, down = (x - width / 2, y + MARK + 0.5), (x - width / 2, y - MARK - 0.5 - NUMBER)
    left, right = x - MARK - 1 - width, x + MARK + 1
    sides = [(each, y + by) for by in (1, -NUMBER - 1, -NUMBER / 2) for each in (right, left)]
    corners = [*((up, down) if is_highest else (down, up)), *sides]
    return [np.array([x, y, x + width, y + NUMBER]) for x, y in corners]


def _is_free(box: Box, taken: Sequence[Box], frame: Any) -> bool:
    is_inside = frame.y0 <= box[1] and box[3] <= frame.y1 + 2 and frame.x0 <= box[0]
    overlaps = ((box[:2] < each[2:]).all() and (each[:2] < box[2:]).all() for each in taken)
    return bool(is_inside and not any(overlaps))
