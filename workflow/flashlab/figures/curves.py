"""Curves: the values of runs step by step, and below them the differences from the naive one's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from flashlab.analysis.experiment import Sweep
from flashlab.benchmarks.model import Curve
from flashlab.figures.labels import capitalised, in_languages, label_variant
from flashlab.figures.lines import LINE_POINTS, write_title
from flashlab.figures.placement import POINTS, wrap_texts
from flashlab.figures.style import (
    GREY,
    HALF_INCHES,
    LABEL_POINTS,
    as_number,
    colour,
    draw_legend,
    name_artists,
    place_panels,
    tick_inches,
    variant_style,
)
from flashlab.telling.catalogs import message

UPPER_INCHES, LOWER_INCHES = 1.0, 0.7


@dataclass(frozen=True)
class _Line:
    """The curve of a run: its implementation, its variant, and its position in the sweep."""

    name: str
    variant: int
    position: int
    values: Sequence[float]


def _lines(sweep: Sweep, names: Sequence[str], curve: Curve) -> Iterator[_Line]:
    for run in sweep.ordered:
        values = sweep.curve_of(run, curve.name)
        if run["implementation"] in names and run["status"] == "ok" and values:
            yield _Line(
                run["implementation"],
                sweep.variants.index(sweep.variant_of(run)),
                sweep.values.index(sweep.value_of(run)),
                values,
            )


def _titles(curve: Curve, sweep: Sweep, languages: Sequence[str]) -> list[list[str]]:
    """The titles of both panels; the second names the run that the curves differ from."""
    texts = [f"{in_languages(capitalised(curve.labels), languages)} ({curve.unit})"]
    first = f"{sweep.parameter.symbol} = {sweep.values[0]}" if len(sweep.values) > 1 else ""
    differences = {}
    for language in languages:
        setting = first or label_variant(sweep.benchmark, sweep.variants[0], [language])
        reference = f"{sweep.baseline} [{setting}]" if setting else sweep.baseline
        differences[language] = message(language, "figures", "difference").format(
            reference=reference
        )
    texts.append(in_languages(differences, languages))
    return [wrap_texts([text], LABEL_POINTS, HALF_INCHES, bold=True) for text in texts]


def draw_curves(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], curve: Curve
) -> Figure:
    """The curves of an experiment, and their differences from the first one of the baseline."""
    lines = list(_lines(sweep, names, curve))
    first = next((line for line in lines if line.name == sweep.baseline), None)
    entries = {entry["name"]: entry for entry in sweep.plan["implementations"]}
    titles = _titles(curve, sweep, languages)
    figure, (upper, lower) = plt.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [UPPER_INCHES, LOWER_INCHES]}
    )
    for line in lines:
        style = variant_style(line.variant, colour(entries[line.name]))
        look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 0.8}
        steps = np.arange(1, len(line.values) + 1)
        name_artists(line.name, upper.plot(steps, line.values, alpha=0.85, **look))
        if first is not None and line is not first:
            count = min(len(line.values), len(first.values))
            away = np.subtract(line.values[:count], first.values[:count])
            name_artists(line.name, lower.plot(steps[:count], away, alpha=0.85, **look))
    lower.axhline(0, color=GREY, linewidth=0.6, linestyle=(0, (4, 2)))
    lower.set_xlabel(in_languages(capitalised(curve.along), languages), labelpad=1.5)
    for axes in (upper, lower):
        axes.yaxis.set_major_formatter(FuncFormatter(as_number))
    handles = _handles(sweep, lines, languages)
    legend = draw_legend(figure, handles, HALF_INCHES)
    head = (3 + LABEL_POINTS * 1.25 * max(map(len, titles))) / POINTS
    below = (18 + LINE_POINTS) / POINTS + legend
    left = max(tick_inches(axes) for axes in (upper, lower)) + 8 / POINTS
    gap = head + 4 / POINTS
    inner = UPPER_INCHES + LOWER_INCHES
    place_panels(
        figure,
        HALF_INCHES,
        inner + gap,
        (left, 6 / POINTS, below, head),
        hspace=gap / (inner / 2),
    )
    for axes, title in zip((upper, lower), titles, strict=True):
        write_title(axes, title, LABEL_POINTS, 3)
    return figure


def _handles(sweep: Sweep, lines: Sequence[_Line], languages: Sequence[str]) -> list[Line2D]:
    """The colours of the implementations, and the dashes of the variants."""
    entries = {entry["name"]: entry for entry in sweep.plan["implementations"]}
    names = dict.fromkeys(line.name for line in lines)
    handles = [Line2D([], [], label=name, color=colour(entries[name])) for name in names]
    if len(sweep.variants) > 1:
        handles += [
            Line2D(
                [],
                [],
                label=label_variant(sweep.benchmark, variant, languages),
                color=GREY,
                linestyle=variant_style(position, GREY)["linestyle"],
            )
            for position, variant in enumerate(sweep.variants)
        ]
    return handles
