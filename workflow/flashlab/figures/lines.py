"""Lines along a sweep: a line for each implementation or variant, a panel for each metric.

Each line has its name at its end. Of few lines every value is printed; of more, the last one beside
the name, and those that are not named are grey. A run without a result is a cross above the panel,
never a zero. A curve has a line for each run, step by step, and below it their differences from the
first one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from flashlab.figures import style
from flashlab.figures.style import Look, Style
from flashlab.numbers import measured

CURVES = (72.0, 50.0)
"""The heights of the two panels of a curve, in points."""

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
    def values(self) -> Sequence[int]:
        """The values of the swept parameter, which is the first."""
        return next(iter(self.sizes.values()))

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
        log, linear = (np.diff(each).min() / np.ptp(each) for each in (np.log(values), values))
        return bool(log >= linear)


@dataclass(frozen=True)
class Panel:
    """A panel: a metric, its title, and what stands beside its lines.

    Attributes:
        ratios: what is printed below the values of the sweep; its last character is its sign, but
            for a ``?`` of what is undecided.
        guides: by line, what it would be at each value if it grew as the operations.
    """

    metric: str
    title: str
    is_logarithmic: bool = True
    ratios: Mapping[int, str] = field(default_factory=dict)
    guides: Sequence[Mapping[int, float]] = ()


class End(NamedTuple):
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
    figure, grid = style.new_panels(style.WIDE if columns > 1 else style.HALF, rows, columns)
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
            axes.plot(places, [*guide.values()], c=style.GREY, lw=0.7, ls=(0, (1, 1.5)), zorder=1.2)
        style.title_panel(axes, panel.title, above)
    below = (len(along.sizes) + any(panel.ratios for panel in panels)) * style.LINE_POINTS + 4
    ticks = max(style.tick_points(axes.yaxis) for axes in grid.flat)
    left = max(ticks, style.widest((*along.sizes, "×")) + _before(along))
    right = style.widest((end.text for each in ends.values() for end in each), "bold") + 6
    height = PANEL if rows == 1 else LOW
    style.lay_out(figure, height, (left, right, style.TITLE_HEIGHT + above, below), notes)
    for axes, panel in zip(grid.flat, panels, strict=True):
        _label_places(axes, along, panel.ratios)
        name_ends(axes, ends[panel.metric])
        if is_valued and not along.is_nominal:
            _print_numbers(axes, known[panel.metric], looks)
    return figure


# Lines and their axes


def _draw_series(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], along: Along) -> None:
    """Draw the lines with their markers and intervals."""
    for _, rows in data.groupby("line", sort=False):
        look, variant = looks[rows.implementation.iloc[0]], int(rows.variant.iloc[0])
        (drawn,) = axes.plot(rows.place, rows["value"], color=look.shade)
        drawn.set(**look.mark(variant % 2 == 0), zorder=2.5 if look.is_named else 1.9)
        drawn.set(lw=1.3 if look.is_named else 0.8, ls=style.DASHES[variant % len(style.DASHES)])
        if along.is_nominal:
            drawn.set(linestyle="none", markersize=5)
        style.title_points(drawn, rows.title)
        if look.is_named:
            axes.vlines(rows.place, rows.low, rows.high, color=look.shade, lw=0.8)


def _scale(axes: Axes, data: pd.DataFrame, panel: Panel, is_valued: bool) -> None:
    """Limits about all that is drawn, from zero or logarithmic, with room for numbers."""
    values = data["value"]
    if values.empty:
        axes.set_yticks([])
        return
    ends = data[["low", "high"]].stack().dropna()
    shown = [*values, *ends.clip(values.min() / FARTHEST, values.max() * FARTHEST)]
    low, high = min(shown), max(shown)
    if panel.is_logarithmic:
        room = max(1.2, (high / low) ** (0.14 if is_valued else 0.06))
        style.scale_logarithmically(axes.yaxis, low / room, high * room, TICKS)
        return
    axes.set_ylim(-0.13 * high if is_valued else 0, 1.2 * high or 1)
    style.scale_linearly(axes.yaxis, 5)
    axes.set_yticks([each for each in axes.get_yticks() if 0 <= each <= axes.get_ylim()[1]])


def _draw_crosses(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """A cross above the panel for each run without a result, a row a line."""
    for level, rows in data[data.status != "ok"].groupby("level"):
        up = CROSS * (float(str(level)) + 0.5) / style.POINTS
        above = axes.get_xaxis_transform() + ScaledTranslation(0, up, axes.figure.dpi_scale_trans)
        shade = style.dark(looks[rows.implementation.iloc[0]].shade)
        kept: Style = {"transform": above, "color": shade, "clip_on": False, **style.FAILED}
        (crosses,) = axes.plot(rows.place, [1.0] * len(rows), **kept)
        style.title_points(crosses, rows.title)


def _before(along: Along) -> float:
    """How far left of a panel the symbols end, clear of the first tick, in points."""
    return max(4.0, style.text_points(str(along.values[0])) / 2 - 1)


def _label_places(axes: Axes, along: Along, ratios: Mapping[int, str]) -> None:
    """Label the values of the sweep, with ratios below: the last, and others that have room."""
    if along.is_logarithmic:
        axes.set_xscale("log", base=2)
    places, transform = [*along.places.values()], axes.xaxis.get_transform()
    low, high = transform.transform([places[0], places[-1]])
    free = MARGIN * (high - low) or 0.5
    axes.set_xlim(*transform.inverted().transform([low - free, high + free]))
    below: Style = {"color": style.GREY, "va": "top"}
    bold: Style = {"color": style.RATIO, "fontweight": "bold", "va": "top"}
    heads = [*((each, below) for each in along.sizes)]
    heads += [(text.rstrip("?")[-1], bold) for text in [*ratios.values()][:1]]
    for row, (text, kept) in enumerate(heads):
        offset = (-_before(along), -3.8 - row * style.LINE_POINTS)
        style.write(axes, text, (0, 0), offset, "axes fraction", ha="right", **kept)
    edge, labels = math.inf, []
    down, coords = (0, -3.8 - len(along.sizes) * style.LINE_POINTS), ("data", "axes fraction")
    for at, *others in reversed([*zip(*along.sizes.values(), strict=True)]):
        label, ratio = "\n".join(map(str, (at, *others))), ratios.get(at, "")
        x = axes.transData.transform((along.places[at], 1.0))[0]
        half = max(style.text_points(label), style.text_points(ratio, weight="bold")) / 2
        has_room = x + half + TICK_GAP <= edge
        edge = x - half if has_room else edge
        labels.append(label if has_room else "")
        if ratio and has_room:
            look = {**bold, "fontweight": "normal"} if ratio.endswith("?") else bold
            style.write(axes, ratio, (along.places[at], 0), down, coords, ha="center", **look)
    axes.set_xticks(places, labels[::-1])
    axes.xaxis.set_minor_locator(NullLocator())


# Names and numbers


def _ends_of(data: pd.DataFrame, looks: Mapping[str, Look], is_valued: bool) -> list[End]:
    """The ends of lines; where their values are not printed, with the last one."""
    ends = []
    for row in style.rows_of(data.drop_duplicates("line", keep="last")):
        last = "" if is_valued else f" {measured((row.value, row.low, row.high))}"
        ends.append(End(row.line + last, looks[row.implementation], (row.place, row.value)))
    return ends


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Write names of lines beside a panel, as near to their last points as the others allow.

    A dotted leader goes from the point to the name: nothing was measured along it.
    """
    to_axes = axes.transData - axes.transAxes
    ordered = sorted(ends, key=lambda end: float(to_axes.transform(end.at)[1]))
    points = [to_axes.transform(end.at) for end in ordered]
    extent = style.LINE_POINTS / axes.get_window_extent().height
    heights = style.spread([y for _, y in points], extent)
    for end, (x, y), height in zip(ordered, points, heights, strict=True):
        style.write(axes, end.text, (1, height), (3, 0), "axes fraction", **end.look.text)
        leader: Style = {"color": end.look.shade, "lw": 0.6, "ls": (0, (1, 1.5)), "zorder": 1.5}
        axes.plot([x, 1], [y, height], transform=axes.transAxes, clip_on=False, **leader)


