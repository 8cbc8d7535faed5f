"""The roofline: every run's rate over its arithmetic intensity, under the measured ceilings.

The intensity counts the operations that the definition gives a run over the bytes that were
counted in DRAM or, where none were, those that any implementation must move (`Work`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE, Experiment, variants_of
from flashlab.benchmarks.model import FLOPS, Benchmark, Metric
from flashlab.figures.labels import in_words, label_product, label_variant, title_metric
from flashlab.figures.panel import MARK, draw_series, mark_beyond, set_apart
from flashlab.figures.style import (
    GREY,
    PAGE_INCHES,
    Look,
    Style,
    as_number,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    name_artists,
    new_panels,
    scale_logarithmically,
    title_panel,
    write,
)

PANEL_INCHES = 1.75

SIZES = (1.0, 0.65)
"""Of the points; the second is the second variant's."""

ROOF: Style = {"color": GREY, "zorder": 1.5}


def _point_frame(experiments: Sequence[Experiment]) -> pd.DataFrame:
    """Intensity in operations a byte and rate in operations a second of each run with a time."""
    variants, points = variants_of(experiments), {}
    for experiment in experiments:
        records = {experiment.key_of(run): run["record"] for run in experiment.runs}
        for row in experiment.metrics:
            metric = experiment.benchmark.metric(row["metric"])
            if metric.work is None or row["status"] not in ("ok", IMPLAUSIBLE):
                continue
            operations = metric.work.operations(row)
            counted = experiment.counters_of(row, metric.name).get("dram_bytes")
            moved = counted or metric.work.compulsory_bytes(row, row["dtype"])
            points[(*experiment.key_of(row), metric.name)] = {
                "implementation": row["implementation"],
                "record": records[experiment.key_of(row)],
                "of": variants.index(experiment.variant_of(row)),
                "metric": metric.name,
                "dtype": row["dtype"],
                "counted": bool(counted),
                "place": operations / moved,
                "status": row["status"],
                "value": operations / row["value"] * 1e3,  # from ms
                "low": np.nan,
                "high": np.nan,
            }
    data = pd.DataFrame(points.values())
    if data.empty:
        return data
    return set_apart(data.sort_values(["of", "place", "value"], kind="stable"))


def _draw_points(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """The runs: filled by counted bytes, hollow by the least; the size shows the variant."""
    hollow = (~data["counted"]).astype(int)
    data = data.assign(variant=hollow)
    for position in sorted(set(data["of"])):
        runs, size = data[data["of"] == position], SIZES[position % len(SIZES)]
        for points, shown in draw_series(axes, runs, looks, size, linestyle="none"):
            points.set(markeredgecolor=points.get_color(), markeredgewidth=0.6)
            places = shown[["place", "value"]].to_numpy()
            name, metric = shown[["implementation", "metric"]].iloc[0]
            name_artists(name, [points], metric, shown["record"], places)


def _handles(
    data: pd.DataFrame, looks: Mapping[str, Look], variants: Sequence[str], languages: Sequence[str]
) -> list[Line2D]:
    """The legend's entries: implementations, then how bytes are known, then variants.

    The last two have shapes that no implementation's point is mistaken for.
    """
    handles = [handle(name, name, **look.sample(linestyle="none")) for name, look in looks.items()]
    grey: Style = {"linestyle": "none", "color": GREY, "markeredgewidth": 0.6}
    known = set(data["counted"])
    for counted, face, key in ((True, GREY, "bytes_counted"), (False, "w", "bytes_least")):
        if counted in known:
            hexagon: Style = {"marker": "h", "markersize": 4.4, "markerfacecolor": face}
            handles.append(handle(in_words(key, languages), **grey, **hexagon))
    for size, label in zip(SIZES, variants if len(variants) > 1 else (), strict=False):
        circle: Style = {"marker": "o", "markersize": 3.8 * size, "markerfacecolor": "#BBBBBB"}
        handles.append(handle(label, **grey, **circle))
    if data["beyond"].notna().any():
        handles.append(handle(in_words(IMPLAUSIBLE, languages), color=GREY, **MARK))
    return handles


def _draw_roofs(
    axes: Axes,
    data: pd.DataFrame,
    product: Ceiling,
    copy: Ceiling,
    unit: str,
    languages: Sequence[str],
) -> None:
    """The measured ceilings, and round powers on both axes, with room for them and their words.

    The matrix product's is drawn twice where the device lowered its clocks.
    """
    ridge, ceiling = product.rate / copy.rate, product.rate / FLOPS[unit]
    low = min(data["place"].min(), ridge / 4) / 1.5
    high = max(data["place"].max(), ridge * 2) * 1.6
    lowest = np.fmin(data["value"].min(), ceiling)  # where every rate is implausible
    scale_logarithmically(axes.yaxis, lowest / 1.6, ceiling * 2.2, most=12)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(as_number))
    slope = copy.rate / FLOPS[unit]
    axes.plot([low, ridge, high], [low * slope, ceiling, ceiling], **ROOF, linewidth=1.2)
    if product.sustained_rate is not None:
        lowered = product.sustained_rate / FLOPS[unit]
        axes.plot([lowered / slope, high], [lowered] * 2, **ROOF, linewidth=0.8, linestyle="--")
    text = f"{label_product(product, unit, languages)} {unit}"
    write(axes, text, (high, ceiling), (-1, 1), color=GREY, ha="right", va="bottom")
    text = f"{in_words('copy', languages)}\n{as_number(float(f'{copy.rate / 1e9:.3g}'))} GB/s"
    write(axes, text, (0.01, 0.92), coords="axes fraction", color=GREY, linespacing=1.15)


