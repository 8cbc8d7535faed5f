"""The roofline: every run's rate over its arithmetic intensity, under the measured ceilings.

The intensity counts the operations that the definition gives a run over the bytes that any
implementation must move (`costs.compulsory_bytes`), as the findings on the roofline do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flashlab.benchmarks.attention import costs
from flashlab.catalogs import in_all
from flashlab.figures.panels import PASSES
from flashlab.figures.style import (
    GREY,
    LABEL_POINTS,
    PAGE_INCHES,
    as_number,
    colour,
    implementation_id,
    marker,
)
from flashlab.records import Run

HEIGHT_INCHES = 3.1
LEGEND_COLUMNS = 4


@dataclass(frozen=True)
class Roofs:
    """The measured ceilings: operations a second of a matrix product, bytes a second of a copy."""

    matrix_product: float
    copy: float

    @property
    def ridge(self) -> float:
        """The intensity, in operations a byte, at which the two meet."""
        return self.matrix_product / self.copy


def read_roofs(ceilings: Mapping[str, Any], dtype: str) -> Roofs | None:
    """The ceilings of a dtype from the record of the ceilings; None if it has none of it."""
    product = ceilings["matrix_product"].get(dtype)
    if product is None:
        return None
    return Roofs(product["rate(TFLOPs/s)"] * 1e12, ceilings["copy"]["bandwidth(GB/s)"] * 1e9)


def _points(passes: Sequence[Mapping[str, Any]], timed: str) -> dict[Run, tuple[float, float]]:
    """Intensity in operations a byte and rate in TFLOP/s of each run that has numbers, once."""
    found = {}
    for row in passes:
        if row["pass"] == timed and row["status"] == "ok":
            run = Run.from_json(row)
            moved = costs.compulsory_bytes(run.shape, run.dtype)[timed]
            found[run] = (costs.flops(run.shape)[timed] / moved, row["rate_TFLOPs"])
    return found


def _draw_roofs(axes: Axes, roofs: Roofs, languages: Sequence[str]) -> None:
    low, high = axes.get_xlim()
    intensity = np.geomspace(min(low, roofs.ridge / 4), high, 64)
    roof = np.minimum(intensity * roofs.copy, roofs.matrix_product) / 1e12
    axes.plot(intensity, roof, color=GREY, linewidth=1.2, zorder=1.5)
    rate = f"{roofs.matrix_product / 1e12:.3g} TFLOP/s"
    axes.annotate(
        f"{in_all(languages, 'figures', 'matrix_product')} {rate}",
        (high, roofs.matrix_product / 1e12),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=LABEL_POINTS - 1.5,
        color=GREY,
    )
    copy = in_all(languages, "figures", "copy")
    axes.text(
        0.01,
        0.84,
        f"{copy}\n{roofs.copy / 1e9:,.0f} GB/s",
        transform=axes.transAxes,
        va="bottom",
        fontsize=LABEL_POINTS - 1.5,
        linespacing=1.15,
        color=GREY,
    )


def draw_roofline(
    passes: Sequence[Mapping[str, Any]],
    implementations: Sequence[Mapping[str, Any]],
    roofs: Roofs,
    languages: Sequence[str],
) -> Figure:
    """A panel a pass: full attention filled, causal hollow, in the implementation's colour."""
    figure, row = plt.subplots(1, 2, figsize=(PAGE_INCHES, HEIGHT_INCHES), sharey=True)
    rows_of_legend = -(-(len(implementations) + 2) // LEGEND_COLUMNS)
    figure.subplots_adjust(
        left=0.62 / PAGE_INCHES,
        right=1 - 0.08 / PAGE_INCHES,
        bottom=(0.45 + 0.17 * rows_of_legend) / HEIGHT_INCHES,
        top=1 - 0.22 / HEIGHT_INCHES,
        wspace=0.06,
    )
    for axes, timed in zip(row, PASSES, strict=True):
        points = _points(passes, timed)
        for entry in implementations:
            drawn = []
            for causal in (False, True):
                mine = [p for run, p in points.items() if _is(run, entry["name"], causal)]
                if mine:
                    x, y = zip(*sorted(mine), strict=True)
                    shade = colour(entry["style"])
                    drawn += axes.plot(
                        x,
                        y,
                        linestyle="none",
                        marker=marker(entry["style"]),
                        markersize=4,
                        color=shade,
                        markerfacecolor="white" if causal else shade,
                        markeredgewidth=0.7,
                    )
            implementation_id(axes, entry["name"], drawn)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
        axes.xaxis.set_major_formatter(FuncFormatter(as_number))
        axes.yaxis.set_major_formatter(FuncFormatter(as_number))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(in_all(languages, "figures", timed), loc="left")
        axes.set_xlabel(f"{in_all(languages, 'figures', 'intensity')} (FLOP/byte)")
        _draw_roofs(axes, roofs, languages)
    row[0].set_ylabel(f"{in_all(languages, 'figures', 'rate', chr(10))} (TFLOP/s)")
    _legend(figure, implementations, languages)
    return figure


def _is(run: Run, name: str, causal: bool) -> bool:
    return run.implementation == name and run.shape.causal == causal


def _legend(
    figure: Figure, implementations: Sequence[Mapping[str, Any]], languages: Sequence[str]
) -> None:
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            color=colour(entry["style"]),
            marker=marker(entry["style"]),
            markersize=4.5,
            label=" ".join(dict.fromkeys(entry["label"][language] for language in languages)),
        )
        for entry in implementations
    ]
    handles += [
        Line2D(
            [],
            [],
            linestyle="none",
            marker="o",
            markersize=4.5,
            color=GREY,
            markerfacecolor=face,
            label=in_all(languages, "figures", mask),
        )
        for mask, face in (("full", GREY), ("causal", "white"))
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=LABEL_POINTS - 1,
        handletextpad=0.2,
        columnspacing=1.2,
        borderpad=0,
        borderaxespad=0.2,
    )
