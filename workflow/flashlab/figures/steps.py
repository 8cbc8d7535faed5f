"""Steps of a ladder along an axis of their names: times, shares of limits, and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.figures import style
from flashlab.figures.lines import End, name_ends
from flashlab.figures.style import Look, Style

PANEL_POINTS = 125.0
LOOKS = {
    **{"issue": Look(style.COLOURS[1], "o"), "shared": Look(style.COLOURS[0], "s")},
    **{
        "fp32": Look("#B8561F", "^"),
        "tensor": Look(style.COLOURS[7], "D"),
        "dram": Look("#5A6B2F", "v"),
    },
    **{"kernel_time": Look(style.INK, "o"), "instructions": Look(style.COLOURS[1], "o")},
    **{"shared_bytes": Look(style.COLOURS[0], "s"), "global_load_bytes": Look("#5A6B2F", "v")},
    **{"host_time": Look("#29A385", "D"), "process_time": Look(style.COLOURS[7], "s")},
}
"""Of each unit, count and clock; what is counted looks like the unit that does it."""


@dataclass(frozen=True)
class Steps:
    """A panel.

    Attributes:
        title: its title.
        table: a row a step, a column for each line (of `LOOKS`); missing where a step has none.
        names: of the lines.
        text: a value in print.
        limits: in percent, with their names, from which on the axis is linear up to 100.
        limiting: the line that limits a step, where one does, whose value is printed there.
        ends: whether the last values are printed beside the names.
    """

    title: str
    table: pd.DataFrame
    names: Mapping[str, str]
    text: Callable[[float], str]
    limits: Mapping[float, str] = field(default_factory=dict)
    limiting: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False


def draw_steps(panels: Sequence[Steps]) -> Figure:
    """A figure of steps, with panels side by side."""
    figure, (grid,) = style.new_panels(style.WIDE, 1, len(panels))
    ends = [_draw(axes, panel) for axes, panel in zip(grid, panels, strict=True)]
    names = style.widest(map(str, panels[0].table.index))
    beside = style.widest((end.text for each in ends for end in each), "bold") + 6
    before = max(0.6 * names, *(style.tick_points(axes.yaxis) for axes in grid))
    style.lay_out(figure, PANEL_POINTS, (before, beside, style.TITLE_HEIGHT, 0.65 * names + 12))
    for axes, of_panel in zip(grid, ends, strict=True):
        name_ends(axes, of_panel)
    return figure


def _draw(axes: Axes, panel: Steps) -> list[End]:
    """A panel's lines, and their ends, those of its limits among them."""
    steps, right = [*map(str, panel.table.index)], len(panel.table) - 0.7
    grey = Look(style.GREY, "", False)
    ends = [End(name, grey, (right, at)) for at, name in panel.limits.items()]
    for name, column in panel.table.dropna(axis=1, how="all").items():
        look, label = LOOKS[str(name)], panel.names[str(name)]
        places = np.flatnonzero(column.notna())
        (line,) = axes.plot(places, column.iloc[places], clip_on=False, **look.mark())
        line.set(color=look.shade, lw=2.0 if name == "kernel_time" else 1.3)
        texts = [panel.text(value) for value in column.iloc[places]]
        titles = (f"{label}, {steps[i]}: {t}" for i, t in zip(places, texts, strict=True))
        style.title_points(line, titles)
        last = float(places[-1]), float(column.iloc[places[-1]])
        ends.append(End(f"{label} {texts[-1]}" if panel.ends else label, look, last))
    for share in panel.limits:
        dashes = "-" if share == 100 else (0, (3, 2))
        axes.axhline(share, color=style.GREY, lw=0.7, ls=dashes, zorder=1.5)
    for step, name in panel.limiting.items():
        at = float(panel.table[name][step])
        number: Style = {"ha": "center", "va": "bottom", **LOOKS[name].text}
        style.write(axes, panel.text(at).rstrip("%"), (steps.index(step), at), (0, 3), **number)
    if panel.limits:
        axes.set_ylim(0, 104)
        style.scale_linearly(axes.yaxis, 5)
    else:
        low, high = panel.table.min().min(), panel.table.max().max()
        style.scale_logarithmically(axes.yaxis, low / 1.6, high * 1.6, most=5)
        if not panel.ends:
            axes.yaxis.set_major_formatter(lambda value, _: panel.text(value))
    axes.set_xticks(range(len(steps)), steps, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.3, right)
    axes.grid(False, axis="x")
    style.title_panel(axes, panel.title)
    return ends
