"""What the tests look at in a figure: its texts, where they are, and sweeps made by hand."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from flashlab.analysis.experiment import Sweep
from flashlab.benchmarks.attention.declaration import ATTENTION

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: Path) -> list[str]:
    """The texts of an SVG file, in the order in which they are drawn."""
    return ["".join(node.itertext()) for node in ElementTree.parse(svg).iter(f"{SVG}text")]


def width_mm(svg: Path) -> float:
    """The width of an SVG file, which gives it in points."""
    return float(ElementTree.parse(svg).getroot().attrib["width"].removesuffix("pt")) / 72 * 25.4


def _tick_labels(axes: Axes) -> Iterable[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            yield from (tick.label1, tick.label2)


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that a figure shows, with the box that its letters cover; closes the figure.

    Marks of failures are left out.
    """
    figure.draw_without_rendering()
    ticks = [label for axes in figure.axes for label in _tick_labels(axes)]
    shown = [
        label
        for axes in figure.axes
        for axis, (low, high) in (
            (axes.xaxis, sorted(axes.get_xlim())),
            (axes.yaxis, sorted(axes.get_ylim())),
        )
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high
        for label in (tick.label1,)
        if label.get_visible()
    ]
    others = [text for text in figure.findobj(Text) if not any(text is tick for tick in ticks)]
    boxes = [
        (text.get_text(), text.get_window_extent().padded(0, -0.15 * text.get_fontsize()))
        for text in (*others, *shown)
        if text.get_text() not in ("", "×") and text.get_visible()
    ]
    plt.close(figure)
    return boxes


def overlapping(boxes: Sequence[tuple[str, Bbox]]) -> list[tuple[str, str]]:
    """The pairs of texts that cover one another."""
    return [
        (one, other)
        for (one, first), (other, second) in itertools.combinations(boxes, 2)
        if first.overlaps(second)
    ]


def clipped(figure: Figure, boxes: Sequence[tuple[str, Bbox]]) -> list[str]:
    """The texts that are not wholly in the figure, but for the space around their letters."""
    edge, slack = figure.bbox, figure.dpi / 72
    return [
        text
        for text, box in boxes
        if box.x0 < -slack
        or box.y0 < -slack
        or box.x1 > edge.x1 + slack
        or box.y1 > edge.y1 + slack
    ]


def sweep_of(
    results: Mapping[str, Sequence[float | str]],
    sizes: Sequence[int],
    masks: Sequence[bool] = (False,),
    **plan: Any,
) -> Sweep:
    """A sweep of the sequence length, from the result of each implementation at each size.

    A result is a forward time in ms, on which the other metrics depend, or a status.
    """
    entries = [
        {"name": name, "style": style, "label": {"zh_TW": f"{name}實作", "en": f"{name} kernel"}}
        for style, name in enumerate(results)
    ]
    document = {
        "benchmark": "attention",
        "name": "seq_len",
        "title": {"zh_TW": "調整", "en": "Sweep"},
        "sweep": "seq_len",
        "baseline": "Pytorch",
        "emphasised": ["Pytorch", "Flash2"],
        "implementations": entries,
        "figures": [],
    }
    runs, metrics = [], []
    for name, found in results.items():
        for mask in masks:
            for size, result in zip(sizes, found, strict=True):
                status = result if isinstance(result, str) else "ok"
                own = {"batch_size": 1, "num_heads": 4, "emb_dim": 64, "head_dim": 16}
                keys = {"seq_len": size, "causal": mask, "dtype": "float16", "device": "cuda"}
                run = {"implementation": name, **own, **keys, "status": status}
                runs.append({**run, "device_name": "Abacus"})
                for metric in ATTENTION.metrics:
                    value = None if isinstance(result, str) else result * (1.5 if mask else 1)
                    spread = {"low": value and value * 0.99, "high": value and value * 1.01}
                    metrics.append({**run, "metric": metric.name, "value": value, **spread})
    return Sweep(document | plan, ATTENTION, runs, metrics)
