"""A figure's texts and marks, as the tests read them, and sweeps made by hand."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from planted.records import experiment_document

from flashlab.analysis.experiment import IMPLAUSIBLE, Experiment, Row
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Benchmark
from flashlab.figures.forms import size_of
from flashlab.figures.stage import draw

SVG = "{http://www.w3.org/2000/svg}"
BOTH = ("zh_TW", "en")


def texts(svg: Path) -> list[str]:
    """The texts of an SVG file, in the order in which they are drawn."""
    return ["".join(node.itertext()) for node in ElementTree.parse(svg).iter(f"{SVG}text")]


def _side_mm(svg: Path, side: str) -> float:
    """A side of an SVG file, which gives it in points."""
    return float(ElementTree.parse(svg).getroot().attrib[side].removesuffix("pt")) / 72 * 25.4


def width_mm(svg: Path) -> float:
    """The width of an SVG file."""
    return _side_mm(svg, "width")


def height_mm(svg: Path) -> float:
    """The height of an SVG file."""
    return _side_mm(svg, "height")


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that a figure shows, with the box that its letters cover."""
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    tick.label1.set_visible(False)
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_visible() and text.get_text():
            box = text.get_window_extent().padded(0, -0.15 * text.get_fontsize())
            boxes.append((text.get_text(), box))
    return boxes


def texts_of(figure: Figure) -> list[str]:
    """Every text that a figure shows."""
    return [text for text, _ in text_boxes(figure)]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """The pairs of texts that cover one another."""
    return [
        (one, other)
        for (one, first), (other, second) in itertools.combinations(text_boxes(figure), 2)
        if first.overlaps(second)
    ]


def clipped(figure: Figure) -> list[str]:
    """The texts that are not wholly in the figure, but for the space around their letters."""
    edge, slack = figure.bbox, figure.dpi / 72
    return [
        text
        for text, box in text_boxes(figure)
        if min(box.x0, box.y0) < -slack or box.x1 > edge.x1 + slack or box.y1 > edge.y1 + slack
    ]


def lines_of(figure: Figure, implementation: str) -> list[Line2D]:
    """The lines and markers of an implementation's values."""
    gid = f"implementation:{implementation}"
    return [
        line
        for axes in figure.axes
        for line in axes.lines
        if str(line.get_gid()).startswith(gid) and line.get_transform() == axes.transData
    ]


def marks_of(figure: Figure) -> list[float]:
    """The positions of the marks of runs without a result."""
    marks = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    return [float(x) for line in marks for x in line.get_xdata()]


def drawn(
    experiment: Experiment,
    quantity: str,
    *names: str,
    languages: Sequence[str] = BOTH,
    compared: pd.DataFrame | None = None,
) -> Figure:
    """The figure of a quantity of these implementations, by default of all."""
    chosen = {"quantity": quantity, "implementations": names or experiment.implementations}
    height = size_of(experiment, chosen).least
    return draw(experiment, languages, chosen, height, comparisons=compared)


def experiment_of(
    results: Mapping[str, Sequence[float | str]],
    sizes: Sequence[int] = (128, 256, 512, 1024),
    variants: Sequence[bool] = (False,),
    spread: float | None = 0.01,
    of: str = "seq_len",
    benchmark: Benchmark = ATTENTION,
    **plan: Any,
) -> Experiment:
    """A sweep of a parameter, from the result of each implementation at each size.

    A result is the value of each metric, or a status; in the second variant it is half as much
    again. An interval is `spread` wide on both sides, or there is none.
    """
    document = experiment_document(benchmark.name, [*results], of, of)
    usual = {"seq_len": 64, "num_heads": 4, "emb_dim": 64}
    given = {p.name: usual.get(p.name, 1) for p in benchmark.given if not p.is_variant}
    stands_for = benchmark.parameter(of).stands_for or (lambda size: {of: size})
    runs: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    for (name, values), variant in itertools.product(results.items(), variants):
        for size, result in zip(sizes, values, strict=True):
            shape = given | {p.name: variant for p in benchmark.variants} | (stands_for(size) or {})
            run = {
                "implementation": name,
                **benchmark.all_parameters(shape),
                **{"dtype": "float16", "device": "cuda"},
                "status": result if isinstance(result, str) else "ok",
            }
            record = f"records/{name}-{size}-{variant}.json"
            runs.append({**run, "device_name": "Abacus", "record": record})
            value = None if isinstance(result, str) else result * (1.5 if variant else 1)
            for metric in benchmark.metrics:
                bounds = {"low": None, "high": None}
                if value and spread and not metric.exact:
                    bounds = {"low": value * (1 - spread), "high": value * (1 + spread)}
                metrics.append({**run, "metric": metric.name, "value": value, **bounds})
    return Experiment(document | plan, benchmark, runs, metrics)


def implausible(experiment: Experiment, name: str, size: int) -> Experiment:
    """The same with the runs of an implementation at a size as ones whose rate cannot be."""

    def changed(row: Row) -> Row:
        is_meant = (row["implementation"], experiment.value_of(row)) == (name, size)
        return {**row, "status": IMPLAUSIBLE} if is_meant else row

    runs, metrics = ([*map(changed, rows)] for rows in (experiment.runs, experiment.metrics))
    return replace(experiment, runs=runs, metrics=metrics)
