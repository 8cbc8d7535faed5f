"""The roofline: every run's rate over its arithmetic intensity, under the measured ceilings.

The intensity counts the operations that the definition gives a run over the bytes that were
counted in DRAM or, where none were, those that any implementation must move (`Work`), as the
findings on the roofline do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flashlab.catalogs import in_all
from flashlab.figures.labels import label_variant, title_metric
from flashlab.figures.style import (
    GREY,
    PAGE_INCHES,
    SMALL_POINTS,
    as_number,
    draw_legend,
    each_variant,
    facet_grid,
    name_artists,
    place_panels,
)
from flashlab.findings.ceilings import read_ceilings
from flashlab.findings.ratios import Estimates
from flashlab.sweep import Sweep, variants_of

PANEL_INCHES = 2.35

MARKER_SIZES = (3.6, 2.4)
"""Points; the second is the second variant's where filled and hollow tell something else."""


@dataclass(frozen=True)
class Roofs:
    """The measured ceilings: operations a second of a matrix product, bytes a second of a copy.

    `sustained` is the matrix product's after the device lowered its clocks, None where it did not.
    """

    matrix_product: float
    copy: float
    sustained: float | None

    @property
    def ridge(self) -> float:
        """The intensity, in operations a byte, at which the two meet."""
        return self.matrix_product / self.copy


def read_roofs(ceilings: Mapping[str, Any], dtype: str) -> Roofs | None:
    """The ceilings of a dtype from the record of the ceilings; None if it has none of it."""
    found = read_ceilings(ceilings, Estimates())
    product = found.matrix.get(dtype)
    if product is None:
        return None
    return Roofs(product.rate, found.copy.rate, product.sustained_rate)


def _points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Intensity in operations a byte and rate in TFLOP/s of each run that has a time, once."""
    variants = variants_of(sweeps)
    found = {}
    for sweep in sweeps:
        for row in sweep.metrics:
            metric = sweep.benchmark.metric(row["metric"])
            if metric.work is None or row["status"] != "ok":
                continue
            operations = metric.work.operations(row)
            counted = sweep.counters_of(row, metric.name).get("dram_bytes")
            moved = counted or metric.work.compulsory_bytes(row, row["dtype"])
            found[(*sweep.key_of(row), metric.name)] = {
                "implementation": row["implementation"],
                "variant": variants.index(sweep.variant_of(row)),
                "metric": metric.name,
                "dtype": row["dtype"],
                "counted": bool(counted),
                "intensity": operations / moved,
                "rate": operations / row["value"] / 1e9,  # from ms
            }
    return pd.DataFrame(found.values())


def _counted_style(counted: bool, variant: int, color: str) -> dict[str, Any]:
    """How a point is drawn where bytes were counted: filled by those, hollow by the least bytes.

    Hollow no longer tells the variants apart then; their size does.
    """
    size = MARKER_SIZES[variant % len(MARKER_SIZES)]
    face = color if counted else "white"
    return {"color": color, "markerfacecolor": face, "markersize": size}


def _each_counted(data: pd.DataFrame, color: str) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
    """The rows of each variant, by counted and by least bytes, and how their points are drawn."""
    for counted in (False, True):
        for variant in sorted(set(data["variant"])):
            runs = data[(data["counted"] == counted) & (data["variant"] == variant)]
            if not runs.empty:
                yield runs, _counted_style(counted, variant, color)


def _draw_points(
    data: pd.DataFrame, color: str, marker: str, label: str, *, any_counted: bool
) -> None:
    """The runs of an implementation in the current panel."""
    for runs, style in (_each_counted if any_counted else each_variant)(data, color):
        style = {"markersize": MARKER_SIZES[0], **style}
        style |= {"linestyle": "none", "markeredgecolor": color}
        drawn = plt.gca().plot(runs["intensity"], runs["rate"], marker=marker, **style)
        name_artists(label, drawn)


def _counted_entries(variants: Sequence[str], languages: Sequence[str]) -> list[Line2D]:
    """The legend's entries for variants, counted and least bytes."""
    looks = [(in_all(languages, "figures", "bytes_counted"), _counted_style(True, 0, GREY))]
    looks.append((in_all(languages, "figures", "bytes_least"), _counted_style(False, 0, GREY)))
    if len(variants) > 1:
        looks += [(label, _counted_style(True, i, GREY)) for i, label in enumerate(variants)]
    return [
        Line2D([], [], label=label, marker="o", linestyle="none", markeredgecolor=GREY, **style)
        for label, style in looks
    ]


