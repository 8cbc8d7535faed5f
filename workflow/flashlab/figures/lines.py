"""The figures of one experiment along its sweep: a quantity, in a panel for each of its metrics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import FEW, HALF_INCHES, PAGE_INCHES, has_guides
from flashlab.figures.labels import capitalised, in_languages, title_with_unit
from flashlab.figures.panel import (
    GROUND,
    LINE,
    draw_ceiling,
    draw_panel,
    explain_missing,
    line_frame,
    sizes_of,
    ticks_of,
    value_limits,
    write_symbols,
)
from flashlab.figures.speedups import gains_over_baseline
from flashlab.figures.style import (
    GREY,
    LINE_POINTS,
    RATIO,
    Look,
    Style,
    draw_legend,
    lay_out,
    looks_of,
    name_artists,
    new_panels,
    remove_covered,
    write,
)
from flashlab.numbers import measured, times

COINCIDE = 1.12
"""Lines that are nowhere further apart than by this factor are one line on a logarithmic axis."""


def are_alike(one: pd.Series[float], other: pd.Series[float]) -> bool:
    """True for two lines, by the values of the sweep, that cannot be told apart anywhere."""
    apart = np.abs(np.log((one / other).dropna().to_numpy()))
    return apart.size > 1 and bool(apart.max() <= math.log(COINCIDE))


def _coincide(data: pd.DataFrame) -> bool:
    """True where some two lines cannot be told apart."""
    lines = data.pivot_table(index="size", columns=LINE, values="value")
    pairs = itertools.combinations(lines.columns, 2)
    return any(are_alike(lines[one], lines[other]) for one, other in pairs)


def _relative_to_least(data: pd.DataFrame) -> pd.DataFrame:
    """Values as multiples of the least at each size; the last of each line is in its label."""
    least = data.groupby("size")["value"].transform("min")
    keys = ("value", "low", "high", "beyond")
    data = data.assign(**{key: data[key] / least for key in keys})
    last = data.groupby(LINE)["value"].transform("last").map(times, na_action="ignore")
    return data.assign(label=(data["label"] + " " + last + "×").fillna(data["label"]))


def _draw_along(
    experiment: Experiment,
    languages: Sequence[str],
    data: pd.DataFrame,
    titles: Mapping[str, Sequence[str]],
    product: Ceiling | None,
    comparisons: pd.DataFrame | None,
    height: float,
    whole: float,
    **panel: Any,
) -> Figure:
    """Lines along a sweep, in a panel for each metric that has a title, about `height` high."""
    lines = len(data.drop_duplicates(LINE))
    is_valued = lines <= FEW and not experiment.is_of_problems
    shown = set(data["implementation"])
    entries = [entry for entry in experiment.plan["implementations"] if entry["name"] in shown]
    looks = looks_of(entries, experiment.plan["emphasised"])
    ratios = _ratios_below(experiment, data, comparisons) if is_valued else {}
    ticks = ticks_of(experiment)
    numbers: list[Annotation] = []
    if is_valued:
        panel["limits"] = with_room(panel["limits"], panel["logarithmic"])
        width = HALF_INCHES if len(titles) == 1 else PAGE_INCHES
        figure, panels = new_panels(width, 1, len(titles))
    else:
        figure, panels = new_panels(HALF_INCHES, len(titles), sharex=True)
    every, highest = list(panels.flat), data["value"].max()
    for axes, (metric, title) in zip(every, titles.items(), strict=True):
        of_metric, rows = data[data["metric"] == metric], int(data["level"].nunique())
        draw_panel(
            axes, experiment, of_metric, looks, title, height, ticks=ticks, rows=rows, **panel
        )
        draw_ceiling(axes, product, experiment.benchmark.metric(metric), highest, languages)
        if has_guides(experiment, sorted(shown), experiment.benchmark.metric(metric)):
            _draw_guides(axes, experiment, of_metric)
        if is_valued:
            numbers += print_values(axes, of_metric, looks)
        if axes is every[-1] or is_valued:
            left = write_symbols(axes, experiment)
        if metric in ratios:
            below = -3.8 - len(sizes_of(experiment)) * LINE_POINTS
            numbers += _write_ratios(axes, ratios[metric], below, left)
    if not is_valued:
        label = in_languages(capitalised(experiment.parameter.labels), languages)
        axes.set_xlabel(f"{label} {experiment.parameter.symbol}")
    draw_legend(figure, explain_missing(data, experiment, looks, languages), columns=1)
    lay_out(figure, height, whole)
    remove_covered(figure, numbers)
    return figure


def _draw_guides(axes: Axes, experiment: Experiment, data: pd.DataFrame) -> None:
    """A dotted line to each line's last value, as the operations grow from value to value."""
    work = experiment.benchmark.metric(str(data["metric"].iloc[0])).work
    assert work is not None
    operations = {experiment.value_of(run): work.operations(run) for run in experiment.runs}
    for name, rows in data.dropna(subset="value").groupby("implementation", sort=False):
        last = rows.iloc[-1]
        guide = rows["size"].map(operations) * (last["value"] / operations[last["size"]])
        style: Style = {"colors": GREY, "linewidths": 0.7, "linestyles": [(0, (1, 1.5))]}
        lines = LineCollection([np.column_stack([rows["place"], guide])], zorder=1.2, **style)
        axes.add_collection(lines)
        name_artists(str(name), [lines])


