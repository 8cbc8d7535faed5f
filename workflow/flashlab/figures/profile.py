"""The ladder's profile: what each unit does of its limit, and what falls from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from flashlab.figures.lines import End, name_ends, spread_ends
from flashlab.figures.style import (
    COLOURS,
    GREY,
    INK,
    MARKERS,
    WIDE,
    Look,
    lay_out,
    new_panels,
    scale_linearly,
    scale_logarithmically,
    title_panel,
    title_points,
    write,
)

HEIGHT_INCHES = 2.9
LOOKS = {
    **{name: Look(COLOURS[style], MARKERS[style]) for name, style in (("issue", 1), ("shared", 0))},
    **{"fp32": Look("#B8561F", "^"), "tensor": Look(COLOURS[7], "D"), "dram": Look("#5A6B2F", "v")},
    **{"time": Look(INK, "o"), "instructions": Look(COLOURS[1], "o")},
    **{"shared_bytes": Look(COLOURS[0], "s"), "global_load_bytes": Look("#5A6B2F", "v")},
}
"""Of each unit, and of each count; what is counted looks like the unit that does it."""


@dataclass(frozen=True)
class Words:
    """The titles of the panels in each language, and the names of lines and of limits."""

    shares: Sequence[str]
    falls: Sequence[str]
    names: Mapping[str, str]
    limit: str


def draw_profile(
    shares: pd.DataFrame,
    near: float,
    limiting: Mapping[str, str],
    falls: pd.DataFrame,
    words: Words,
) -> Figure:
    """The profile of a ladder.

    Args:
        shares: of each unit's limit (a column of `LOOKS` each), by step.
        near: the share from which on a unit limits a step.
        limiting: the unit that limits a step, where one does.
        falls: of the time and of counts (a column of `LOOKS` each), as shares of the first, by
            step; missing where a step has none.
        words: those of the figure.
    """
    figure, ((left, right),) = new_panels((WIDE, HEIGHT_INCHES), 1, 2)
    ends = {left: _draw(left, 100 * shares, "%", words), right: _draw(right, falls, "×", words)}
    steps = list(shares.index)
    for share, style, text in ((100.0, "-", words.limit), (100 * near, (0, (3, 2)), f"{near:.0%}")):
        left.axhline(share, color=GREY, lw=1.2 if share == 100 else 0.7, ls=style, zorder=1.5)
        write(left, text, (1, share), (3, 0), ("axes fraction", "data"), color=GREY)
    for step, unit in limiting.items():
        share = 100 * float(shares.at[step, unit])
        style = {"ha": "center", "va": "bottom", "color": LOOKS[unit].text}
        write(left, f"{share:.0f}", (steps.index(step), share), (0, 3), **style)
    left.set_ylim(0, 104)
    scale_linearly(left.yaxis, 5)
    least = float(falls.min().min())
    scale_logarithmically(right.yaxis, least / 1.8, 1.6, most=5)
    right.yaxis.set_major_formatter(FuncFormatter(_fraction))
    for axes, title in ((left, words.shares), (right, words.falls)):
        rotated = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(steps)), steps, **rotated)
        axes.set_xlim(-0.3, len(steps) - 0.7)
        axes.grid(False, axis="x")
        title_panel(axes, title, WIDE / 2 - 0.3)
    lay_out(figure)
    for axes, named in ends.items():
        spread_ends(axes, named)
    return figure


def _draw(axes: Axes, table: pd.DataFrame, unit: str, words: Words) -> list[End]:
    """The lines of a table's columns; their ends, written beside the panel."""
    data = table.reset_index(drop=True).melt(ignore_index=False, var_name="name").dropna()
    names = list(data["name"].unique())
    sns.lineplot(
        data,
        **{"x": data.index, "y": "value", "hue": "name", "style": "name", "dashes": False},
        **{"palette": {n: LOOKS[n].shade for n in names}, "legend": False, "ax": axes},
        **{"markers": {n: LOOKS[n].marker for n in names}, "estimator": None},
    )
    axes.set(xlabel="", ylabel="")
    ends = []
    for line, name in zip(axes.lines, names, strict=True):
        rows = data[data.name == name]["value"]
        line.set(**LOOKS[name].mark(), linewidth=2.0 if name == "time" else 1.3, clip_on=False)
        titles = [
            f"{words.names[name]}, {table.index[at]}: "
            + (f"{value:.0f}%" if unit == "%" else _fraction(value))
            for at, value in rows.items()
        ]
        title_points(line, titles)
        ends.append(End(words.names[name], name, float(rows.index[-1]), float(rows.iloc[-1])))
    return name_ends(axes, ends, LOOKS)


def _fraction(value: float, _: int = 0) -> str:
    """``1/100``."""
    return "1" if value > 0.99 else f"1/{1 / value:,.0f}"