def _draw_roofs(axes: Axes, roofs: Roofs, languages: Sequence[str]) -> None:
    low, high = axes.get_xlim()
    intensity = np.geomspace(low, high, 64)
    roof = np.minimum(intensity * roofs.copy, roofs.matrix_product) / 1e12
    axes.plot(intensity, roof, color=GREY, linewidth=1.2, zorder=1.5)
    if roofs.sustained is not None:
        lowered = np.where(intensity * roofs.copy < roofs.sustained, np.nan, roofs.sustained / 1e12)
        axes.plot(intensity, lowered, color=GREY, linewidth=0.8, linestyle="--", zorder=1.5)
    ceiling = roofs.matrix_product / 1e12
    product, copy = (in_all(languages, "figures", key) for key in ("matrix_product", "copy"))
    axes.annotate(
        f"{product} {ceiling:.3g} TFLOP/s",
        (high, ceiling),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=SMALL_POINTS,
        color=GREY,
    )
    axes.text(
        0.01,
        0.84,
        f"{copy}\n{roofs.copy / 1e9:,.0f} GB/s",
        transform=axes.transAxes,
        va="bottom",
        fontsize=SMALL_POINTS,
        linespacing=1.15,
        color=GREY,
    )


def draw_roofline(
    data: pd.DataFrame, sweeps: Sequence[Sweep], roofs: Roofs, languages: Sequence[str]
) -> Figure:
    """A panel for each metric whose work is declared."""
    benchmark = sweeps[0].benchmark
    metrics = [metric for metric in benchmark.metrics if metric.work]
    by_name = {e["name"]: e for s in sweeps for e in s.plan["implementations"]}
    entries = sorted(by_name.values(), key=lambda entry: entry["style"])
    grid = facet_grid(data, entries, col="metric", col_order=[metric.name for metric in metrics])
    any_counted = bool(data["counted"].any())
    grid.map_dataframe(_draw_points, any_counted=any_counted)
    first = grid.axes.flat[0]
    first.set_yscale("log")
    first.set_xscale("log", base=2)
    first.set_xlim(left=min(first.get_xlim()[0], roofs.ridge / 4))
    first.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
    first.xaxis.set_minor_locator(NullLocator())
    first.xaxis.set_major_formatter(FuncFormatter(as_number))
    first.yaxis.set_major_formatter(FuncFormatter(as_number))
    first.set_ylabel(f"{in_all(languages, 'figures', 'rate', chr(10))} (TFLOP/s)")
    for axes, metric in zip(grid.axes.flat, metrics, strict=True):
        axes.set_title(title_metric(metric, languages))
        axes.set_xlabel(f"{in_all(languages, 'figures', 'intensity')} (FLOP/byte)")
        _draw_roofs(axes, roofs, languages)
    variants = [label_variant(benchmark, variant, languages) for variant in variants_of(sweeps)]
    points = {"linestyle": "none", "markeredgecolor": None}
    more = _counted_entries(variants, languages) if any_counted else []
    legend = draw_legend(
        grid.figure, entries, [] if any_counted else variants, languages, more, **points
    )
    margins = 0.62, 0.08, 0.45 + legend, 0.22
    place_panels(grid.figure, PAGE_INCHES, PANEL_INCHES, margins, wspace=0.06)
    figure: Figure = grid.figure
    return figure


def draw_rooflines(
    sweeps: Sequence[Sweep], ceilings: Mapping[str, Any], languages: Sequence[str]
) -> Iterator[tuple[str, Figure]]:
    """The roofline of each dtype that has ceilings, which is hardly ever more than one."""
    points = _points(sweeps)
    if points.empty:  # every run failed, or the benchmark declares no work
        return
    points = points.sort_values(["variant", "intensity", "rate"], kind="stable")
    for dtype, data in points.groupby("dtype"):
        roofs = read_roofs(ceilings, str(dtype))
        if roofs:
            yield f"roofline-{dtype}", draw_roofline(data, sweeps, roofs, languages)
