"""The figures of one experiment along its sweep: a quantity, and the small ones of page one.

The small ones stand beside a sentence, five experiments to a page: how much faster than the
baseline the other implementation is, and peak memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.benchmarks.model import Metric
from flashlab.figures.bars import draw_bars
from flashlab.figures.labels import capitalised, covaried, in_languages, said, title_with_unit
from flashlab.figures.panel import (
    GROUND,
    LINE,
    draw_panel,
    draw_reference,
    explain_missing,
    line_frame,
    value_limits,
)
from flashlab.figures.placement import POINTS, text_inches
from flashlab.figures.style import (
    GREY,
    HALF_INCHES,
    LINE_POINTS,
    PAGE_INCHES,
    RATIO,
    SMALL_POINTS,
    Look,
    Style,
    draw_legend,
    fitting,
    lay_out,
    looks_of,
    name_artists,
    new_panels,
    remove_covered,
    three_digits,
    write,
)

FEW = 2
"""Most lines of a panel whose values are printed at the points, and their ratio below the axis."""

VALUED_INCHES = 1.45
"""The height of such a panel."""

PANELS_INCHES, SMALL_PANEL_INCHES, GAP_INCHES = 1.25, 0.5, 0.2
"""The height of all panels together, that of a small figure's, and what lies between two."""

LEAST_PANEL_INCHES = 0.4

SMALL_INCHES = 42 / 25.4
"""The least width at which a small figure is printed."""

COINCIDE = 1.12
"""Lines that are nowhere further apart than by this factor are one line on a logarithmic axis."""


def _coincide(data: pd.DataFrame) -> bool:
    """Whether two lines cannot be told apart anywhere."""
    lines = data.pivot_table(index="size", columns=LINE, values="value")
    apart = [
        np.abs(np.log((lines[one] / lines[other]).dropna().to_numpy()))
        for one, other in itertools.combinations(lines.columns, 2)
    ]
    return any(len(steps) > 1 and steps.max() <= math.log(COINCIDE) for steps in apart)


def _relative_to_least(data: pd.DataFrame) -> pd.DataFrame:
    """Values as multiples of the least at each size; the last of each line is in its label."""
    least = data.groupby("size")["value"].transform("min")
    keys = ("value", "low", "high", "beyond")
    data = data.assign(**{key: data[key] / least for key in keys})
    last = data.groupby(LINE)["value"].transform("last").map(three_digits, na_action="ignore")
    return data.assign(label=(data["label"] + " " + last + "×").fillna(data["label"]))


def _draw_along(
    experiment: Experiment,
    languages: Sequence[str],
    data: pd.DataFrame,
    titles: Mapping[str, Sequence[str]],
    width: float,
    **panel: Any,
) -> Figure:
    """Lines along a sweep, in a panel for each metric that has a title, one below the other."""
    lines, is_small = len(data.drop_duplicates(LINE)), width < HALF_INCHES
    is_valued = lines <= FEW and not is_small and not experiment.is_of_problems
    shown = set(data["implementation"])
    entries = [entry for entry in experiment.plan["implementations"] if entry["name"] in shown]
    looks = looks_of(entries, experiment.plan["emphasised"])
    inner = SMALL_PANEL_INCHES if is_small else PANELS_INCHES - GAP_INCHES * (len(titles) - 1)
    stack = lines * LINE_POINTS / POINTS if panel["labelled"] else 0.0
    height = max(inner / len(titles), stack, LEAST_PANEL_INCHES)
    ratios = _ratios_below(experiment, data) if is_valued else {}
    sizes = {experiment.parameter.symbol: experiment.values, **covaried(experiment)}
    if experiment.is_of_problems:  # whose sizes are many, and in a table
        sizes = {experiment.parameter.symbol: experiment.values}
    ticks = ["\n".join(map(str, each)) for each in zip(*sizes.values(), strict=True)]
    numbers: list[Annotation] = []
    if is_valued:
        height, width = VALUED_INCHES, width if len(titles) == 1 else PAGE_INCHES
        panel["limits"] = _with_room(panel["limits"], panel["logarithmic"])
        figure, panels = new_panels(width, 1, len(titles))
    else:
        figure, panels = new_panels(width, len(titles), sharex=True)
    left = max(4.0, POINTS * text_inches(ticks[0], SMALL_POINTS) / 2 - 1)  # clear of the first
    every = list(panels.flat)
    for axes, (metric, title) in zip(every, titles.items(), strict=True):
        of_metric, rows = data[data["metric"] == metric], int(data["level"].nunique())
        draw_panel(
            axes, experiment, of_metric, looks, title, height, ticks=ticks, rows=rows, **panel
        )
        if is_valued:
            numbers += print_values(axes, of_metric, looks)
        if axes is every[-1] or is_valued:
            for row, symbol in enumerate(sizes):
                head: Style = {"ha": "right", "va": "top", "color": GREY}
                below = -3.8 - row * LINE_POINTS
                write(axes, symbol, (0, 0), (-left, below), "axes fraction", **head)
        if ratios:
            below = -3.8 - len(sizes) * LINE_POINTS
            numbers += _write_ratios(axes, ratios[metric], below, left)
    if not is_small and not is_valued:
        label = in_languages(capitalised(experiment.parameter.labels), languages)
        axes.set_xlabel(f"{label} {experiment.parameter.symbol}")
    draw_legend(figure, explain_missing(data, experiment, looks, languages), columns=1)
    lay_out(figure, height)
    remove_covered(figure, numbers)
    return figure


