"""A curve: the values of runs step by step, and below them the differences from the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from flashlab.figures import style
from flashlab.figures.style import Look, Style

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
    legend = [style.handle(name, color=looks[name].shade) for name in shown]
    if len(variants) > 1:
        pairs = zip(variants, style.DASHES, strict=False)
        legend += [style.handle(words, color=style.GREY, ls=dashes) for words, dashes in pairs]
    figure, grid = style.new_panels(style.HALF, 2, sharex=True, height_ratios=HEIGHTS)
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
    style.lay_out(figure, sum(HEIGHTS) / 2, margins, legend)
    return figure
