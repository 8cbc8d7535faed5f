"""The heat map of comparisons: a row for each size, a column for each metric and implementation."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Sweep, Variant
from flashlab.figures.comparisons import Comparisons, block_name
from flashlab.figures.labels import label_covaried, label_variant, title_experiment, title_metric
from flashlab.figures.placement import POINTS, text_inches
from flashlab.figures.style import (
    LABEL_POINTS,
    PAGE_INCHES,
    SMALL_POINTS,
    colour,
    facet_grid,
    name_artists,
    name_marks,
    place_panels,
    text_colour,
)

ROWS_OF_A_PAGE = 60
DOUBLINGS = 3.0
"""Where the colours end: 8 times and an eighth."""

ROW_INCHES = 0.13
TITLE_ROWS = 0.82
"""Rows that a line of a block's title is as high as."""

GAP_INCHES = 0.05
CELL_INCHES = 0.6
"""The most that a cell is wide."""

LEFT_INCHES = 2.42
TITLE_INCHES = 1.5
"""Width of a title beside the rows' labels."""

HEADER_INCHES = 0.4
TITLE_POINTS = 20
"""How far a metric's name is above the rows where the names below it have two lines."""

SHADES = LinearSegmentedColormap.from_list(
    "ratios", ["#A6500A", "#E9A86A", "#F7F7F7", "#7FB3D9", "#10538A"]
).with_extremes(bad="#EDEDED")
"""Orange for worse and blue for better, which the colour-vision deficiencies leave apart."""


Block = tuple[Sweep, Variant]
"""The rows of an experiment in one variant."""


def heat_map_blocks(sweeps: Sequence[Sweep]) -> list[Block]:
    """The blocks of all experiments, without those whose runs are all in an earlier one."""
    known: set[tuple[Any, ...]] = set()
    blocks = []
    for sweep in sweeps:
        for variant in sweep.variants:
            keys = {sweep.key_of(run) for run in sweep.runs if sweep.variant_of(run) == variant}
            if not keys <= known:
                blocks.append((sweep, variant))
            known |= keys
    return blocks


def heat_map_pages(compared: Comparisons) -> list[list[Block]]:
    """The blocks on each page, as many as fit; an experiment's are not parted."""
    pages: list[list[Block]] = [[]]
    rows = 0
    for _, grouped in itertools.groupby(heat_map_blocks(compared.sweeps), lambda b: b[0].name):
        blocks = list(grouped)
        more = sum(len(sweep.values) for sweep, _ in blocks)
        if pages[-1] and rows + more > ROWS_OF_A_PAGE:
            pages.append([])
            rows = 0
        pages[-1] += blocks
        rows += more
    return pages


def _draw_cells(
    data: pd.DataFrame, color: str, marker: str, label: str, columns: Sequence[str]
) -> None:
    """The cells of an implementation in the current block: its column."""
    axes, left = plt.gca(), columns.index(label)
    shares = np.ma.masked_invalid(Normalize(-DOUBLINGS, DOUBLINGS)(np.log2(data["ratio"])))
    fills = SHADES(shares)
    bars = axes.barh(data["rank"], 0.97, 0.92, left + 0.015, color=fills, linewidth=0)
    for cell, bar, share in zip(data.to_dict("records"), bars, shares.filled(0.5), strict=True):
        name_marks(label, bar, cell["metric"], [cell["record"]])
        ratio, missing = cell["ratio"], "×" if cell["failed"] else "–"
        text = axes.text(
            left + 0.5,
            cell["rank"],
            missing if np.isnan(ratio) else f"{ratio:#.3g}" if ratio < 100 else f"{ratio:.0f}",
            fontsize=SMALL_POINTS,
            fontweight="bold" if cell["decided"] else "normal",
            color="white" if abs(share - 0.5) > 0.33 else "#1c1c1c",
            ha="center",
            va="center_baseline",
        )
        name_artists(label, [text])


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z][a-z0-9]*|.+", name)


def _widest(texts: Iterable[str]) -> float:
    """The width of the widest of some names or words, in inches."""
    return max(text_inches(text, SMALL_POINTS, bold=True) for text in texts)


