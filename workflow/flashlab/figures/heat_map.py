"""The heat map of comparisons: a row for each size, a column for each metric and implementation.

The ratios are those that the findings give, so that figures and sentences agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Experiment, Row, Variant
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Metric
from flashlab.figures.labels import label_covaried, label_variant, title_metric
from flashlab.figures.placement import POINTS, text_inches, wrap_texts
from flashlab.figures.style import (
    PAGE_INCHES,
    SMALL_POINTS,
    Style,
    lay_out,
    looks_of,
    name_artists,
    name_rows,
    new_panels,
    three_digits,
    write,
)

ROWS_OF_A_PAGE = 60
DOUBLINGS = 3.0
"""Where the colours end: 8 times and an eighth."""

ROW_INCHES = 0.13
GAP_ROWS = 0.4
"""Between two blocks of rows, in rows."""

TITLE_ROWS = 0.92
"""Rows that a line of a block's title is as high as."""

CELL_INCHES = 0.6
"""The most that a cell is wide."""

TITLE_INCHES = 1.5
"""Width of a title beside the rows' labels."""

SHADES = LinearSegmentedColormap.from_list(
    "ratios", ["#A6500A", "#E9A86A", "#F7F7F7", "#7FB3D9", "#10538A"]
).with_extremes(bad="#EDEDED")
"""Orange for worse and blue for better, which the colour-vision deficiencies leave apart."""

Block = tuple[Experiment, Variant]
"""The rows of an experiment in one variant."""


@dataclass(frozen=True)
class Comparisons:
    """The experiments with a comparison, what is compared in them, and how it came out.

    `estimates` are those of the findings, by the run's record and the metric.
    """

    experiments: Sequence[Experiment]
    entries: Sequence[Mapping[str, Any]]
    metrics: Sequence[Metric]
    estimates: Mapping[tuple[str, str | None], Mapping[str, Any]]


def compare(experiments: Sequence[Experiment], findings: Sequence[Finding]) -> Comparisons:
    """What the findings compare with the baseline in these experiments."""
    comparisons = [finding for finding in findings if finding.kind == "comparison"]
    names = {finding.experiment for finding in comparisons}
    compared = [
        experiment
        for experiment in experiments
        if not experiment.is_summary and experiment.name in names
    ]
    entries = {
        entry["name"]: entry
        for experiment in compared
        for entry in experiment.plan["implementations"]
        if entry["name"] != experiment.baseline
    }
    return Comparisons(
        experiments=compared,
        entries=[*entries.values()],
        metrics=[metric for metric in experiments[0].benchmark.compared if not metric.exact],
        estimates={
            (run["record"], f.metric): estimate
            for experiment in compared
            for f in comparisons
            if f.experiment == experiment.name
            for estimate in f.estimates
            if (
                run := experiment.run_at(
                    f.subject["implementation"], f.variant or (), estimate["value"]
                )
            )
        },
    )


def heat_map_blocks(experiments: Sequence[Experiment]) -> list[Block]:
    """The blocks of all experiments, without those whose runs are all in an earlier one."""
    known: set[tuple[Any, ...]] = set()
    blocks = []
    for experiment in experiments:
        for variant in experiment.variants:
            keys = {
                experiment.key_of(run)
                for run in experiment.runs
                if experiment.variant_of(run) == variant
            }
            if not keys <= known:
                blocks.append((experiment, variant))
            known |= keys
    return blocks


def heat_map_pages(compared: Comparisons) -> list[list[Block]]:
    """The blocks on each page, as many as fit; an experiment's are not parted."""
    pages: list[list[Block]] = [[]]
    rows = 0
    for _, grouped in itertools.groupby(heat_map_blocks(compared.experiments), lambda b: b[0].name):
        blocks = list(grouped)
        more = sum(len(experiment.values) for experiment, _ in blocks)
        if pages[-1] and rows + more > ROWS_OF_A_PAGE:
            pages.append([])
            rows = 0
        pages[-1] += blocks
        rows += more
    return pages


