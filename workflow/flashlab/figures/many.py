"""The figures of many implementations along a sweep, which as lines would be a thicket.

Times are marks on a logarithmic axis: a panel for each value of the sweep, a row for each
implementation. Rates are bars from zero, a group for each value. Both have their numbers, bold
within the margin of the best, and the implementations in one order throughout. Of exact values,
lines that cannot be told apart are one band.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import FixedFormatter, FixedLocator

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment, Variant, chosen_metrics
from flashlab.analysis.ratios import exceeds_margin
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.figures.forms import (
    FEW,
    HALF_INCHES,
    MOST_BARS_OF_HALF,
    MOST_VALUES,
    PAGE_INCHES,
    is_wide,
)
from flashlab.figures.labels import (
    in_words,
    label_variant,
    said,
    title_metric,
    title_with_unit,
)
from flashlab.figures.lines import are_alike, print_values, with_room
from flashlab.figures.panel import (
    GROUND,
    MARK,
    draw_ceiling,
    draw_panel,
    explain_missing,
    line_frame,
    run_frame,
    ticks_of,
    value_limits,
    write_symbols,
)
from flashlab.figures.placement import text_inches
from flashlab.figures.style import (
    GREY,
    INK,
    SMALL_POINTS,
    Look,
    Style,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    name_artists,
    name_rows,
    new_panels,
    remove_covered,
    scale_linearly,
    scale_logarithmically,
    text_colour,
    title_panel,
    write,
)
from flashlab.numbers import Printed, measured

NUMBER_INCHES = 0.38
"""Width of a number beside a mark."""

BAR_POINTS = 6.2
"""The size of the numbers on bars, of which dozens stand side by side."""

GROUP_SHARE = 0.92
"""Share of a group's width that its bars take."""

SQUARE_INCHES = 0.32
"""Width of an entry of the legend of bars besides its text."""

BAND = "#5F7F9C"

MOST_PANELS = 2
"""Most variants of the longest sweep that page one has room for."""

LONGEST_INCHES = 0.55
"""The height of its panels."""


def _order(experiment: Experiment, names: Sequence[str]) -> list[str]:
    return [name for name in experiment.implementations if name in names]


def _looks(experiment: Experiment, names: Sequence[str]) -> dict[str, Look]:
    return looks_of([e for e in experiment.plan["implementations"] if e["name"] in names])


def settings_of(experiment: Experiment) -> list[str]:
    """The values of the sweep, each with what varies along: ``E = 512, d = 16``."""
    at = {experiment.value_of(run): run for run in experiment.runs}
    along = [] if experiment.is_of_problems else experiment.covarying
    return [
        ", ".join(f"{p.symbol} = {at[value][p.name]}" for p in (experiment.parameter, *along))
        for value in experiment.values
    ]


def _judged(
    experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]
) -> pd.DataFrame:
    """The runs (`run_frame`) with the ``best`` value at their setting; ``is_best`` is near it."""
    data = run_frame(experiment, names, metrics)
    by_setting = data.groupby(["metric", "size"])["value"]
    best = by_setting.transform("max" if metrics[0].higher_is_better else "min")
    apart = np.abs(np.log((data["value"] / best).to_numpy(dtype=float)))
    is_best = [not exceeds_margin(each) for each in np.exp(np.nan_to_num(apart, nan=1.0))]
    return data.assign(best=best, is_best=is_best)


def _explain_failures(data: pd.DataFrame, languages: Sequence[str]) -> list[Line2D]:
    statuses = [each for each in data["status"].unique() if each not in ("ok", "absent")]
    return [handle(in_words(status, languages), color=GREY, **MARK) for status in statuses]


# Marks