def _title(benchmark: Benchmark, metric: Metric, languages: Sequence[str]) -> str:
    """What a panel's rates are of: the part that a time is of, or the rate that follows from it."""
    if metric.part:
        return title_metric(metric, languages)
    following = (m for m in benchmark.metrics if m.derived and m.derived.of == (metric.name,))
    rate = next((m for m in following if m.unit in FLOPS), metric)
    return title_metric(rate, languages)


def draw_rooflines(
    experiments: Sequence[Experiment],
    ceilings: Ceilings,
    emphasised: Sequence[str],
    languages: Sequence[str],
) -> Iterator[tuple[str, Figure]]:
    """The roofline of each dtype that has ceilings, which is hardly ever more than one.

    It has a panel for each metric whose work is declared; of many implementations, those
    `emphasised` stand out. None where all runs have one intensity: the bars of their times say the
    same.
    """
    points = _point_frame(experiments)
    if points.empty:  # every run failed, or the benchmark declares no work
        return
    benchmark, variants = experiments[0].benchmark, variants_of(experiments)
    metrics, unit = [metric for metric in benchmark.metrics if metric.work], benchmark.rate_unit
    entries = {e["name"]: e for s in experiments for e in s.plan["implementations"]}.values()
    looks = looks_of(sorted(entries, key=lambda entry: entry["style"]), emphasised)
    labels = [label_variant(benchmark, variant, languages) for variant in variants]
    for dtype, data in points.groupby("dtype"):
        product = ceilings.matrix.get(str(dtype))
        if product is None or data["place"].nunique() == 1:
            continue
        figure, (panels,) = new_panels(PAGE_INCHES, 1, len(metrics), sharey=True)
        data = data.assign(**{key: data[key] / FLOPS[unit] for key in ("value", "beyond")})
        for axes, metric in zip(panels, metrics, strict=True):
            of_metric = data[data["metric"] == metric.name]
            _draw_points(axes, of_metric, looks)
            _draw_roofs(axes, data, product, ceilings.copy, unit, languages)
            mark_beyond(axes, of_metric, looks)
            title_panel(axes, [f"{_title(benchmark, metric, languages)} ({unit})"])
            axes.set_xlabel(f"{in_words('intensity', languages)} (FLOP/byte)")
        draw_legend(figure, _handles(data, looks, labels, languages))
        lay_out(figure, PANEL_INCHES)
        yield f"roofline-{dtype}", figure
