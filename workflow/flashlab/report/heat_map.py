"""The heat map: each implementation's speed in percent of the best one's.

A row for each setting, a column for each use and implementation. Whether one is slower than the
best is decided in comparisons.csv, so that the table and the sentences agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import (
    Experiment,
    Variant,
    ladder_of,
    shares_of_best,
    use_metrics,
)
from flashlab.benchmarks.model import Metric
from flashlab.report.data import MOST_RUNS, ReportData
from flashlab.report.document import HeatBlock, HeatCell, HeatMap
from flashlab.telling.values import Label, heading, say

LEAST_IMPLEMENTATIONS = 4
"""The fewest implementations for a heat map; fewer are compared by lines."""

ROWS_OF_MANY = 60
"""The rows on paper where there are many runs, up to the end of an experiment."""

SHADES = ("#FFFFFF", "#CFE0EF", "#7FB0D8", "#2F74B3", "#0B3D62")
"""The colours from 0 to the best: of one hue, so that they differ in lightness alone."""

SPREAD = 1.35
"""The power of a share by which its colour is chosen, which tells the higher ones apart."""

DEEP = 0.66
"""The share from which on text is white."""


def shade(share: float) -> tuple[str, bool]:
    """The colour of a share of the best, between two of `SHADES`; True for a dark one."""
    at = share**SPREAD * (len(SHADES) - 1)
    first = min(int(at), len(SHADES) - 2)
    channels = zip(*(bytes.fromhex(each[1:]) for each in SHADES[first : first + 2]), strict=True)
    mixed = (round(low + (high - low) * (at - first)) for low, high in channels)
    return f"#{bytes(mixed).hex()}", share > DEEP


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


def _cells(
    data: ReportData,
    at: tuple[Experiment, Variant, int],
    metric: Metric,
    names: Sequence[str],
) -> list[HeatCell]:
    """Each implementation's share of the best, bold where it is not shown to be slower.

    × where the run has no result; nothing where there is no run.
    """
    experiment, variant, value = at
    runs = {name: experiment.run_at(name, variant, value) for name in names}
    values = {
        name: row["value"]
        for name, run in runs.items()
        if run is not None
        and run["status"] == "ok"
        and (row := experiment.metric_row(run, metric.name))["value"] is not None
    }
    shares = shares_of_best(metric, values)
    best = max(shares, key=lambda name: shares[name], default="")
    cells = []
    for name, run in runs.items():
        if run is None:
            cells.append(HeatCell(implementation=name))
        elif name not in shares:
            cells.append(HeatCell("×", name, data.number_of(run)))
        else:
            behind = data.gain(experiment, variant, metric, (best, name), value)
            is_level = name == best or (behind is not None and behind.verdict != "above")
            text, number = f"{100 * shares[name]:.0f}", data.number_of(run)
            cells.append(HeatCell(text, name, number, *shade(shares[name]), is_level))
    return cells


def render_heat_map(data: ReportData) -> HeatMap | None:
    """Shares of the best in one pass and in all, a block of rows an experiment and variant.

    None with few implementations, and of steps and alternatives, which are drawn as bars.
    """
    compared = [each for each in data.experiments if each.name in data.compared]
    experiments = [each for each in compared if not each.packed]
    every = (name for experiment in experiments for name in experiment.implementations)
    names = list(dict.fromkeys(every))
    is_of_bars = any(each.has_alternatives for each in data.experiments)
    if len(names) < LEAST_IMPLEMENTATIONS or is_of_bars or ladder_of(data.experiments):
        return None
    metrics = use_metrics(data.benchmark)
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
                [_cells(data, (experiment, variant, value), m, names) for m in metrics],
            )
            for value in experiment.values
        ]
        blocks.append(HeatBlock([*titles, *varied], rows))
    uses = {
        metric.name: say("use", metric.name, metric=heading(metric.labels)) for metric in metrics
    }
    return HeatMap(
        label=say("heat.label"),
        caption=say("caption.heat"),
        implementations=names,
        metrics=uses,
        blocks=blocks,
        printed=printed_blocks(blocks) if len(data.runs) > MOST_RUNS else blocks,
    )


def printed_blocks(blocks: list[HeatBlock]) -> list[HeatBlock]:
    """The first blocks, up to `ROWS_OF_MANY` rows, at least one."""
    printed = blocks[:1]
    for block in blocks[1:]:
        if sum(len(each.rows) for each in [*printed, block]) > ROWS_OF_MANY:
            break
        printed.append(block)
    return printed
