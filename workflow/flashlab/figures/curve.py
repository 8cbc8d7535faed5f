"""A curve: the values of runs step by step, and below them the differences from the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from flashlab.figures.style import (
    DASHES,
    GREY,
    HALF,
    LINE_POINTS,
    TITLE_HEIGHT,
    Look,
    Style,
    handle,
    lay_out,
    new_panels,
    scale_linearly,
    tick_points,
    title_panel,
)

HEIGHTS = (72.0, 50.0)
"""Of the two panels, in points."""


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
    dashes = dict(enumerate(DASHES[: len(variants)]))
    legend = [handle(name, color=looks[name].shade) for name in shown]
    if len(variants) > 1:
        pairs = zip(variants, dashes.values(), strict=False)
        legend += [handle(words, color=GREY, ls=(0, each or None)) for words, each in pairs]
    figure, grid = new_panels(HALF, 2, sharex=True, height_ratios=HEIGHTS)
    upper, lower = grid[:, 0]
    drawn: Style = {"palette": {name: looks[name].shade for name in shown}, "dashes": dashes}
    drawn |= {"units": "run", "estimator": None, "legend": False, "linewidth": 0.8, "alpha": 0.85}
    keys: Style = {"x": "step", "y": "value", "hue": "implementation", "style": "variant"}
    for axes, values, title in ((upper, data["value"], titles[0]), (lower, difference, titles[1])):
        sns.lineplot(data.assign(value=values).dropna(subset="value"), ax=axes, **keys, **drawn)
        axes.set(xlabel="", ylabel="")
        scale_linearly(axes.yaxis, 3)
        title_panel(axes, title)
    lower.axhline(0, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1.5)
    lower.set_xlabel(along)
    left = max(tick_points(axes.yaxis) for axes in (upper, lower))
    margins = (left, 4.0, TITLE_HEIGHT, 2.7 * LINE_POINTS)
    lay_out(figure, sum(HEIGHTS) / 2, margins, legend)
    return figure