def with_room(limits: tuple[float, float] | None, logarithmic: bool) -> tuple[float, float] | None:
    """The limits of an axis with room for a number above the highest and below the lowest."""
    if limits is None:
        return None
    low, high = limits
    if logarithmic:
        room = max(1.15, (high / low) ** 0.1)
        return low / room, high * room**0.7
    return low - 0.11 * high, 1.12 * high


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
            drawn = write(
                axes,
                measured(row["value"], row["low"], row["high"]),
                at,
                offset,
                color=color,
                **style,
            )
            name_artists(row["implementation"], [drawn])
            numbers.append(drawn)
    return numbers


def _ratios_below(
    experiment: Experiment, data: pd.DataFrame, comparisons: pd.DataFrame | None
) -> dict[str, dict[float, str]]:
    """The ratios below the axis of each metric, by place: how the second line compares.

    With the baseline: the speed over it, as the comparisons have it, or the share of its memory;
    with a variant: the second's share of the first.
    """
    lines = data.drop_duplicates(LINE)[LINE].to_records(index=False).tolist()
    if len(lines) != FEW:
        return {}
    (base, _), (other, variant) = lines
    texts: dict[str, dict[float, str]] = {}
    for name in map(str, data["metric"].unique()):
        of_metric = data[data["metric"] == name]
        values = of_metric.pivot_table(index="place", columns=LINE, values="value")
        if values.shape[1] == FEW and (base == other or experiment.benchmark.metric(name).exact):
            ratio = (values[lines[1]] / values[lines[0]]).dropna()
            texts[name] = {at: f"{100 * x:.0f}%" for at, x in ratio.items()}
        elif base == experiment.baseline and comparisons is not None:
            of = (comparisons, other, experiment.variants[variant])
            speeds = gains_over_baseline(experiment, *of).get(name, {})
            places = dict(zip(of_metric["size"], of_metric["place"], strict=True))
            texts[name] = {
                places[value]: f"{times(*speed[:3])}×" for value, speed in speeds.items()
            }
    return {name: each for name, each in texts.items() if each}


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
        for place, text in reversed(
            list(ratios.items())
        )  # the last one stays where there is no room
    ]


def _titled(names: Sequence[str], title: Sequence[str]) -> list[str]:
    """A title that names the implementation where there is one, whose lines are its variants."""
    first, *others = title
    return [f"{names[0]} {first}" if len(names) == 1 else first, *others]


def draw_lines(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    product: Ceiling | None,
    comparisons: pd.DataFrame | None,
    panel: float,
    whole: float,
) -> Figure:
    """A line for each implementation and variant, in a panel for each metric of a quantity.

    Where lines of an exact quantity coincide, its values are multiples of the least. `product` is
    the ceiling of rates, if it was measured, and the speed-ups below the axes are from the frame of
    `comparisons`. The figure is `whole` inches high, a panel `panel`.
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
        {
            metric.name: _titled(names, title_with_unit(metric, languages, relative))
            for metric in metrics
        },
        product,
        comparisons,
        panel,
        whole,
        logarithmic=quantity.logarithmic,
        limits=value_limits(data, quantity.logarithmic),
        labelled=names,
    )