def _place_blocks(
    blocks: Sequence[Block], languages: Sequence[str]
) -> tuple[list[float], list[str]]:
    """Where each block begins, in rows, and then the map ends; and what each block is headed by.

    An experiment's title is at its first block, the variant, if it has several, at each.
    """
    begins, titles = [0.0], []
    for number, (experiment, variant) in enumerate(blocks):
        is_first = experiment not in [other for other, _ in blocks[:number]]
        texts = [experiment.plan["title"][language] for language in languages if is_first]
        if len(experiment.variants) > 1:
            texts.append(label_variant(experiment.benchmark, variant, languages))
        lines = wrap_texts(list(dict.fromkeys(texts)), SMALL_POINTS, TITLE_INCHES, bold=True)
        rows = max(len(experiment.values), TITLE_ROWS * len(lines))
        begins.append(begins[-1] + rows + GAP_ROWS)
        titles.append("\n".join(lines))
    return begins, titles


def _draw_column(
    axes: Axes, compared: Comparisons, runs: Mapping[float, Row], metric: Metric, column: int
) -> None:
    """The cells of an implementation by their places, with their numbers."""
    name = compared.entries[column]["name"]
    estimates = [compared.estimates.get((r["record"], metric.name), {}) for r in runs.values()]
    ratios = np.array([estimate.get("estimate", np.nan) for estimate in estimates])
    shares = np.ma.masked_invalid(Normalize(-DOUBLINGS, DOUBLINGS)(np.log2(ratios)))
    bars = axes.barh(list(runs), 0.97, 0.92, column + 0.015, color=SHADES(shares), linewidth=0)
    cells = zip(runs.items(), estimates, bars, shares.filled(0.5), strict=True)
    for (place, run), estimate, bar, share in cells:
        name_artists(name, [bar], metric.name, [run["record"]])
        missing = "–" if run["status"] == "ok" else "×"
        text = three_digits(estimate["estimate"]) if estimate else missing
        style: Style = {
            "fontweight": "bold" if estimate.get("verdict") in ("above", "below") else "normal",
            "color": "white" if abs(share - 0.5) > 0.33 else "#1c1c1c",
            "ha": "center",
            "va": "center_baseline",
        }
        name_artists(name, [write(axes, text, (column + 0.5, place), **style)])


def draw_heat_map(
    compared: Comparisons, blocks: Sequence[Block], languages: Sequence[str]
) -> Figure:
    """Each sampled metric against the baseline: a block of rows an experiment and variant.

    Bold where the difference is decided, × where the run has no result, – where only the baseline's
    has none.
    """
    looks = looks_of(compared.entries)
    begins, titles = _place_blocks(blocks, languages)
    places = {
        (number, size): begins[number] + row + 0.5
        for number, (experiment, _) in enumerate(blocks)
        for row, size in enumerate(experiment.values)
    }
    labels = [
        ", ".join([f"{experiment.parameter.symbol} = {size}", *along])
        for experiment, _ in blocks
        for size, along in zip(experiment.values, label_covaried(experiment), strict=True)
    ]
    beside = TITLE_INCHES + max(text_inches(label, SMALL_POINTS) for label in labels) + 0.1
    free = PAGE_INCHES - beside - CELL_INCHES * len(looks) * len(compared.metrics)
    heads = max(text_inches(name, SMALL_POINTS, bold=True) for name in looks) * POINTS
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(compared.metrics), sharey=True)
    bold: Style = {"fontweight": "bold"}
    for axes, metric in zip(panels, compared.metrics, strict=True):
        name_rows(axes, labels, list(places.values()), begins[-1] - GAP_ROWS)
        axes.set(xlim=(0, len(looks)), xticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(title_metric(metric, languages), pad=heads + 5)
        for column, (name, look) in enumerate(looks.items()):
            at, coords = (column + 0.5, 1.0), ("data", "axes fraction")
            upright: Style = {"rotation": 90, "ha": "center", "va": "bottom", **bold}
            head = write(axes, name, at, (0, 2), coords, color=look.text, **upright)
            name_artists(name, [head])
            runs = {
                place: run
                for (number, size), place in places.items()
                if (run := blocks[number][0].run_at(name, blocks[number][1], size))
            }
            _draw_column(axes, compared, runs, metric, column)
    for begin, title in zip(begins, titles, strict=False):
        at, coords = (0.0, begin), ("figure fraction", "data")
        style: Style = {"va": "top", "linespacing": 1.35, "in_layout": False, **bold}
        write(panels[0], title, at, (0, 0), coords, **style)
    lay_out(figure, ROW_INCHES * (begins[-1] - GAP_ROWS), TITLE_INCHES, max(0.0, free))
    return figure