def draw_marks(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    panel: float,
    whole: float,
) -> Figure:
    """A mark for each metric, the first filled, joined: a panel for each value of the sweep."""
    data, order = _judged(experiment, names, metrics), _order(experiment, names)
    looks, values = _looks(experiment, names), experiment.values
    width = PAGE_INCHES if is_wide(experiment, names, metrics) else HALF_INCHES
    figure, (panels,) = new_panels(width, 1, len(values), sharey=True)
    beside = max(text_inches(name, SMALL_POINTS, bold=True) for name in order)
    share = min(0.35, NUMBER_INCHES * len(values) / (width - beside))
    for axes, value, title in zip(panels, values, settings_of(experiment), strict=True):
        shown = data[data["size"] == value]
        name_rows(axes, order, looks=looks)
        axes.spines["left"].set_visible(False)
        _scale_marks(axes, shown, share, len(metrics))
        for row, name in enumerate(order):
            mine = shown[shown["implementation"] == name]
            draw_row(axes, row + 0.5, mine, looks[name], metrics[0].name)
        for best in shown.groupby("metric")["best"].first().dropna():
            axes.axvline(best, color=GREY, linewidth=0.5, linestyle=(0, (2, 2)), zorder=0.9)
        title_panel(axes, [f"{title} ({metrics[0].unit})"])
    handles = legend_of_marks([title_metric(metric, languages) for metric in metrics])
    draw_legend(figure, [*handles, *_explain_failures(data, languages)])
    lay_out(figure, panel, whole)
    return figure


def legend_of_marks(texts: Sequence[str]) -> list[Line2D]:
    """The entries of a legend of marks: the first one's is filled; none of one alone."""
    circle: Style = {"marker": "o", "markersize": 4.2, "markeredgecolor": INK, "linestyle": "none"}
    faces = [GREY, *["white"] * (len(texts) - 1)] if len(texts) > 1 else []
    return [
        handle(text, markerfacecolor=face, **circle)
        for text, face in zip(texts, faces, strict=False)
    ]


def _scale_marks(axes: Axes, data: pd.DataFrame, share: float, metrics: int) -> None:
    """Scale a panel with room for a number at one end or, of two metrics, at both."""
    values = data["value"].dropna()
    if values.empty:
        axes.set_xticks([])
        return
    low, high = math.log10(values.min()), math.log10(values.max())
    before = share if metrics > 1 else 0.06
    decades = max(high - low, 0.7) / (1 - before - share)
    middle = (low + high) / 2 + decades * (share - before) / 2
    scale_logarithmically(
        axes.xaxis, 10 ** (middle - decades / 2), 10 ** (middle + decades / 2), most=3
    )


def draw_row(
    axes: Axes,
    y: float,
    data: pd.DataFrame,
    look: Look,
    first: str | int,
    printed: Printed = measured,
) -> None:
    """The marks of an implementation at a setting, with intervals and numbers; × for a failure."""
    if data.empty:
        return
    shown, drawn = data[data["value"].notna()], list[Any]()
    if shown.empty:
        beyond = data["beyond"].dropna()
        text = " ".join(["×", *(measured(each) for each in beyond)])
        is_measured = data["status"].iloc[0] != "absent"
        at, coords = (0.5, y), axes.get_yaxis_transform()
        drawn += [write(axes, text, at, (0, 0), coords, color=look.text, ha="center")] * is_measured
    else:
        ends = shown["value"].min(), shown["value"].max()
        drawn += axes.plot(ends, [y, y], color=look.shade, linewidth=1.6, zorder=1.4)
        ordered = shown.sort_values("value", kind="stable").to_dict("records")
        for row in ordered:
            face = look.shade if row["metric"] == first else "white"
            is_left = row is ordered[0] is not ordered[-1]
            text = printed(row["value"], row["low"], row["high"])
            drawn += _draw_mark(axes, y, row, face, text, is_left=is_left)
    name_artists(str(data["implementation"].iloc[0]), drawn)


