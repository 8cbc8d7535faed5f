"""A figure's texts and marks, as the tests read them, and sweeps made by hand."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from planted.records import experiment_document

from flashlab.analysis.frames import RUN, SPEED, VALUE, Dataset, Sweep
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Benchmark
from flashlab.figures import stage
from flashlab.statistics import MARGIN

SVG = "{http://www.w3.org/2000/svg}"
BOTH = ("zh_TW", "en")
SIZES = (128, 256, 512, 1024)

PLAIN = ATTENTION.having(())

Results = Mapping[str, Sequence[float | str]]


def texts(svg: Path) -> list[str]:
    """The texts of an SVG file, in the order in which they are drawn."""
    return ["".join(node.itertext()) for node in ElementTree.parse(svg).iter(f"{SVG}text")]


def titles(svg: Path) -> list[str]:
    """What the points of an SVG file stand for."""
    return [str(node.text) for node in ElementTree.parse(svg).iter(f"{SVG}title")]


def width_mm(svg: Path) -> float:
    """The width of an SVG file, which gives it in points."""
    width = ElementTree.parse(svg).getroot().attrib["width"]
    return float(width.removesuffix("pt")) / 72 * 25.4


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


def lines_of(figure: Figure, *colours: str) -> list[Line2D]:
    """The lines of values in these colours."""
    return [
        line
        for axes in figure.axes
        for line in axes.lines
        if line.get_color() in colours and line.get_transform() == axes.transData
    ]


def crosses_of(figure: Figure) -> list[float]:
    """The positions of the crosses of runs without a result."""
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    return [float(x) for line in crosses for x in line.get_xdata()]


def dataset_of(
    results: Results,
    sizes: Sequence[int] = SIZES,
    variants: Sequence[bool] = (False,),
    spread: float | None = 0.01,
    of: str = "seq_len",
    benchmark: Benchmark = PLAIN,
    folder: Path = Path(),
    **entries: Mapping[str, str],
) -> Dataset:
    """A dataset of one sweep, from the result of each implementation at each size.

    A result is the value of each metric, or a status; in the second variant it is half as much
    again. An interval is `spread` wide on both sides, or there is none; speeds are decided by their
    estimates. `entries` are further keys of the implementations in the plan.
    """
    plan = experiment_document(benchmark.name, [*results], of, of)
    for entry in plan["implementations"]:
        entry |= entries.get(entry["name"], {})
    usual = {"seq_len": 64, "num_heads": 4, "emb_dim": 64}
    given = {p.name: usual.get(p.name, 1) for p in benchmark.given if not p.is_variant}
    stands_for = benchmark.parameter(of).stands_for or (lambda size: {of: size})
    runs, values, bounds = [], {}, {}
    for (name, row), variant in itertools.product(results.items(), variants):
        for size, result in zip(sizes, row, strict=True):
            shape = given | {p.name: variant for p in benchmark.variants} | (stands_for(size) or {})
            words = _words(benchmark, variant)
            run = {"experiment": of, "variant": words, "implementation": name, "at": size}
            run |= {**benchmark.all_parameters(shape), "dtype": "float16", "device": "cuda"}
            runs.append({**run, "status": result if isinstance(result, str) else "ok"})
            for metric in benchmark.metrics if not isinstance(result, str) else ():
                key = (of, words, metric.name, name, size)
                values[key] = float(result) * (1.5 if variant else 1)
                around = (spread or 0.0) * values[key] if not metric.exact and spread else None
                ends = (values[key] - around, values[key] + around) if around else (None, None)
                bounds[key] = dict(zip(("low", "high"), ends, strict=True))
            for metric in benchmark.metrics if not isinstance(result, str) else ():
                if metric.work:
                    key = (of, words, "operations", name, size)
                    values[key] = metric.work(shape)
                    break
    plan["runs"] = [{"device": "cuda"}]
    table = pd.DataFrame(runs)
    index = pd.MultiIndex.from_tuples([*values], names=VALUE)
    is_ok = table.status == "ok"
    found = pd.MultiIndex.from_tuples([*bounds], names=VALUE)
    intervals = pd.DataFrame([*bounds.values()], found, columns=["low", "high"])
    return Dataset(
        benchmark=benchmark,
        plans={of: plan},
        values=pd.Series([*values.values()], index, dtype=float, name="value").sort_index(),
        intervals=intervals.astype(float).sort_index(),
        runs=table[is_ok].set_index(RUN).sort_index(),
        failed=table[~is_ok].set_index(RUN).sort_index(),
        speeds=_speeds(values, variants, benchmark),
        comparisons=pd.DataFrame(),
        ceilings=None,
        declared={entry["name"]: entry for entry in plan["implementations"]},
        folder=folder,
    )


def _words(benchmark: Benchmark, variant: bool) -> str:
    return " ".join(f"{p.name}={str(variant).lower()}" for p in benchmark.variants)


def _speeds(
    values: Mapping[tuple[Any, ...], float], variants: Sequence[bool], benchmark: Benchmark
) -> pd.DataFrame:
    """Of each implementation over the first one, and of the second variant over the first."""
    rows = []
    for (of, words, metric, name, at), value in values.items():
        (first, *_) = (key[3] for key in values)
        pairs = [("implementations", (of, words, metric, first, at), first)]
        if len(variants) > 1 and words == _words(benchmark, True):
            other = (of, _words(benchmark, False), metric, name, at)
            pairs.append((benchmark.variants[0].name, other, name))
        for compared, key, reference in pairs:
            if key in values:
                x = values[key] / value
                verdict = "faster" if x > 1 + MARGIN else "slower" if x < 1 - MARGIN else "equal"
                found = (of, compared, words, metric, name, reference, at, x, x, x, verdict)
                rows.append(found)
    columns = [*SPEED, "x", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).set_index(SPEED).sort_index()


def sweep_of(results: Results, *arguments: Any, **options: Any) -> Sweep:
    """The sweep of `dataset_of`."""
    return dataset_of(results, *arguments, **options).sweeps[0]


def drawn(sweep: Sweep, quantity: str, *names: str, languages: Sequence[str] = BOTH) -> Figure:
    """The figure of a quantity of these implementations, by default of all."""
    planned = [entry["name"] for entry in sweep.plan["implementations"]]
    return stage.draw(sweep, languages, quantity, names or planned)
