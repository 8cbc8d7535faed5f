"""Steps of a ladder along an axis of their names: times, shares of limits, and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from flashlab.figures.lines import End, name_ends
from flashlab.figures.style import (
    COLOURS,
    GREY,
    INK,
    TITLE_HEIGHT,
    WIDE,
    Look,
    Style,
    lay_out,
    new_panels,
    scale_linearly,
    scale_logarithmically,
    tick_points,
    title_panel,
    title_points,
    widest,
    write,
)

PANEL_POINTS = 125.0
LOOKS = {
    **{"issue": Look(COLOURS[1], "o"), "shared": Look(COLOURS[0], "s")},
    **{"fp32": Look("#B8561F", "^"), "tensor": Look(COLOURS[7], "D"), "dram": Look("#5A6B2F", "v")},
    **{"kernel_time": Look(INK, "o"), "instructions": Look(COLOURS[1], "o")},
    **{"shared_bytes": Look(COLOURS[0], "s"), "global_load_bytes": Look("#5A6B2F", "v")},
    **{"host_time": Look("#29A385", "D"), "process_time": Look(COLOURS[7], "s")},
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
    figure, (grid,) = new_panels(WIDE, 1, len(panels))
    ends = [_draw(axes, panel) for axes, panel in zip(grid, panels, strict=True)]
    names = widest(map(str, panels[0].table.index))
    beside = widest((end.text for each in ends for end in each), "bold") + 6
    before = max(0.6 * names, *(tick_points(axes.yaxis) for axes in grid))
    lay_out(figure, PANEL_POINTS, (before, beside, TITLE_HEIGHT, 0.65 * names + 12))
    for axes, of_panel in zip(grid, ends, strict=True):
        name_ends(axes, of_panel)
    return figure


def _draw(axes: Axes, panel: Steps) -> list[End]:
    """A panel's lines, and their ends, those of its limits among them."""
    steps = [*map(str, panel.table.index)]
    data = panel.table.reset_index(drop=True).melt(ignore_index=False, var_name="name").dropna()
    data = data.rename_axis("step").reset_index()
    names, right = list(data["name"].unique()), len(steps) - 0.7
    shapes: Style = {"palette": {n: LOOKS[n].shade for n in names}, "dashes": False}
    shapes |= {"markers": {n: LOOKS[n].marker for n in names}, "legend": False, "estimator": None}
    sns.lineplot(data, x="step", y="value", hue="name", style="name", ax=axes, **shapes)
    ends = [End(name, Look(GREY, "", False), (right, at)) for at, name in panel.limits.items()]
    for line, name in zip(axes.lines, names, strict=True):
        rows, label = data[data["name"] == name], panel.names[name]
        line.set(
            **LOOKS[name].mark(), linewidth=2.0 if name == "kernel_time" else 1.3, clip_on=False
        )
        texts = [panel.text(value) for value in rows["value"]]
        title_points(
            line, [f"{label}, {steps[i]}: {t}" for i, t in zip(rows.step, texts, strict=True)]
        )
        last = float(rows.step.iloc[-1]), float(rows["value"].iloc[-1])
        ends.append(End(f"{label} {texts[-1]}" if panel.ends else label, LOOKS[name], last))
    for share in panel.limits:
        axes.axhline(share, color=GREY, lw=0.7, ls="-" if share == 100 else (0, (3, 2)), zorder=1.5)
    for step, name in panel.limiting.items():
        at = float(panel.table[name][step])
        number: Style = {"ha": "center", "va": "bottom", **LOOKS[name].text}
        write(axes, panel.text(at).rstrip("%"), (steps.index(step), at), (0, 3), **number)
    if panel.limits:
        axes.set_ylim(0, 104)
        scale_linearly(axes.yaxis, 5)
    else:
        low, high = data["value"].min(), data["value"].max()
        scale_logarithmically(axes.yaxis, low / 1.6, high * 1.6, most=5)
        if not panel.ends:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: panel.text(value)))
    axes.set_xticks(range(len(steps)), steps, rotation=40, ha="right", rotation_mode="anchor")
    axes.set(xlabel="", ylabel="", xlim=(-0.3, right))
    axes.grid(False, axis="x")
    title_panel(axes, panel.title)
    return ends
