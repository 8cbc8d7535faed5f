"""The heat map of comparisons: a row for each size, a column for each metric and implementation.

The ratios are those of comparisons.csv, so that the table and the sentences agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from flashlab.analysis.experiment import Experiment, Variant, ladder_of
from flashlab.benchmarks.model import Metric
from flashlab.report.data import MOST_RUNS, ReportData
from flashlab.report.document import HeatBlock, HeatCell, HeatMap
from flashlab.telling.values import Label, heading, say

LEAST_IMPLEMENTATIONS = 3
"""From how many compared implementations on it says more than lines."""

ROWS_OF_MANY = 60
"""The rows on paper where there are many runs, up to the end of an experiment."""

DOUBLINGS = 3.0
"""Where the colours end: 8 times and an eighth."""

SHADES = ("#A6500A", "#E9A86A", "#F7F7F7", "#7FB3D9", "#10538A")
"""Orange for worse and blue for better, which the colour-vision deficiencies leave apart."""

DEEP = 0.66
"""From which part of the way to the last shade on text is white."""


def shade(ratio: float) -> tuple[str, bool]:
    """The colour of a ratio, between two of `SHADES` by its logarithm; whether it is a deep one."""
    place = max(-1.0, min(1.0, math.log2(ratio) / DOUBLINGS))
    at = (place + 1) / 2 * (len(SHADES) - 1)
    first = min(int(at), len(SHADES) - 2)
    channels = zip(*(bytes.fromhex(each[1:]) for each in SHADES[first : first + 2]), strict=True)
    mixed = (round(low + (high - low) * (at - first)) for low, high in channels)
    return f"#{bytes(mixed).hex()}", abs(place) > DEEP


def blocks_of(experiments: list[Experiment]) -> Iterator[tuple[Experiment, Variant]]:
    """The experiments in each variant, without those whose runs are all in an earlier one."""
    known: set[tuple[Any, ...]] = set()
    for experiment in experiments:
        for variant in experiment.variants:
            keys = {
                experiment.key_of(run)
                for run in experiment.runs
                if experiment.variant_of(run) == variant
            }
            if not keys <= known:
                yield experiment, variant
            known |= keys


def _cell(
    data: ReportData, at: tuple[Experiment, Variant, int], metric: Metric, name: str
) -> HeatCell:
    """A ratio, bold where it is decided; × where the run has no result, – where the baseline's."""
    experiment, variant, value = at
    run = experiment.run_at(name, variant, value)
    if run is None:
        return HeatCell(implementation=name)
    number = data.number_of(run)
    found = data.gain(experiment, variant, metric, (name, data.baseline), value)
    if found is None:
        return HeatCell("–" if run["status"] == "ok" else "×", name, number)
    colour, is_deep = shade(found.ratio)
    is_decided = found.verdict in ("above", "below")
    return HeatCell(data.measured(found.ratio), name, number, colour, is_deep, is_decided)


def render_heat_map(data: ReportData) -> HeatMap | None:
    """Each sampled metric against the baseline: a block of rows an experiment and variant.

    None where few implementations are compared, and of steps and alternatives, which are bars.
    """
    compared = [each for each in data.experiments if each.name in data.compared]
    experiments = [each for each in compared if not each.packed]
    every = (name for experiment in experiments for name in experiment.implementations)
    names = [name for name in dict.fromkeys(every) if name != data.baseline]
    is_of_bars = any(each.has_alternatives for each in data.experiments)
    if len(names) < LEAST_IMPLEMENTATIONS or is_of_bars or ladder_of(data.experiments):
        return None
    metrics = [metric for metric in data.benchmark.compared if not metric.exact]
    blocks, titled = list[HeatBlock](), set[str]()
    for experiment, variant in blocks_of(experiments):
        titles = [] if experiment.name in titled else [Label(experiment.plan["title"])]
        titled.add(experiment.name)
        varied = [data.variant(variant)] if len(experiment.variants) > 1 else []
        at = {experiment.value_of(run): run for run in experiment.runs}
        sizes = [experiment.parameter, *experiment.covarying]
        rows = [
            (
                ", ".join(f"{size.symbol} = {at[value][size.name]}" for size in sizes),
                [
                    [_cell(data, (experiment, variant, value), m, name) for name in names]
                    for m in metrics
                ],
            )
            for value in experiment.values
        ]
        blocks.append(HeatBlock([*titles, *varied], rows))
    return HeatMap(
        label=say("heat.label"),
        caption=say("caption.heat", baseline=data.baseline),
        short=say("caption.heat.short", baseline=data.baseline),
        implementations=names,
        metrics={metric.name: heading(metric.part or metric.labels) for metric in metrics},
        blocks=blocks,
        printed=printed_blocks(blocks) if len(data.runs) > MOST_RUNS else blocks,
    )


def printed_blocks(blocks: list[HeatBlock]) -> list[HeatBlock]:
    """The first blocks, up to `ROWS_OF_MANY` rows, and at least one."""
    found = blocks[:1]
    for block in blocks[1:]:
        if sum(len(each.rows) for each in [*found, block]) > ROWS_OF_MANY:
            break
        found.append(block)
    return found