def _with_room(limits: tuple[float, float] | None, logarithmic: bool) -> tuple[float, float] | None:
    """The limits of an axis with room for a number above the highest and below the lowest."""
    if limits is None:
        return None
    low, high = limits
    if logarithmic:
        room = max(1.15, (high / low) ** 0.1)
        return low / room, high * room**0.4
    return low - 0.11 * high, 1.03 * high


def print_values(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> list[Annotation]:
    """Print each value at its point: the highest at a size above its line, the lowest below it."""
    shown, numbers = data.dropna(subset="value"), []
    for rows in (group for _, group in shown.groupby("size")):
        highest = rows["value"].max()
        for row in rows.to_dict("records"):
            is_above = row["value"] == highest
            style: Style = {"ha": "center", "va": "bottom" if is_above else "top", "bbox": GROUND}
            at, offset = (row["place"], row["value"]), (0, 3.5 if is_above else -3.5)
            color = looks[row["implementation"]].text
            drawn = write(axes, three_digits(row["value"]), at, offset, color=color, **style)
            name_artists(row["implementation"], [drawn])
            numbers.append(drawn)
    return numbers


def _ratios_below(experiment: Experiment, data: pd.DataFrame) -> dict[str, dict[float, str]]:
    """What stands below the axis of each metric, by place: how the second line compares.

    With another implementation: the speed of the second over the first, or its share of the
    memory; with a variant: the second's share of the first.
    """
    lines = data.drop_duplicates(LINE)[LINE].to_records(index=False).tolist()
    if len(lines) != FEW:
        return {}
    (base, _), (other, _) = lines
    found: dict[str, dict[float, str]] = {}
    for name, of_metric in data.groupby("metric", sort=False):
        metric = experiment.benchmark.metric(str(name))
        values = of_metric.pivot_table(index="place", columns=LINE, values="value")
        if values.shape[1] != FEW:
            return {}
        ratio = (values[lines[1]] / values[lines[0]]).dropna()
        if base == other or metric.exact:
            found[str(name)] = {at: f"{100 * x:.0f}%" for at, x in ratio.items()}
        else:
            speed = ratio if metric.higher_is_better else 1 / ratio
            found[str(name)] = {at: f"{three_digits(x)}×" for at, x in speed.items()}
    return found


def _write_ratios(
    axes: Axes, ratios: Mapping[float, str], below: float, left: float
) -> list[Annotation]:
    """Write ratios so many points below a panel, each at its place, with their sign before them."""
    style: Style = {"va": "top", "color": RATIO, "fontweight": "bold"}
    sign = next(iter(ratios.values()), " ")[-1]
    write(axes, sign, (0, 0), (-left, below), "axes fraction", ha="right", **style)
    coords = ("data", "axes fraction")
    return [
        write(axes, text, (place, 0), (0, below), coords, ha="center", **style)
        for place, text in reversed(list(ratios.items()))  # the last one stays where there is no room
    ]


def draw_lines(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    width: float = HALF_INCHES,
) -> Figure:
    """A line for each implementation and variant, in a panel for each metric of a quantity.

    Where lines of an exact quantity coincide, its values are multiples of the least.
    """
    quantity = metrics[0].quantity
    data = line_frame(experiment, names, metrics, languages)
    relative = quantity.exact and quantity.logarithmic and _coincide(data)
    if relative:
        data = _relative_to_least(data)
    return _draw_along(
        experiment,
        languages,
        data,
        {metric.name: title_with_unit(metric, languages, relative) for metric in metrics},
        width,
        logarithmic=quantity.logarithmic,
        limits=value_limits(data, quantity.logarithmic),
        labelled=names,
    )


# The small figures


def _ratios(experiment: Experiment, metric: Metric, languages: Sequence[str]) -> pd.DataFrame:
    """How many times as good as the baseline the others are, and the runs without a result.

    A ratio is missing where one of its two runs has no result.
    """
    runs = line_frame(experiment, experiment.implementations, [metric], languages)
    base = runs[runs["implementation"] == experiment.baseline][["variant", "size", "value"]]
    names = [name for name in experiment.implementations if name != experiment.baseline]
    others = line_frame(experiment, names, [metric], languages)
    failed = runs[runs["status"] != "ok"]
    frames = []
    for rows, key in ((others, "value"), (failed, "beyond")):
        both = rows.merge(base, on=["variant", "size"], how="left", suffixes=("", "_base"))
        ratio = both["value_base"] / both[key]
        ratio = 1 / ratio if metric.higher_is_better else ratio
        frames.append(both.assign(low=np.nan, high=np.nan, **{key: ratio}))
    return pd.concat([frames[0].dropna(subset="value"), frames[1]], ignore_index=True)


def _write_values(axes: Axes, ratios: pd.DataFrame, color: str) -> None:
    """Write the highest value at each size above its point, and of several the lowest below it.

    Where the numbers would touch, only every second one is written, or fewer; and none that would
    leave the panel.
    """
    values = ratios.groupby("size")["value"]
    highest, lowest = ratios.loc[values.idxmax()], ratios.loc[values.idxmin()[values.count() > 1]]
    for points, va, offset in ((highest, "bottom", 2.5), (lowest, "top", -2.5)):
        texts = points["value"].map(three_digits).tolist()
        for i in fitting(axes, points["place"], texts, gap=0.01, bold=True):
            at = (points["place"].iloc[i], points["value"].iloc[i])
            style: Style = {"ha": "center", "va": va, "fontweight": "bold", "bbox": GROUND}
            text = write(axes, texts[i], at, (0, offset), color=color, zorder=3, **style)
            box, inside = text.get_window_extent(), axes.bbox.padded(1.5)
            if inside.x0 <= box.x0 and box.x1 <= inside.x1 and axes.bbox.y0 <= box.y0:
                name_artists(points["implementation"].iloc[i], [text])
            else:
                text.remove()


def draw_speedup(experiment: Experiment, metric: Metric, languages: Sequence[str]) -> Figure:
    """How many times as good as the baseline the other implementation is, along the sweep."""
    data = _ratios(experiment, metric, languages)
    ratios = data.dropna(subset="value")
    room = 1.25 * ratios["value"].max()  # for the number of the highest
    figure = _draw_along(
        experiment,
        languages,
        data,
        {metric.name: said("speedup", languages, metric=metric.labels)},
        SMALL_INCHES,
        logarithmic=False,
        limits=value_limits(data, False, 1.0, room),
        labelled=experiment.implementations if ratios["variant"].nunique() > 1 else (),
    )
    draw_reference(figure.axes[0], 1.0)
    looks = looks_of(experiment.plan["implementations"])
    (other,) = {name for name in experiment.implementations if name != experiment.baseline}
    _write_values(figure.axes[0], ratios, looks[other].text)
    return figure


def draw_small(experiment: Experiment, languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The small figures of an experiment, by their names.

    Of a sweep of the baseline and one other implementation, or of alternatives at one setting.
    """
    names = experiment.implementations
    exact = metrics_of(experiment.benchmark, exact=True)[:1]
    sampled = metrics_of(experiment.benchmark, exact=False)
    timed = next(iter([*experiment.benchmark.totals, *sampled]), None)  # what a speedup is of
    alternatives = experiment.has_alternatives and len(names) > 1
    if not alternatives and (len(names) != 2 or experiment.baseline not in names):
        return
    if timed and alternatives:
        yield "row-speedup", draw_bars(experiment, languages, names, [timed], SMALL_INCHES)
    elif timed:
        yield "row-speedup", draw_speedup(experiment, timed, languages)
    if exact:
        draw = draw_bars if alternatives else draw_lines
        yield "row-memory", draw(experiment, languages, names, exact, SMALL_INCHES)
