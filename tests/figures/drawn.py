"""A figure's texts and marks, as the tests read them, and sweeps made by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from planted.records import experiment_document

from flashlab.analysis.frames import RUN, SPEED, VALUE, Dataset, Sweep
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures import stage
from flashlab.statistics import MARGIN

BOTH = ("zh_TW", "en")
SIZES = (128, 256, 512, 1024)
PLAIN = ATTENTION.having(())
WORK = next(metric.work for metric in PLAIN.metrics if metric.work)
BOUNDS = ("value", "low", "high")
USUAL = {"batch_size": 1, "seq_len": 64, "num_heads": 4, "emb_dim": 64}

Results = Mapping[str, Sequence[float | str]]


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


def lines_of(panels: Sequence[Axes], *colours: str) -> list[Line2D]:
    """The lines of values in these colours, or in all."""
    every = [(axes, line) for axes in panels for line in axes.lines]
    found = [line for axes, line in every if line.get_transform() == axes.transData]
    return [line for line in found if line.get_color() in colours or not colours]


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
) -> Dataset:
    """A dataset of one sweep of attention, from the result of each implementation at each size.

    A result is the value of each metric, or a status; with the mask it is half as much again. An
    interval is `spread` wide on both sides; speeds are decided by their estimates.
    """
    plan = experiment_document("attention", [*results], of, of) | {"runs": [{"device": "cuda"}]}
    runs, values = [], list[dict[str, Any]]()
    for (name, row), causal in itertools.product(results.items(), variants):
        for at, result in zip(sizes, row, strict=True):
            key = {"experiment": of, "variant": f"causal={str(causal).lower()}", "at": at}
            key |= {"implementation": name}
            shape = ATTENTION.all_parameters({**USUAL, of: at, "causal": causal})
            is_ok, about = not isinstance(result, str), {"dtype": "float16", "device": "cuda"}
            runs.append({**key, **shape, **about, "status": "ok" if is_ok else result})
            if is_ok:
                values.append({**key, "metric": "operations", "value": WORK(shape)})
            for metric in PLAIN.metrics if is_ok else ():
                value = float(result) * (1.5 if causal else 1)
                by = math.nan if metric.exact else spread * value
                bounds = dict(zip(BOUNDS, (value, value - by, value + by), strict=True))
                values.append({**key, "metric": metric.name, **bounds})
    table, frame = pd.DataFrame(values, columns=[*VALUE, *BOUNDS]), pd.DataFrame(runs)
    indexed, is_ok = table.set_index(VALUE).sort_index().astype(float), frame.status == "ok"
    return Dataset(
        benchmark=PLAIN,
        plans={of: plan},
        values=indexed["value"],
        intervals=indexed[["low", "high"]],
        runs=frame[is_ok].set_index(RUN).sort_index(),
        failed=frame[~is_ok].set_index(RUN).sort_index(),
        speeds=_speeds(table, next(iter(results))),
        comparisons=pd.DataFrame(),
        ceilings=None,
        declared={entry["name"]: entry for entry in plan["implementations"]},
        folder=Path(),
    )


def _speeds(table: pd.DataFrame, first: str) -> pd.DataFrame:
    """Of each implementation over the first one, and with the mask over without it."""
    is_full, on = table.variant == "causal=false", ["experiment", "metric", "at"]
    of_first, names = table[table.implementation == first], {"implementation": "reference"}
    over = table.merge(of_first.rename(columns=names), on=[*on, "variant"], suffixes=("", "_of"))
    masked = table[~is_full].merge(table[is_full], on=[*on, "implementation"], suffixes=("", "_of"))
    masked = masked.assign(compared="causal", reference=masked.implementation)
    speeds = pd.concat([over.assign(compared="implementations"), masked])
    x = speeds.value_of / speeds.value
    verdicts = np.select([x > 1 + MARGIN, x < 1 - MARGIN], ["faster", "slower"], "equal")
    speeds = speeds.assign(x=x, low=x, high=x, verdict=verdicts)
    speeds = speeds.rename(columns={"implementation": "subject"}).set_index(SPEED).sort_index()
    return speeds[["x", "low", "high", "verdict"]]


def sweep_of(results: Results, *arguments: Any, **options: Any) -> Sweep:
    """The sweep of `dataset_of`."""
    return dataset_of(results, *arguments, **options).sweeps[0]


def drawn(sweep: Sweep, quantity: str, *names: str, languages: Sequence[str] = BOTH) -> Figure:
    """The legible figure of a quantity of these implementations, by default of all."""
    planned = [entry["name"] for entry in sweep.plan["implementations"]]
    return assert_legible(stage.draw(sweep, languages, quantity, names or planned))