def _draw_mark(
    axes: Axes, y: float, row: Mapping[Any, Any], face: str, number: str, *, is_left: bool
) -> list[Any]:
    """A mark with its interval and, on its left or right, its number."""
    style: Style = {"marker": "o", "markersize": 4.2, "markeredgewidth": 0.5, "zorder": 2}
    style |= {"markerfacecolor": face, "markeredgecolor": INK, "linestyle": "none"}
    drawn: list[Any] = axes.plot([row["value"]], [y], **style)
    if row["high"] > row["low"]:
        drawn.append(axes.hlines(y, row["low"], row["high"], color=INK, linewidth=0.8, zorder=3))
    text: Style = {"ha": "right" if is_left else "left", "va": "center_baseline", "bbox": GROUND}
    text |= {"fontweight": "bold" if row["is_best"] else "normal", "zorder": 3.5}
    offset = (-3.5 if is_left else 3.5, 0)
    drawn.append(write(axes, number, (row["value"], y), offset, **text))
    return drawn


# Bars


@dataclass(frozen=True)
class _Groups:
    """The values, the order of the bars and their looks, which panels of bars share."""

    settings: Sequence[str]
    values: Sequence[int]
    order: Sequence[str]
    looks: Mapping[str, Look]

    @property
    def step(self) -> float:
        """The width of a bar, of a group of 1."""
        return GROUP_SHARE / len(self.order)

    def is_turned(self, values: pd.Series[float], width: float) -> bool:
        """True if the numbers have no room beside one another in a panel of so many inches."""
        room = width * 0.9 * self.step / len(self.values)
        return any(text_inches(_on_bar(x), BAR_POINTS, bold=True) > room for x in values.dropna())

    def handles(self) -> list[Line2D]:
        """The entries of the legend."""
        square: Style = {"marker": "s", "markersize": 5, "linestyle": "none"}
        square |= {"markeredgecolor": INK, "markeredgewidth": 0.3}
        return [
            handle(name, name, markerfacecolor=self.looks[name].shade, **square)
            for name in self.order
        ]


def _groups_of(experiment: Experiment, names: Sequence[str], most: int = MOST_VALUES) -> _Groups:
    """The groups of an experiment's last values, at most so many."""
    values = experiment.values[-most:]
    shown = settings_of(experiment)[-most:]
    return _Groups(shown, values, _order(experiment, names), _looks(experiment, names))


def _draw_groups(
    axes: Axes, data: pd.DataFrame, groups: _Groups, highest: float, *, is_turned: bool
) -> list[Annotation]:
    """A group of bars for each value, with their numbers, which are returned."""
    numbers: list[Annotation] = []
    step, middle = groups.step, (len(groups.order) - 1) / 2
    for position, name in enumerate(groups.order):
        mine = data[(data["implementation"] == name) & data["size"].isin(groups.values)]
        places = mine["size"].map(groups.values.index) + (position - middle) * step
        numbers += _draw_bars(axes, mine.assign(place=places), groups.looks[name], step, is_turned)
    # Room for the numbers below the panel's title, which would cover them.
    axes.set_ylim(0, highest * (1.6 if is_turned else 1.3))
    scale_linearly(axes.yaxis, 4)
    axes.set_xlim(-0.5, len(groups.values) - 0.5)
    axes.xaxis.set_major_locator(FixedLocator(range(len(groups.values))))
    axes.xaxis.set_major_formatter(FixedFormatter(groups.settings))
    axes.tick_params(axis="x", length=0)
    axes.grid(False, axis="x")
    for edge in range(1, len(groups.values)):
        axes.axvline(edge - 0.5, color="#D0D0D0", linewidth=0.5, zorder=0.6)
    return numbers


