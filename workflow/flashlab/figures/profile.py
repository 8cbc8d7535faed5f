"""A ladder's profile: the share of its limit that each unit reaches, and what falls by steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.figures.labels import in_words
from flashlab.figures.style import (
    GREY,
    LINE_POINTS,
    TITLE_HEIGHT,
    WIDE,
    lay_out,
    new_panels,
    spread,
    text_points,
    title_panel,
    write,
)
from flashlab.story.ladder import COUNTED, LIMIT, UNITS, Ladder

LEAST = 3
"""The fewest counted steps of which there is a profile."""

UNSEEN = 0.05
"""Up to which share a unit that never does more is left out."""

HEIGHT, SLANT = 150.0, 35
"""A panel's height in points, and the angle of the steps' names below it."""

LOOKS = {
    **{"issue": ("#0061E0", "o"), "shared": ("#AB1700", "s"), "fp32": ("#B8561F", "^")},
    **{"tensor": ("#4B005F", "D"), "dram": ("#5A6B2F", "v"), "time": ("#1C1C1C", "o")},
    **{"instructions": ("#0061E0", "o"), "shared_bytes": ("#AB1700", "s")},
    "global_load_bytes": ("#5A6B2F", "v"),
}
"""The colour and the marker of each line; a counter has those of the unit that it loads."""


def draw_profile(d: Ladder, languages: Sequence[str]) -> Figure | None:
    """Two panels over the counted steps; None of fewer than `LEAST`.

    On the left each unit's share of its limit, in percent, with the limit and `story.ladder.LIMIT`
    as lines; on the right the kernel's time and its counts, as parts of the first step's.
    """
    counted = d.counters
    if len(counted) < LEAST:
        return None
    shares = {u: 100 * counted[u].dropna() for u in UNITS if counted[u].max() > UNSEEN}
    falls = {"time": pd.Series(d.kernels)[counted.index]}
    falls |= {c: counted[c][counted[c] > 0] for c in COUNTED if c in LOOKS}
    parts = {name: values / values.iloc[0] for name, values in falls.items() if len(values)}
    figure, ((left, right),) = new_panels(WIDE, 1, 2)
    words = {name: in_words(f"profile.{name}", languages) for name in LOOKS}
    for axes, lines, title in ((left, shares, "shares"), (right, parts, "falls")):
        _draw(axes, lines, [*map(str, counted.index)])
        title_panel(axes, in_words(f"profile.{title}", languages))
    left.set_ylim(0, 105)
    left.axhline(100, color=GREY, linewidth=1.0)
    left.axhline(100 * LIMIT, color=GREY, linewidth=0.7, linestyle=(0, (3, 2)))
    for place, name in enumerate(map(str, counted.index)):
        if unit := d.units.get(name):
            share, colour = shares[unit][name], LOOKS[unit][0]
            write(left, f"{share:.0f}", (place, share), (0, 6), color=colour, ha="center")
    right.set_yscale("log")
    least = math.floor(math.log10(min(values.min() for values in parts.values())))
    right.yaxis.set_major_locator(FixedLocator([10.0**power for power in range(least, 1)]))
    right.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"1/{1 / v:,.0f}" if v < 1 else "1"))
    right.yaxis.set_minor_locator(NullLocator())
    names, slant = [text_points(str(name)) for name in counted.index], math.radians(SLANT)
    before, below = names[0] * math.cos(slant), max(names) * math.sin(slant) + LINE_POINTS
    room = max(text_points(word) for word in words.values()) + 14
    lay_out(figure, HEIGHT, (before, room, TITLE_HEIGHT, below))
    for axes, lines in ((left, shares), (right, parts)):
        _name_ends(axes, lines, words)
    return figure


def _draw(axes: Axes, lines: Mapping[str, pd.Series[float]], names: Sequence[str]) -> None:
    for line, values in lines.items():
        colour, marker = LOOKS[line]
        width = 1.8 if line == "time" else 1.2
        places = [names.index(str(name)) for name in values.index]
        axes.plot(places, values, color=colour, marker=marker, markersize=3, linewidth=width)
    axes.set_xticks(range(len(names)), names, rotation=SLANT, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.4, len(names) - 0.6)


def _name_ends(axes: Axes, lines: Mapping[str, pd.Series[float]], words: Mapping[str, str]) -> None:
    """Write the name of each line beside its end, clear of the others."""
    to_axes = axes.transData - axes.transAxes
    last = axes.get_xlim()[1]
    heights = {n: float(to_axes.transform((last, v.iloc[-1]))[1]) for n, v in lines.items()}
    order = sorted(heights, key=lambda name: heights[name])
    extent = LINE_POINTS / (axes.get_window_extent().height * 72 / axes.figure.dpi)
    places = spread([heights[name] for name in order], extent)
    for name, place in zip(order, np.asarray(places), strict=True):
        colour = LOOKS[name][0]
        write(axes, words[name], (1, float(place)), (8, 0), "axes fraction", color=colour)
        ends = [heights[name], float(place)]
        axes.plot([1, 1.03], ends, transform=axes.transAxes, color=colour, lw=0.5, clip_on=False)