Box = NDArray[np.float64]
"""Left, bottom, right, top, in points, a row a box; or the coordinates of points."""


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
    taken = np.hstack([points - MARK, points + MARK])
    lines = [points[(data.line == line).to_numpy()] for line in data.line.unique()]
    paths = _sampled([*lines, *np.stack([lows, highs], axis=1)])
    is_inner = data.duplicated("line") & data.duplicated("line", keep="last")
    is_highest = data.groupby("at")["value"].transform("max") == data["value"]
    for i in np.lexsort((~is_highest, is_inner)):
        row = data.iloc[i]
        text = measured((row["value"], row.low, row.high))
        boxes = _beside(points[i], style.text_points(text), is_highest.iloc[i])
        boxes = boxes[_is_free(boxes, taken, axes.get_window_extent())]
        if len(boxes):
            crossed = ((paths > boxes[:, None, :2]) & (paths < boxes[:, None, 2:])).all(axis=2)
            box = boxes[int(crossed.sum(axis=1).argmin())]
            taken = np.vstack([taken, box])
            x, y = (box[:2] + box[2:]) / 2 - points[i]
            kept: Style = {**looks[row.implementation].text, "weight": "normal", "ha": "center"}
            kept |= {"bbox": style.GROUND, "zorder": 2.8}
            style.write(axes, text, (row.place, row["value"]), (x, y), **kept)