def _draw_legend_of_bars(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A legend of squares in as few rows as they fit into."""
    texts = [str(each.get_label()) for each in handles]
    beside = sum(text_inches(text, SMALL_POINTS) + SQUARE_INCHES for text in texts)
    draw_legend(
        figure, handles, math.ceil(len(handles) / math.ceil(beside / figure.get_figwidth()))
    )


def draw_groups(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metrics: Sequence[Metric],
    product: Ceiling | None,
    panel: float,
    whole: float,
) -> Figure:
    """A panel for each metric, one below the other; a group of bars for each value of the sweep."""
    data, groups = _judged(experiment, names, metrics), _groups_of(experiment, names)
    width = PAGE_INCHES if is_wide(experiment, names, metrics) else HALF_INCHES
    figure, panels = new_panels(width, len(metrics), sharex=True)
    numbers: list[Annotation] = []
    for axes, metric in zip(panels[:, 0], metrics, strict=True):
        of_metric = data[data["metric"] == metric.name]
        highest = _highest(of_metric)
        is_turned = groups.is_turned(of_metric["value"], width)
        numbers += _draw_groups(axes, of_metric, groups, highest, is_turned=is_turned)
        draw_ceiling(axes, product, metric, highest, languages)
        title_panel(axes, title_with_unit(metric, languages))
    _draw_legend_of_bars(figure, [*groups.handles(), *_explain_failures(data, languages)])
    lay_out(figure, panel, whole)
    remove_covered(figure, numbers)
    return figure


def _highest(data: pd.DataFrame) -> float:
    return float(data["value"].max()) if data["value"].notna().any() else 1.0


def longest_sweeps(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The sweeps of the first sweep's parameter to its greatest value, one of each variant.

    Each has a single variant, and they have the same values and implementations.
    """
    sweeps = [each for each in experiments if each.is_ordered]
    along = [each for each in sweeps if each.parameter == sweeps[0].parameter]
    top = max((each.values[-1] for each in along), default=0)
    by_variant: dict[Variant, Experiment] = {}
    for experiment in along:
        first = next(iter(by_variant.values()), experiment)
        is_alike = (first.values, first.implementations) == (
            experiment.values,
            experiment.implementations,
        )
        if experiment.values[-1] == top and is_alike:
            for variant in experiment.variants:
                by_variant.setdefault(variant, experiment.in_variant(variant))
    return list(by_variant.values())


def draw_longest(experiments: Sequence[Experiment], languages: Sequence[str]) -> Figure | None:
    """Bars of the rate of all passes at the longest sweeps, a panel for each variant of them.

    None of a benchmark without such a rate, or without any result.
    """
    sweeps = longest_sweeps(experiments)[:MOST_PANELS]
    metric = overall_rate(experiments[0].benchmark)
    if not sweeps or metric is None:
        return None
    names = sweeps[0].implementations
    data = [_judged(each, names, [metric]) for each in sweeps]
    together = pd.concat(data)
    if together["value"].isna().all():
        return None
    width = PAGE_INCHES / len(sweeps)
    most = MOST_BARS_OF_HALF * MOST_PANELS // len(sweeps) // len(names)
    groups = _groups_of(sweeps[0], names, max(1, min(MOST_VALUES, most)))
    is_turned = groups.is_turned(together["value"], width)
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(sweeps), sharey=True)
    numbers: list[Annotation] = []
    for axes, experiment, shown in zip(panels, sweeps, data, strict=True):
        numbers += _draw_groups(axes, shown, groups, _highest(together), is_turned=is_turned)
        variant = label_variant(experiment.benchmark, experiment.variants[0], languages)
        title_panel(axes, list(filter(None, (*title_with_unit(metric, languages), variant))))
    _draw_legend_of_bars(figure, [*groups.handles(), *_explain_failures(together, languages)])
    lay_out(figure, LONGEST_INCHES)
    remove_covered(figure, numbers)
    return figure


def overall_rate(benchmark: Benchmark) -> Metric | None:
    """The rate that follows from the metric that ranks implementations, or that metric."""
    ranking = chosen_metrics(benchmark)[-1]
    rates = (m for m in benchmark.metrics if m.derived and m.derived.of == (ranking.name,))
    return ranking if ranking.higher_is_better else next(rates, None)


