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

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, variants_of
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.figures.labels import label_variant, title_metric
from flashlab.figures.lines import MOST_LINES
from flashlab.figures.placement import POINTS
from flashlab.figures.style import (
    FAINT,
    GREY,
    PAGE_INCHES,
    SMALL_POINTS,
    as_number,
    draw_legend,
    facet_grid,
    marker,
    name_marks,
    place_panels,
    scale_values,
    shades_of,
    tick_inches,
)
from flashlab.telling.catalogs import in_all

PANEL_INCHES = 1.75

MARKER_SIZES = (3.6, 2.2)
"""Points; the second is the second variant's."""

FAINT_SHARE = 0.75
"""How large the points of an implementation in grey are beside the others."""


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
        records = {sweep.key_of(run): run["record"] for run in sweep.runs}
        for row in sweep.metrics:
            metric = sweep.benchmark.metric(row["metric"])
            if metric.work is None or row["status"] != "ok":
                continue
            operations = metric.work.operations(row)
            counted = sweep.counters_of(row, metric.name).get("dram_bytes")
            moved = counted or metric.work.compulsory_bytes(row, row["dtype"])
            found[(*sweep.key_of(row), metric.name)] = {
                "implementation": row["implementation"],
                "record": records[sweep.key_of(row)],
                "variant": variants.index(sweep.variant_of(row)),
                "metric": metric.name,
                "dtype": row["dtype"],
                "counted": bool(counted),
                "intensity": operations / moved,
                "rate": operations / row["value"] / 1e9,  # from ms
            }
    return pd.DataFrame(found.values())


def _point_style(counted: bool, variant: int, color: str) -> dict[str, Any]:
    """How a point is drawn: filled by counted bytes, hollow by the least; its size by variant."""
    size = MARKER_SIZES[variant % len(MARKER_SIZES)]
    return {
        "color": color,
        "linestyle": "none",
        "markeredgecolor": color,
        "markerfacecolor": color if counted else "white",
        "markersize": size * FAINT_SHARE if color == FAINT else size,
        "zorder": 2.0 if color == FAINT else 2.5,
    }


def _draw_points(data: pd.DataFrame, color: str, marker: str, label: str) -> None:
    """The runs of an implementation in the current panel."""
    for _, runs in data.groupby(["counted", "variant"]):
        style = _point_style(runs["counted"].iloc[0], runs["variant"].iloc[0], color)
        (points,) = plt.gca().plot(runs["intensity"], runs["rate"], marker=marker, **style)
        places = runs[["intensity", "rate"]].to_numpy()
        name_marks(label, points, runs["metric"].iloc[0], runs["record"], places)


def _handles(
    data: pd.DataFrame,
    entries: Sequence[Mapping[str, Any]],
    shades: Mapping[str, str],
    variants: Sequence[str],
    languages: Sequence[str],
) -> list[Line2D]:
    """The legend's entries: implementations, then how bytes are known, then variants."""
    looks = [
        (entry["name"], marker(entry), _point_style(True, 0, shades[entry["name"]]))
        for entry in entries
    ]
    for counted, key in ((True, "bytes_counted"), (False, "bytes_least")):
        if (data["counted"] == counted).any():
            words = in_all(languages, "figures", key)
            looks.append((words, "o", _point_style(counted, 0, GREY)))
    if len(variants) > 1:
        looks += [(label, "o", _point_style(True, i, GREY)) for i, label in enumerate(variants)]
    return [Line2D([], [], label=label, marker=shape, **style) for label, shape, style in looks]


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
        xytext=(-1, 1),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=SMALL_POINTS,
        color=GREY,
    )
    axes.text(
        0.01,
        0.84,
        f"{copy}\n{as_number(float(f'{roofs.copy / 1e9:.3g}'))} GB/s",
        transform=axes.transAxes,
        va="bottom",
        fontsize=SMALL_POINTS,
        linespacing=1.15,
        color=GREY,
    )


def _scale(axes: Axes, data: pd.DataFrame, roofs: Roofs) -> None:
    """Both axes of all panels: round powers, with room for the roofs and their labels."""
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    low = min(data["intensity"].min(), roofs.ridge / 4) / 1.5
    axes.set_xlim(low, max(data["intensity"].max(), roofs.ridge * 2) * 1.6)
    axes.set_ylim(data["rate"].min() / 1.6, roofs.matrix_product / 1e12 * 2.2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(as_number))
    scale_values(axes, True, PANEL_INCHES)


def _title(benchmark: Benchmark, metric: Metric, languages: Sequence[str]) -> str:
    """What a panel's rates are of: the part that a time is of, or the rate that follows from it."""
    if metric.part:
        return title_metric(metric, languages)
    following = (m for m in benchmark.metrics if m.derived and m.derived.of == (metric.name,))
    rate = next((m for m in following if m.unit == "TFLOP/s"), metric)
    return title_metric(rate, languages)


def draw_roofline(
    data: pd.DataFrame,
    sweeps: Sequence[Sweep],
    roofs: Roofs,
    emphasised: Sequence[str],
    languages: Sequence[str],
) -> Figure:
    """A panel for each metric whose work is declared; those `emphasised` are in colour."""
    benchmark = sweeps[0].benchmark
    metrics = [metric for metric in benchmark.metrics if metric.work]
    by_name = {e["name"]: e for s in sweeps for e in s.plan["implementations"]}
    entries = sorted(by_name.values(), key=lambda entry: entry["style"])
    coloured = emphasised[:MOST_LINES] if len(entries) > MOST_LINES else list(by_name)
    shades = shades_of(entries, coloured)
    columns = {"col": "metric", "col_order": [metric.name for metric in metrics]}
    grid = facet_grid(data, entries, coloured, **columns)
    grid.map_dataframe(_draw_points)
    first = grid.axes.flat[0]
    _scale(first, data, roofs)
    for axes, metric in zip(grid.axes.flat, metrics, strict=True):
        axes.set_title(f"{_title(benchmark, metric, languages)} (TFLOP/s)", pad=3)
        axes.set_xlabel(f"{in_all(languages, 'figures', 'intensity')} (FLOP/byte)", labelpad=1)
        _draw_roofs(axes, roofs, languages)
    variants = [label_variant(benchmark, variant, languages) for variant in variants_of(sweeps)]
    handles = _handles(data, entries, shades, variants, languages)
    legend = draw_legend(grid.figure, handles, PAGE_INCHES)
    margins = tick_inches(first) + 6 / POINTS, 0.08, 0.3 + legend, 0.18
    place_panels(grid.figure, PAGE_INCHES, PANEL_INCHES, margins, wspace=0.04)
    figure: Figure = grid.figure
    return figure


def draw_rooflines(
    sweeps: Sequence[Sweep],
    ceilings: Mapping[str, Any],
    emphasised: Sequence[str],
    languages: Sequence[str],
) -> Iterator[tuple[str, Figure]]:
    """The roofline of each dtype that has ceilings, which is hardly ever more than one."""
    points = _points(sweeps)
    if points.empty:  # every run failed, or the benchmark declares no work
        return
    points = points.sort_values(["variant", "intensity", "rate"], kind="stable")
    for dtype, data in points.groupby("dtype"):
        roofs = read_roofs(ceilings, str(dtype))
        if roofs:
            figure = draw_roofline(data, sweeps, roofs, emphasised, languages)
            yield f"roofline-{dtype}", figure