def _sampled(lines: Sequence[Box]) -> Box:
    """Points along lines."""
    shares = np.linspace(0, 1, 25)[:, None]
    pairs = itertools.chain.from_iterable(map(itertools.pairwise, lines))
    return np.concatenate([first + shares * (second - first) for first, second in pairs])


def _beside(point: Box, width: float, is_highest: bool) -> Box:
    """The boxes that a number may have beside its point, a row each, the best first."""
    x, y = point
    up, down = (x - width / 2, y + MARK + 0.5), (x - width / 2, y - MARK - 0.5 - NUMBER)
    left, right = x - MARK - 1 - width, x + MARK + 1
    sides = [(each, y + by) for by in (1, -NUMBER - 1, -NUMBER / 2) for each in (right, left)]
    corners = np.array([*((up, down) if is_highest else (down, up)), *sides])
    return np.hstack([corners, corners + np.array([width, NUMBER])])


def _is_free(boxes: Box, taken: Box, frame: Any) -> NDArray[np.bool_]:
    """Which boxes are inside a panel and clear of all that is taken."""
    left, bottom, _, top = boxes.T
    overlaps = (boxes[:, None, :2] < taken[:, 2:]) & (taken[:, :2] < boxes[:, None, 2:])
    is_taken: NDArray[np.bool_] = np.any(np.all(overlaps, axis=2), axis=1)
    is_inside: NDArray[np.bool_] = (frame.x0 <= left) & (frame.y0 <= bottom) & (top <= frame.y1 + 2)
    return is_inside & ~is_taken


# Curves


def draw_curves(
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    titles: tuple[str, str],
    along: str,
    variants: Sequence[str],
) -> Figure:
    """The curves of an experiment, and how far each is from the first run's.

    Args:
        data: a row for each step of each run, the first run first: ``run``, ``implementation``,
            ``variant`` (its position), ``step`` and ``value``.
        looks: of the implementations.
        titles: of the two panels.
        along: the words for a step.
        variants: the words for each variant, which has dashes of its own.
    """
    is_first = data.run == data.run.min()
    first = data[is_first].set_index("step")["value"]
    difference = (data["value"] - data.step.map(first)).mask(is_first)
    shown = [name for name in looks if name in set(data.implementation)]
    legend = [style.handle(name, color=looks[name].shade) for name in shown]
    if len(variants) > 1:
        pairs = zip(variants, style.DASHES, strict=False)
        legend += [style.handle(words, color=style.GREY, ls=dashes) for words, dashes in pairs]
    figure, grid = style.new_panels(style.HALF, 2, sharex=True, height_ratios=CURVES)
    upper, lower = grid[:, 0]
    for axes, values, title in ((upper, data["value"], titles[0]), (lower, difference, titles[1])):
        runs = data.assign(value=values).dropna(subset="value").groupby("run", sort=False)
        for _, run in runs:
            look: Style = {"lw": 0.8, "alpha": 0.85, "ls": style.DASHES[run.variant.iloc[0]]}
            axes.plot(run.step, run["value"], c=looks[run.implementation.iloc[0]].shade, **look)
        style.scale_linearly(axes.yaxis, 3)
        style.title_panel(axes, title)
    lower.axhline(0, color=style.GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1.5)
    lower.set_xlabel(along)
    left = max(style.tick_points(axes.yaxis) for axes in (upper, lower))
    margins = (left, 4.0, style.TITLE_HEIGHT, 2.7 * style.LINE_POINTS)
    style.lay_out(figure, sum(CURVES) / 2, margins, legend)
    return figure
