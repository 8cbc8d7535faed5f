"""The heat map of comparisons: a row for each size, a column for each metric and implementation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.figure import Figure

from flashlab.benchmarks.model import Metric
from flashlab.figures.comparisons import Comparisons
from flashlab.figures.labels import label_covaried, label_variant, title_experiment, title_metric
from flashlab.figures.style import (
    LABEL_POINTS,
    PAGE_INCHES,
    POINTS,
    colour,
    facet_grid,
    name_artists,
    place_panels,
)
from flashlab.sweep import Sweep, Variant

ROWS_OF_A_PAGE = 50
COLUMNS_OF_A_PAGE = 14
DOUBLINGS = 3.0
"""Where the colours end: 8 times and an eighth."""

SMALL = LABEL_POINTS - 1.8
ROW_INCHES = 0.152
TITLE_ROWS = 0.7
"""Rows that a line of a block's title is as high as."""

GAP_INCHES = 0.07
LEFT_INCHES = 2.15
TITLE_LETTERS = 34
"""Letters of a title that fit beside the rows' labels."""

HEADER_INCHES = 0.42

SHADES = LinearSegmentedColormap.from_list(
    "ratios", ["#A6500A", "#E9A86A", "#F7F7F7", "#7FB3D9", "#10538A"]
).with_extremes(bad="#EDEDED")
"""Orange for worse and blue for better, which the colour-vision deficiencies leave apart."""


@dataclass(frozen=True)
class Block:
    """An experiment's rows of one variant, which is the `position`-th of all."""

    sweep: Sweep
    variant: Variant
    position: int

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return f"{self.sweep.name} {self.position}"

    @property
    def row_labels(self) -> list[str]:
        """The sizes of its rows: ``E = 1024, d = 32``."""
        symbol = self.sweep.parameter.symbol
        return [
            ", ".join([f"{symbol} = {size}", *along])
            for size, along in zip(self.sweep.values, label_covaried(self.sweep), strict=True)
        ]

    def title(self, languages: Sequence[str]) -> list[str]:
        """The experiment's title, which only the first of its blocks has."""
        if self.variant != self.sweep.variants[0]:
            return []
        return title_experiment(self.sweep, languages, TITLE_LETTERS)

    def variant_label(self, languages: Sequence[str]) -> list[str]:
        """The variant, where the experiment has more than one."""
        if len(self.sweep.variants) == 1:
            return []
        return [label_variant(self.sweep.benchmark, self.variant, languages)]


@dataclass(frozen=True)
class Page:
    """What one heat map shows."""

    blocks: Sequence[Block]
    metrics: Sequence[Metric]


