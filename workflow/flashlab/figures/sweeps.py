"""The figures of an experiment: a panel a metric, one below the other, half as wide as the text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Sweep, read_sweep
from flashlab.benchmarks.registry import find_benchmark
from flashlab.figures.bars import draw_bars
from flashlab.figures.curves import draw_curves
from flashlab.figures.labels import label_covaried, label_parameter, title_lines
from flashlab.figures.lines import (
    LINE,
    LINE_POINTS,
    MARK_POINTS,
    draw_lines,
    emphasised_of,
    explain_failures,
    gutter_inches,
    label_ends,
    line_ends,
    line_frame,
    mark_failures,
    stack_inches,
    with_levels,
    write_explanations,
    write_title,
)
from flashlab.figures.placement import POINTS
from flashlab.figures.problems import draw_problems
from flashlab.figures.rows import draw_rows
from flashlab.figures.style import (
    HALF_INCHES,
    LABEL_POINTS,
    drawing,
    facet_grid,
    place_panels,
    save,
    scale_sizes,
    scale_values,
    shades_of,
    tick_inches,
)
from flashlab.files import read_json
from flashlab.telling.glyphs import legible_plan

HEIGHT_INCHES = 52 / 25.4
"""Height of a figure without marks, and with no more labels than fit beside its panels."""

COINCIDE = 1.12
"""Lines that are nowhere further apart than by this factor are one line on a logarithmic axis."""


def _coincide(data: pd.DataFrame) -> bool:
    """Whether two lines cannot be told apart anywhere."""
    lines = data.pivot_table(index="size", columns=LINE, values="value")
    apart = [
        np.abs(np.log((lines[one] / lines[other]).dropna().to_numpy()))
        for one, other in itertools.combinations(lines.columns, 2)
    ]
    return any(len(found) > 1 and found.max() <= math.log(COINCIDE) for found in apart)


def _relative_to_least(data: pd.DataFrame) -> pd.DataFrame:
    """Values as multiples of the least at each size, which is in the label of each line's end."""
    least = data.groupby("size")["value"].transform("min")
    data = data.assign(**{key: data[key] / least for key in ("value", "low", "high")})
    last = line_ends(data).set_index(LINE)["value"].map(_factor)
    factors = [str(last.get(key, "")) for key in zip(*(data[name] for name in LINE), strict=True)]
    return data.assign(line=(data["line"] + " " + pd.Series(factors, data.index)).str.strip())


def _factor(value: float) -> str:
    """A multiple in three digits: 1.10×, 51.7×, 102×, 1,024×."""
    return f"{value:,.0f}×" if value >= 99.95 else f"{value:#.3g}×"


def draw(sweep: Sweep, languages: Sequence[str], figure: Mapping[str, Any]) -> Figure:
    """One figure of an experiment: of a curve, or a panel for each metric of its quantity.

    The panels hold bars where the runs are alternatives at one setting, else lines.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    names, quantity = figure["implementations"], figure["quantity"]
    for curve in sweep.benchmark.curves:
        if curve.name == quantity:
            return draw_curves(sweep, languages, names, curve)
    if sweep.is_of_problems:
        return draw_problems(sweep, languages, names, sweep.benchmark.panels(quantity))
    if sweep.has_alternatives:
        return draw_bars(sweep, languages, names, sweep.benchmark.panels(quantity))
    return _draw_lines(sweep, languages, figure)


def _draw_lines(sweep: Sweep, languages: Sequence[str], figure: Mapping[str, Any]) -> Figure:
    """A panel for each metric of a quantity, with a line for each implementation and variant."""
    metrics = sweep.benchmark.panels(figure["quantity"])
    quantity = metrics[0].quantity
    data = with_levels(line_frame(sweep, figure["implementations"], metrics, languages))
    explained = explain_failures(data, sweep.parameter.symbol, sweep.values, languages, HALF_INCHES)
    relative = quantity.exact and quantity.logarithmic and _coincide(data)
    if relative:
        data = _relative_to_least(data)
    entries = [e for e in sweep.plan["implementations"] if e["name"] in figure["implementations"]]
    emphasised = emphasised_of(data, sweep.plan["emphasised"])
    shades = shades_of(entries, emphasised)
    grid = facet_grid(
        data, entries, emphasised, row="metric", row_order=[metric.name for metric in metrics]
    )
    grid.map_dataframe(draw_lines)
    panels = grid.axes[:, 0]

    ticks = [
        "\n".join([str(value), *along])
        for value, along in zip(sweep.values, label_covaried(sweep), strict=True)
    ]
    titles = [
        title_lines(metric, languages, HALF_INCHES, LABEL_POINTS, relative=relative)
        for metric in metrics
    ]
    marks = MARK_POINTS * int(data["level"].nunique())
    head = (marks + 3 + LABEL_POINTS * 1.25 * max(map(len, titles))) / POINTS
    above = head + LINE_POINTS * len(explained) / POINTS
    below = (16 + LINE_POINTS * len(ticks[0].split("\n"))) / POINTS
    inner = HEIGHT_INCHES - head * len(panels) - below
    labels = stack_inches(len(data.drop_duplicates(LINE)))
    height = max(inner / len(panels), labels, 0.4)
    if data["value"].notna().any():
        scale_values(panels[0], quantity.logarithmic, height)
        left = tick_inches(panels[0]) + 6 / POINTS
    else:
        panels[0].yaxis.set_major_locator(ticker.NullLocator())
        left = 0.2
    gap = (head + 3 / POINTS) * (len(panels) - 1)
    place_panels(
        grid.figure,
        HALF_INCHES,
        height * len(panels) + gap,
        (left, gutter_inches(data), below, above),
        hspace=(head + 3 / POINTS) / height,
    )
    for axes, metric, title in zip(panels, metrics, titles, strict=True):
        scale_sizes(axes, sweep.values, ticks)
        write_title(axes, title, LABEL_POINTS, marks + 3)
        shown = data[data["metric"] == metric.name]
        mark_failures(axes, shown, shades)
        label_ends(axes, shown, shades)
    panels[-1].set_xlabel(label_parameter(sweep.parameter, languages), labelpad=1.5)
    write_explanations(grid.figure, explained, shades)
    drawn: Figure = grid.figure
    return drawn


def draw_figures(plan_file: Path, tables: Path, languages_file: Path, output: Path) -> None:
    """Draw the figures of the experiment planned in `plan_file` as ``output/<id>.svg``.

    Beside them are the small figures of `draw_rows`. A title is drawn as `legible_plan` gives it;
    any other character that the vendored fonts lack is an error. The files are the same at every
    call.

    Args:
        plan_file: ``plan/experiments/<name>.json``.
        tables: folder of all experiments' tables.
        languages_file: ``plan/languages.json``.
        output: folder to draw into.
    """
    plan = legible_plan(read_json(plan_file))
    benchmark = find_benchmark(plan["benchmark"])
    curves = {curve.name for curve in benchmark.curves}
    has_curves = any(figure["quantity"] in curves for figure in plan["figures"])
    sweep = read_sweep(plan, tables, with_samples=has_curves)
    languages = read_json(languages_file)
    with drawing():
        for figure in sweep.plan["figures"]:
            save(draw(sweep, languages, figure), output / f"{figure['id']}.svg")
        for name, drawn in draw_rows(sweep, languages):
            save(drawn, output / f"{name}.svg")