def _head_columns(
    axes: Axes, entries: Sequence[Mapping[str, Any]], title: str, upright: float | None
) -> None:
    """A metric and the implementations' names above the first block.

    The names' words stand below each other, or where `upright` says how high the longest name is,
    the names stand upright.
    """
    pad = TITLE_POINTS if upright is None else upright * POINTS + TITLE_POINTS / 4
    axes.set_title(title, fontsize=LABEL_POINTS, loc="center", pad=pad)
    for column, entry in enumerate(entries):
        head = axes.text(
            column + 0.5,
            -0.6,
            entry["name"] if upright else "\n".join(_words(entry["name"])),
            fontsize=SMALL_POINTS,
            fontweight="bold",
            color=text_colour(colour(entry)),
            linespacing=1.0,
            rotation=90 if upright else 0,
            ha="center",
            va="bottom",
        )
        name_artists(entry["name"], [head])


def _title(block: Block, is_first: bool, languages: Sequence[str]) -> list[str]:
    """The lines beside a block: the experiment's title at its first, the variant if it has more."""
    sweep, variant = block
    title = title_experiment(sweep, languages, SMALL_POINTS, TITLE_INCHES) if is_first else []
    if len(sweep.variants) == 1:
        return title
    return [*title, label_variant(sweep.benchmark, variant, languages)]


def draw_heat_map(
    compared: Comparisons, blocks: Sequence[Block], languages: Sequence[str]
) -> Figure:
    """Each sampled metric against the baseline: a block of rows an experiment and variant.

    Bold where the difference is decided, × where the run has no result, – where only the baseline's
    has none.
    """
    metrics = [metric for metric in compared.metrics if not metric.exact]
    names = [entry["name"] for entry in compared.entries]
    named = [sweep.name for sweep, _ in blocks]
    titles = [
        _title(block, named.index(name) == position, languages)
        for position, (block, name) in enumerate(zip(blocks, named, strict=True))
    ]
    heights = [
        max(len(sweep.values), TITLE_ROWS * len(title))
        for (sweep, _), title in zip(blocks, titles, strict=True)
    ]
    grid = facet_grid(
        compared.data,
        compared.entries,
        row="block",
        row_order=[block_name(sweep, variant) for sweep, variant in blocks],
        col="metric",
        col_order=[metric.name for metric in metrics],
        sharex=False,
        sharey=False,
        gridspec_kws={"height_ratios": heights},
    )
    grid.map_dataframe(_draw_cells, columns=names)
    grid.despine(left=True, bottom=True)
    inches, gaps = ROW_INCHES * sum(heights), GAP_INCHES * (len(blocks) - 1)
    cells = min(PAGE_INCHES - LEFT_INCHES, CELL_INCHES * len(names) * len(metrics))
    fits = _widest(itertools.chain(*map(_words, names))) <= cells / len(names) / len(metrics)
    upright = None if fits else _widest(names)
    header = HEADER_INCHES if upright is None else upright + HEADER_INCHES / 2
    margins = LEFT_INCHES, PAGE_INCHES - LEFT_INCHES - cells, GAP_INCHES, header
    gap = GAP_INCHES * len(blocks) / inches
    place_panels(grid.figure, PAGE_INCHES, inches + gaps, margins, hspace=gap, wspace=0.03)
    for row, (sweep, _), title, height in zip(grid.axes, blocks, titles, heights, strict=True):
        for axes in row:
            axes.set(xlim=(0, len(names)), ylim=(height - 0.5, -0.5), xticks=[], yticks=[])
            axes.grid(False)
        sizes = [
            ", ".join([f"{sweep.parameter.symbol} = {size}", *along])
            for size, along in zip(sweep.values, label_covaried(sweep), strict=True)
        ]
        row[0].set_yticks(range(len(sizes)), sizes, fontsize=SMALL_POINTS)
        row[0].tick_params(length=0, pad=4)
        place = {"fontsize": SMALL_POINTS, "fontweight": "bold", "linespacing": 1.2, "va": "top"}
        grid.figure.text(0, row[0].get_position().y1, "\n".join(title), **place)
    for axes, metric in zip(grid.axes[0], metrics, strict=True):
        _head_columns(axes, compared.entries, title_metric(metric, languages), upright)
    figure: Figure = grid.figure
    return figure
