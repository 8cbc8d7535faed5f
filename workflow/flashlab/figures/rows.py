"""The two small figures of an experiment: how much faster than the baseline, and peak memory.

They stand beside a sentence, five experiments to a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Sweep, metrics_of
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.figures.bars import draw_bars
from flashlab.figures.labels import title_lines
from flashlab.figures.lines import (
    LINE,
    LINE_POINTS,
    MARK_POINTS,
    covered_by,
    draw_lines,
    emphasised_of,
    explain_failures,
    gutter_inches,
    label_ends,
    line_frame,
    mark_failures,
    places_near,
    stack_inches,
    with_levels,
    write_explanations,
    write_into,
    write_title,
)
from flashlab.figures.placement import POINTS, Box, text_inches, wrap_texts
from flashlab.figures.style import (
    GREY,
    SMALL_POINTS,
    facet_grid,
    place_panels,
    scale_sizes,
    scale_values,
    shades_of,
    tick_inches,
)
from flashlab.telling.catalogs import message

WIDTH_INCHES = 52 / 25.4
HEIGHT_INCHES = 30 / 25.4

LEAST_PANEL_INCHES = 0.45

ABOVE = sorted(
    (
        (dx, dy)
        for dy in (0.9, 1.05, 1.2, 1.6, 2.1)
        for dx in (0.0, 0.2, -0.2, 0.4, -0.4, 0.55, -0.55)
    ),
    key=lambda offset: 2 * abs(offset[0]) + offset[1],
)
"""Where a value may stand from its point, the best place first."""

BELOW = [(dx, -dy) for dx, dy in ABOVE]

HEADROOM_POINTS = 14
"""Above the highest point, for its value."""


def compared_metric(benchmark: Benchmark) -> Metric | None:
    """What a speedup is of: the total of the sampled metrics, or the first of them."""
    return next(iter([*benchmark.totals, *metrics_of(benchmark, exact=False)]), None)


def _ratios(
    sweep: Sweep, metric: Metric, languages: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """How many times as good as the baseline the others are, and the runs that have no result.

    A ratio is missing where one of its two runs has no result.
    """
    every = line_frame(sweep, sweep.implementations, [metric], languages)
    base = every["implementation"] == sweep.baseline
    names = [name for name in sweep.implementations if name != sweep.baseline]
    data = line_frame(sweep, names, [metric], languages)
    theirs = every[base][["variant", "size", "value", "status"]]
    both = data.merge(theirs, on=["variant", "size"], suffixes=("", "_base"), how="left")
    ratio = both["value_base"] / both["value"]
    status = both["status"].where(both["status"] != "ok", both["status_base"].fillna("error"))
    data = both.assign(
        value=1 / ratio if metric.higher_is_better else ratio, status=status, low=None, high=None
    )
    return data.astype({"low": float, "high": float}), with_levels(every)


def _in_short(ratio: float) -> str:
    """A ratio in three digits: 0.303×, 4.27×, 13.4×, 205×."""
    return f"{ratio:,.0f}×" if ratio >= 99.95 else f"{ratio:#.3g}×"


def _write_values(
    axes: Axes, data: pd.DataFrame, shades: Mapping[str, str], covered: Sequence[Box]
) -> None:
    """Write each value near its point, where it covers nothing.

    Of several lines, the highest has its values above it, and the others below. Values with the
    fewest places come first; one that has none left is left out.
    """
    (left, level), (right, _) = axes.transData.transform([(axes.get_xlim()[i], 1) for i in (0, 1)])
    taken = [*covered, (left, level - 1, right, level + 1)]

    several = len(data.drop_duplicates(LINE)) > 1
    highest = data.groupby("size")["value"].max()

    def places(row: Mapping[Any, Any]) -> list[Box]:
        is_highest = row["value"] == highest[row["size"]]
        offsets = [*(ABOVE if is_highest else ()), *(() if several and is_highest else BELOW)]
        point = axes.transData.transform((row["size"], row["value"]))
        return places_near(axes, _in_short(row["value"]), point, offsets, taken)

    rows = data.dropna(subset="value").to_dict("records")
    for row in sorted(rows, key=lambda row: len(places(row))):
        for box in places(row)[:1]:
            taken.append(box)
            name = row["implementation"]
            write_into(axes, _in_short(row["value"]), box, shades[name], name)


def _tick_rows(sweep: Sweep) -> tuple[list[str], list[str]]:
    """What heads each row of tick labels (``N``, ``d``), and the labels of all rows."""
    rows = {sweep.parameter.symbol: [str(value) for value in sweep.values]}
    for parameter in sweep.varying:
        if parameter != sweep.parameter:
            at = {sweep.value_of(row): row[parameter.name] for row in sweep.runs}
            rows[parameter.symbol] = [str(at[value]) for value in sweep.values]
    return list(rows), ["\n".join(parts) for parts in zip(*rows.values(), strict=True)]


def _draw_panel(
    sweep: Sweep,
    data: pd.DataFrame,
    runs: pd.DataFrame,
    title: Sequence[str],
    languages: Sequence[str],
    *,
    logarithmic: bool,
    labelled: bool,
) -> tuple[Figure, Axes, dict[str, str]]:
    """The one panel of a small figure with its lines and ticks, and the colours of its lines.

    `runs` are those whose failures the figure explains.
    """
    entries = sweep.plan["implementations"]
    emphasised = emphasised_of(data, sweep.plan["emphasised"])
    shades = shades_of(entries, [*emphasised, sweep.baseline])
    drawn = [entry for entry in entries if entry["name"] in set(data["implementation"])]
    grid = facet_grid(data, drawn, emphasised)
    grid.map_dataframe(draw_lines)
    axes = grid.axes.flat[0]
    heads, ticks = _tick_rows(sweep)
    explained = explain_failures(
        runs, sweep.parameter.symbol, sweep.values, languages, WIDTH_INCHES
    )
    marks = MARK_POINTS * int(runs["level"].nunique())
    above = (marks + 4 + LINE_POINTS * (len(title) + len(explained))) / POINTS
    below = (4 + LINE_POINTS * len(heads)) / POINTS
    lines = len(data.drop_duplicates(LINE)) if labelled else 0
    height = max(HEIGHT_INCHES - above - below, stack_inches(lines), LEAST_PANEL_INCHES)
    left = max(text_inches(head, SMALL_POINTS) for head in heads)
    if data["value"].notna().any():
        if not logarithmic:  # from zero, with room for a value above the highest point
            top = max(data["value"].max(), 1.0)
            axes.set_ylim(0, top / (1 - HEADROOM_POINTS / POINTS / height))
        scale_values(axes, logarithmic, height)
        left = max(left, tick_inches(axes))
    else:
        axes.set_yticks([])
    right = gutter_inches(data) if labelled else 0.13
    place_panels(grid.figure, WIDTH_INCHES, height, (left + 7 / POINTS, right, below, above))
    scale_sizes(axes, sweep.values, ticks, margin=0.18)
    for row, head in enumerate(heads):
        axes.annotate(
            head,
            (0.0, 0.0),
            xycoords=("figure fraction", "axes fraction"),
            xytext=(0, -4 - row * LINE_POINTS),
            textcoords="offset points",
            va="top",
            fontsize=SMALL_POINTS,
            color=GREY,
            annotation_clip=False,
        )
    write_title(axes, title, SMALL_POINTS, marks + 3)
    mark_failures(axes, runs, shades)
    write_explanations(grid.figure, explained, shades)
    return grid.figure, axes, shades


def _speedup_title(metric: Metric, languages: Sequence[str]) -> list[str]:
    texts = [
        message(language, "figures", "speedup").format(metric=metric.labels[language])
        for language in languages
    ]
    return wrap_texts(list(dict.fromkeys(texts)), SMALL_POINTS, WIDTH_INCHES, bold=True)


def draw_speedup(sweep: Sweep, metric: Metric, languages: Sequence[str]) -> Figure:
    """How many times as good as the baseline every other implementation is, along the sweep."""
    data, runs = _ratios(sweep, metric, languages)
    several = len(data.drop_duplicates(LINE)) > 1
    figure, axes, shades = _draw_panel(
        sweep,
        data,
        runs,
        _speedup_title(metric, languages),
        languages,
        logarithmic=False,
        labelled=several,
    )
    axes.axhline(1, color=GREY, linewidth=0.6, linestyle=(0, (4, 2)), zorder=1.6)
    taken = label_ends(axes, data, shades) if several else covered_by(axes, data)
    _write_values(axes, data, shades, taken)
    return figure


def draw_exact(sweep: Sweep, metric: Metric, languages: Sequence[str]) -> Figure:
    """An exact metric of every implementation along the sweep, labelled at the lines' ends."""
    data = with_levels(line_frame(sweep, sweep.implementations, [metric], languages))
    figure, axes, shades = _draw_panel(
        sweep,
        data,
        data,
        title_lines(metric, languages, WIDTH_INCHES, SMALL_POINTS),
        languages,
        logarithmic=metric.quantity.logarithmic,
        labelled=True,
    )
    label_ends(axes, data, shades)
    return figure


def draw_rows(sweep: Sweep, languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The small figures of an experiment, by their names.

    Of a sweep of the baseline and one other implementation, or of alternatives at one setting.
    """
    exact = metrics_of(sweep.benchmark, exact=True)
    if sweep.has_alternatives:
        shown = [metric for metric in (compared_metric(sweep.benchmark), *exact[:1]) if metric]
        if len(sweep.implementations) > 1:
            for name, metric in zip(("row-speedup", "row-memory"), shown, strict=False):
                bars = (sweep.implementations, [metric], WIDTH_INCHES, SMALL_POINTS)
                yield name, draw_bars(sweep, languages, *bars)
        return
    if len(sweep.implementations) != 2 or sweep.baseline not in sweep.implementations:
        return
    timed = compared_metric(sweep.benchmark)
    if timed:
        yield "row-speedup", draw_speedup(sweep, timed, languages)
    if exact:
        yield "row-memory", draw_exact(sweep, exact[0], languages)
