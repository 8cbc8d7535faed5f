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

BOTH = ("zh_TW", "en")
SIZES = (128, 256, 512, 1024)
PLAIN = ATTENTION.having(())
USUAL = {"seq_len": 64, "num_heads": 4, "emb_dim": 64}

Results = Mapping[str, Sequence[float | str]]


def titles(svg: Path) -> list[str]:
    """What the points of an SVG file stand for."""
    found = ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}title")
    return [str(node.text) for node in found]


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that a figure shows, with the box that its letters cover."""
    figure.draw_without_rendering()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                tick.label1.set_visible(False)
    return [
        (text.get_text(), text.get_window_extent().padded(0, -0.15 * text.get_fontsize()))
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text()
    ]


def texts_of(figure: Figure) -> list[str]:
    """Every text that a figure shows."""
    return [text for text, _ in text_boxes(figure)]


def assert_legible(figure: Figure) -> Figure:
    """No two texts cover one another, and none reaches beyond the figure, but for its margins."""
    boxes, edge, slack = text_boxes(figure), figure.bbox, figure.dpi / 72
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        assert not first.overlaps(second), (one, other)
    for text, box in boxes:
        assert min(box.x0, box.y0) >= -slack, text
        assert box.x1 <= edge.x1 + slack and box.y1 <= edge.y1 + slack, text
    return figure


def lines_of(figure: Figure, *colours: str) -> list[Line2D]:
    """The lines of values in these colours."""
    every = [(axes, line) for axes in figure.axes for line in axes.lines]
    found = [line for axes, line in every if line.get_transform() == axes.transData]
    return [line for line in found if line.get_color() in colours]


def crosses_of(figure: Figure) -> list[float]:
    """The positions of the crosses of runs without a result."""
    lines = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    return [float(x) for line in lines for x in line.get_xdata()]


def dataset_of(
    results: Results,
    sizes: Sequence[int] = SIZES,
    variants: Sequence[bool] = (False,),
    spread: float = 0.01,
    of: str = "seq_len",
    benchmark: Benchmark = PLAIN,
    folder: Path = Path(),
) -> Dataset:
    """A dataset of one sweep, from the result of each implementation at each size.

    A result is the value of each metric, or a status; in the second variant it is half as much
    again. An interval is `spread` wide on both sides; speeds are decided by their estimates.
    """
    plan = experiment_document(benchmark.name, [*results], of, of) | {"runs": [{"device": "cuda"}]}
    given = {p.name: USUAL.get(p.name, 1) for p in benchmark.given if not p.is_variant}
    stands_for = benchmark.parameter(of).stands_for or (lambda size: {of: size})
    runs, values, bounds = [], {}, {}
    for (name, row), variant in itertools.product(results.items(), variants):
        for size, result in zip(sizes, row, strict=True):
            shape = given | {p.name: variant for p in benchmark.variants} | (stands_for(size) or {})
            words = _words(benchmark, variant)
            run = {"experiment": of, "variant": words, "implementation": name, "at": size}
            run |= {**benchmark.all_parameters(shape), "dtype": "float16", "device": "cuda"}
            runs.append({**run, "status": result if isinstance(result, str) else "ok"})
            if isinstance(result, str):
                continue
            works = [metric.work for metric in benchmark.metrics if metric.work]
            if works:
                values[of, words, "operations", name, size] = works[0](shape)
            for metric in benchmark.metrics:
                key = (of, words, metric.name, name, size)
                values[key] = float(result) * (1.5 if variant else 1)
                around = None if metric.exact else spread * values[key]
                bounds[key] = [values[key] + s * around if around else None for s in (-1, 1)]
    table, index = pd.DataFrame(runs), pd.MultiIndex.from_tuples([*bounds], names=VALUE)
    intervals = pd.DataFrame([*bounds.values()], index, columns=["low", "high"])
    index = pd.MultiIndex.from_tuples([*values], names=VALUE)
    is_ok = table.status == "ok"
    return Dataset(
        benchmark=benchmark,
        plans={of: plan},
        values=pd.Series([*values.values()], index, dtype=float, name="value").sort_index(),
        intervals=intervals.astype(float).sort_index(),
        runs=table[is_ok].set_index(RUN).sort_index(),
        failed=table[~is_ok].set_index(RUN).sort_index(),
        speeds=_speeds(values, benchmark),
        comparisons=pd.DataFrame(),
        ceilings=None,
        declared={entry["name"]: entry for entry in plan["implementations"]},
        folder=folder,
    )


def _words(benchmark: Benchmark, variant: bool) -> str:
    return " ".join(f"{p.name}={str(variant).lower()}" for p in benchmark.variants)


def _speeds(values: Mapping[tuple[Any, ...], float], benchmark: Benchmark) -> pd.DataFrame:
    """Of each implementation over the first one, and of the second variant over the first."""
    rows, first, off = [], next((key[3] for key in values), None), _words(benchmark, False)
    for (of, words, metric, name, at), value in values.items():
        pairs = [("implementations", (of, words, metric, first, at), first)]
        if words != off:
            pairs.append((benchmark.variants[0].name, (of, off, metric, name, at), name))
        for compared, key, reference in pairs:
            if key in values:
                x = values[key] / value
                verdict = "faster" if x > 1 + MARGIN else "slower" if x < 1 - MARGIN else "equal"
                rows.append((of, compared, words, metric, name, reference, at, x, x, x, verdict))
    columns = [*SPEED, "x", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).set_index(SPEED).sort_index()


def sweep_of(results: Results, *arguments: Any, **options: Any) -> Sweep:
    """The sweep of `dataset_of`."""
    return dataset_of(results, *arguments, **options).sweeps[0]


def drawn(sweep: Sweep, quantity: str, *names: str, languages: Sequence[str] = BOTH) -> Figure:
    """The legible figure of a quantity of these implementations, by default of all."""
    planned = [entry["name"] for entry in sweep.plan["implementations"]]
    return assert_legible(stage.draw(sweep, languages, quantity, names or planned))