def _on_bar(value: float) -> str:
    """The number on a bar, which has no room for more: ``424``, ``8.7``."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def _draw_bars(
    axes: Axes, data: pd.DataFrame, look: Look, step: float, is_turned: bool
) -> list[Annotation]:
    """The bars of an implementation with intervals and numbers, which are returned."""
    numbers: list[Annotation] = []
    text: Style = {"ha": "center", "va": "bottom", "fontsize": BAR_POINTS, "color": INK}
    for row in data.to_dict("records"):
        at, drawn = row["place"], list[Any]()
        if row["status"] not in ("ok", "absent"):
            number = write(axes, "×", (at, 0), (0, 1), **text | {"color": look.text})
            name_artists(row["implementation"], [number])
        if not row["value"] >= 0:
            continue
        style: Style = {"color": look.shade, "edgecolor": INK, "linewidth": 0.3}
        drawn += axes.bar(at, row["value"], 0.94 * step, **style)
        end = row["value"]
        if row["high"] > row["low"]:
            drawn.append(axes.vlines(at, row["low"], row["high"], color=INK, linewidth=0.7))
            end = max(end, row["high"])
        weight = "bold" if row["is_best"] else "normal"
        turned: Style = {"rotation": 90 if is_turned else 0, "fontweight": weight}
        numbers.append(write(axes, _on_bar(row["value"]), (at, end), (0, 1.5), **text, **turned))
        name_artists(row["implementation"], [*drawn, numbers[-1]])
    return numbers


# Bands


def _together(data: pd.DataFrame, order: Sequence[str]) -> list[list[str]]:
    """The implementations in groups of values that coincide with another one of the group."""
    lines = data.pivot_table(index="size", columns="implementation", values="value")
    groups: list[list[str]] = []
    for name in (each for each in order if each in lines):
        near = [g for g in groups if any(are_alike(lines[name], lines[each]) for each in g)]
        joined = [*itertools.chain(*near), name]
        groups = [*(g for g in groups if g not in near), joined]
    return groups


def draw_bands(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    metric: Metric,
    panel: float,
    whole: float,
) -> Figure:
    """A line for each implementation, and a band for those whose values coincide."""
    data = line_frame(experiment, names, [metric], languages)
    looks, is_logarithmic = _looks(experiment, names), metric.quantity.logarithmic
    groups = [g for g in _together(data, _order(experiment, names)) if len(g) > 1]
    within = {name: ", ".join(group) for group in groups for name in group}
    band_of = data["implementation"].map(within)
    is_single = band_of.isna() | data["value"].isna()
    bands = (
        data[~is_single]
        .assign(implementation=band_of)
        .groupby(["implementation", "size", "place"], sort=False)["value"]
        .agg(["min", "max"])
        .reset_index()
    )
    for group in groups:
        looks[within[group[0]]] = Look(True, BAND, "o")
    several = {", ".join(g): _label_band(g, languages) for g in groups}
    middles = bands.assign(
        value=np.sqrt(bands["min"] * bands["max"]),
        label=bands["implementation"].map(several),
        metric=metric.name,
        status="ok",
        variant=0,
    )
    lines = pd.concat([data[is_single], middles], ignore_index=True)
    figure, ((axes,),) = new_panels(HALF_INCHES)
    draw_panel(
        axes,
        experiment,
        lines,
        looks,
        title_with_unit(metric, languages),
        panel,
        ticks=ticks_of(experiment),
        limits=with_room(value_limits(lines, is_logarithmic), is_logarithmic),
        logarithmic=is_logarithmic,
        labelled=[*looks],
        rows=int(data["level"].nunique()),
    )
    write_symbols(axes, experiment)
    numbers = print_values(axes, data[is_single], looks)
    for _, band in bands.groupby("implementation", sort=False):
        places = band["place"], band["min"], band["max"]
        axes.fill_between(*places, color=BAND, linewidth=0, zorder=1.9)
        for place, low, high in zip(*places, strict=True):
            text = "–".join(dict.fromkeys(map(measured, (low, high))))
            style: Style = {"ha": "center", "va": "top", "color": text_colour(BAND), "bbox": GROUND}
            numbers.append(write(axes, text, (place, low), (0, -3.5), **style))
    draw_legend(figure, explain_missing(data, experiment, looks, languages), columns=1)
    lay_out(figure, panel, whole)
    remove_covered(figure, numbers)
    return figure


def _label_band(group: Sequence[str], languages: Sequence[str]) -> str:
    """The names of two implementations, or the number of more."""
    if len(group) <= FEW:
        return ", ".join(group)
    return " ".join(said("several", languages, count=dict.fromkeys(languages, str(len(group)))))
