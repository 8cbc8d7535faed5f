"""The heat map of speedups: a row for each shape, a column for each implementation and pass."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from flashlab.catalogs import SYMBOLS, in_all
from flashlab.figures.panels import PASSES, Panel
from flashlab.figures.style import LABEL_POINTS, PAGE_INCHES, colour, implementation_id

ROWS_OF_A_PAGE = 50
DOUBLINGS = 3.0
"""Where the colours end: 8 times and an eighth."""

SMALL = LABEL_POINTS - 1.8
ROW_INCHES = 0.152
LEFT_INCHES = 1.9
HEADER_INCHES = 0.42
BLOCK_GAP_INCHES = 0.1

SHADES = LinearSegmentedColormap.from_list(
    "speed", ["#A6500A", "#E9A86A", "#F7F7F7", "#7FB3D9", "#10538A"]
)
"""Orange for slower and blue for faster, which the colour-vision deficiencies leave apart."""

EMPTY = "#EDEDED"


@dataclass(frozen=True)
class Row:
    """One shape of an experiment."""

    panel: Panel
    mask: str
    value: int


@dataclass(frozen=True)
class Cell:
    """A ratio and whether it is decided, or the status that left none."""

    ratio: float | None
    decided: bool
    status: str


def heat_map_pages(panels: Sequence[Panel]) -> list[list[Row]]:
    """The rows of each page; an experiment's stay together."""
    pages: list[list[Row]] = [[]]
    for panel in panels:
        rows = [Row(panel, mask, value) for mask in panel.masks for value in panel.values]
        if pages[-1] and len(pages[-1]) + len(rows) > ROWS_OF_A_PAGE:
            pages.append([])
        pages[-1].extend(rows)
    return pages


def cell_of(row: Row, name: str, timed: str) -> Cell:
    """What the findings say of an implementation at this shape."""
    for estimate in row.panel.ratios("speedup", name, timed, row.mask):
        if estimate["value"] == row.value:
            return Cell(estimate["estimate"], estimate["verdict"] in ("above", "below"), "")
    baseline = row.panel.plan["baseline"]
    return Cell(
        None,
        False,
        row.panel.status(name, row.mask, row.value)
        or row.panel.status(baseline, row.mask, row.value),
    )


def _printed(ratio: float) -> str:
    return f"{ratio:#.3g}" if ratio < 100 else f"{ratio:.0f}"


def _ink(fill: Any) -> str:
    red, green, blue = to_rgb(fill)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "#1c1c1c"


def _in_lines(name: str) -> str:
    """SdpaEfficient in two lines, so that it fits its column."""
    return "\n".join(re.findall(r"[A-Z][a-z0-9]*|.+", name))


def _draw_cell(
    axes: Axes, name: str, cell: Cell, corner: tuple[float, float], width: float
) -> None:
    x, y = corner
    fill: Any = EMPTY
    if cell.ratio is not None:
        fill = SHADES(Normalize(-DOUBLINGS, DOUBLINGS)(math.log2(cell.ratio)))[:3]
    box = Rectangle(corner, width - 0.012, ROW_INCHES - 0.012, facecolor=fill, linewidth=0)
    axes.add_patch(box)
    text = axes.text(
        x + width / 2,
        y + ROW_INCHES / 2,
        "×" if cell.ratio is None else _printed(cell.ratio),
        fontsize=SMALL,
        fontweight="bold" if cell.decided else "normal",
        color=_ink(fill),
        ha="center",
        va="center_baseline",
    )
    implementation_id(axes, name, [box, text])


def draw_heat_map(
    rows: Sequence[Row], implementations: Sequence[Mapping[str, Any]], languages: Sequence[str]
) -> Figure:
    """Speed against the baseline: bold where the difference is decided, × where there is none."""
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: id(row.panel))]
    height = HEADER_INCHES + ROW_INCHES * (len(rows) + 0.45 * len(groups))
    width = (PAGE_INCHES - LEFT_INCHES - BLOCK_GAP_INCHES) / (len(PASSES) * len(implementations))
    figure = plt.figure(figsize=(PAGE_INCHES, height))
    axes = figure.add_axes((0, 0, 1, 1))  # in inches, from the upper left corner
    axes.set(xlim=(0, PAGE_INCHES), ylim=(height, 0))
    axes.set_axis_off()
    starts = [
        LEFT_INCHES + block * (width * len(implementations) + BLOCK_GAP_INCHES)
        for block in range(len(PASSES))
    ]
    for start, timed in zip(starts, PASSES, strict=True):
        middle = start + width * len(implementations) / 2
        title = in_all(languages, "figures", timed)
        axes.text(middle, 0.07, title, fontweight="bold", ha="center", va="center")
        for column, entry in enumerate(implementations):
            head = axes.text(
                start + (column + 0.5) * width,
                HEADER_INCHES - 0.02,
                _in_lines(entry["name"]),
                fontsize=SMALL - 0.4,
                fontweight="bold",
                color=colour(entry["style"]),
                linespacing=1.0,
                ha="center",
                va="bottom",
            )
            implementation_id(axes, entry["name"], [head])
    y = HEADER_INCHES
    for group in groups:
        panel = group[0].panel
        title = "\n".join(dict.fromkeys(panel.plan["title"][language] for language in languages))
        axes.text(0, y, title, fontsize=SMALL, fontweight="bold", linespacing=1.2, va="top")
        for row in group:
            mask = f"{in_all(languages, 'figures', row.mask)}, " if len(panel.masks) > 1 else ""
            axes.text(
                LEFT_INCHES - 0.06,
                y + ROW_INCHES / 2,
                f"{mask}{SYMBOLS[panel.sweep]} = {row.value}",
                fontsize=SMALL,
                ha="right",
                va="center_baseline",
            )
            for start, timed in zip(starts, PASSES, strict=True):
                for column, entry in enumerate(implementations):
                    cell = cell_of(row, entry["name"], timed)
                    _draw_cell(axes, entry["name"], cell, (start + column * width, y), width)
            y += ROW_INCHES
        y += 0.45 * ROW_INCHES
    return figure