def heat_map_pages(compared: Comparisons) -> list[Page]:
    """The sampled metrics on as many pages as they need; an experiment's blocks stay together."""
    blocks: list[list[Block]] = [[]]
    rows = 0
    for sweep in compared.sweeps:
        more = len(sweep.variants) * len(sweep.values)
        if rows and rows + more > ROWS_OF_A_PAGE:
            blocks.append([])
            rows = 0
        blocks[-1] += [Block(sweep, v, compared.variants.index(v)) for v in sweep.variants]
        rows += more
    metrics = [metric for metric in compared.metrics if not metric.exact]
    count = max(1, COLUMNS_OF_A_PAGE // len(compared.entries))
    shares = [metrics[start : start + count] for start in range(0, len(metrics), count)]
    return [Page(part, share) for part in blocks for share in shares]


def _printed(ratio: float) -> str:
    return f"{ratio:#.3g}" if ratio < 100 else f"{ratio:.0f}"


def _ink(fill: Any) -> str:
    red, green, blue = to_rgb(fill)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "#1c1c1c"


def _in_lines(name: str) -> str:
    """SdpaEfficient in two lines, so that it fits its column."""
    return "\n".join(re.findall(r"[A-Z][a-z0-9]*|.+", name))


def _draw_cells(
    data: pd.DataFrame, color: str, marker: str, label: str, columns: Sequence[str]
) -> None:
    """The cells of an implementation in the current block: its column."""
    axes, left = plt.gca(), columns.index(label)
    shares = Normalize(-DOUBLINGS, DOUBLINGS)(np.log2(data["ratio"]))
    fills = SHADES(np.ma.masked_invalid(shares))
    cells = axes.barh(data["rank"], 0.97, 0.92, left + 0.015, color=fills, linewidth=0)
    name_artists(label, cells)
    for cell, fill in zip(data.to_dict("records"), fills, strict=True):
        missing = "×" if cell["failed"] else "–"
        text = axes.text(
            left + 0.5,
            cell["rank"],
            missing if np.isnan(cell["ratio"]) else _printed(cell["ratio"]),
            fontsize=SMALL,
            fontweight="bold" if cell["decided"] else "normal",
            color=_ink(fill[:3]),
            ha="center",
            va="center_baseline",
        )
        name_artists(label, [text])


def _head_columns(axes: Axes, entries: Sequence[Mapping[str, Any]], title: str) -> None:
    """A metric and the implementations' names above the first block."""
    axes.set_title(title, fontsize=LABEL_POINTS, loc="center", pad=21)
    for column, entry in enumerate(entries):
        head = axes.text(
            column + 0.5,
            -0.6,
            _in_lines(entry["name"]),
            fontsize=SMALL - 0.4,
            fontweight="bold",
            color=colour(entry),
            linespacing=1.0,
            ha="center",
            va="bottom",
        )
        name_artists(entry["name"], [head])


def _name_block(axes: Axes, title: Sequence[str], variant: Sequence[str]) -> None:
    """A block's title and variant at the left edge of the page."""
    for line, text in enumerate([*title, *variant]):
        axes.annotate(
            text,
            (0, axes.get_position().y1),
            xycoords="figure fraction",
            xytext=(0, -TITLE_ROWS * ROW_INCHES * POINTS * line),
            textcoords="offset points",
            fontsize=SMALL,
            fontweight="bold" if line < len(title) else "normal",
            va="top",
            annotation_clip=False,
        )


def draw_heat_map(compared: Comparisons, page: Page, languages: Sequence[str]) -> Figure:
    """Each metric of a page against the baseline, in each of its blocks.

    Bold where the difference is decided, × where the run has no result, – where only the baseline's
    has none.
    """
    names = [entry["name"] for entry in compared.entries]
    keys = compared.data["experiment"] + " " + compared.data["variant"].astype(str)
    labels = [(block.title(languages), block.variant_label(languages)) for block in page.blocks]
    heights = [
        max(len(block.sweep.values), TITLE_ROWS * len([*title, *variant]))
        for block, (title, variant) in zip(page.blocks, labels, strict=True)
    ]
    inches = ROW_INCHES * sum(heights)
    grid = facet_grid(
        compared.data.assign(block=keys),
        compared.entries,
        (PAGE_INCHES, HEADER_INCHES + inches + GAP_INCHES * len(page.blocks)),
        row="block",
        row_order=[block.key for block in page.blocks],
        col="metric",
        col_order=[metric.name for metric in page.metrics],
        sharex=False,
        sharey=False,
        gridspec_kws={"height_ratios": heights},
    )
    grid.map_dataframe(_draw_cells, columns=names)
    grid.despine(left=True, bottom=True)
    gap = GAP_INCHES * len(page.blocks) / inches
    place_panels(grid.figure, LEFT_INCHES, 0, GAP_INCHES, HEADER_INCHES, hspace=gap, wspace=0.03)
    for row, block, height, label in zip(grid.axes, page.blocks, heights, labels, strict=True):
        for axes in row:
            axes.set(xlim=(0, len(names)), ylim=(height - 0.5, -0.5), xticks=[], yticks=[])
            axes.grid(False)
        row[0].set_yticks(range(len(block.sweep.values)), block.row_labels, fontsize=SMALL)
        row[0].tick_params(length=0, pad=4)
        _name_block(row[0], *label)
    for axes, metric in zip(grid.axes[0], page.metrics, strict=True):
        _head_columns(axes, compared.entries, title_metric(metric, languages))
    figure: Figure = grid.figure
    return figure
