"""Page one's figure: two rates and peak memory, at the sizes that say most.

Implementations that do not stand out are named in a legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment, Row, Variant, metrics_of
from flashlab.benchmarks.model import FLOPS, Benchmark, Metric
from flashlab.figures.forms import PAGE_INCHES
from flashlab.figures.labels import (
    in_words,
    label_briefly,
    label_fixed,
    label_product,
    title_with_unit,
)
from flashlab.figures.panel import MARK, draw_panel, draw_reference, line_frame, value_limits
from flashlab.figures.style import (
    GREY,
    Style,
    as_number,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    new_panels,
)

PANEL_INCHES = 1.1

FROM_CEILING = 5
"""A ceiling is drawn where the best rate is at least one part in so many of it."""

Sweep = tuple[Experiment, Variant]


# What is drawn


def _ends(sweep: Sweep, value: int) -> set[tuple[Any, ...]]:
    experiment, variant = sweep
    rows = (experiment.run_at(name, variant, value) for name in experiment.implementations)
    return {experiment.key_of(row) for row in rows if row}


def _goes_on(sweep: Sweep, other: Sweep) -> bool:
    """Whether the first runs of the other are the last of this, along the same parameter."""
    (experiment, _), (further, _) = sweep, other
    last = experiment.values[-1]
    alike = further.plan["sweep"] == experiment.plan["sweep"] and further.values[0] == last
    return alike and len(further.values) > 1 and bool(_ends(sweep, last) & _ends(other, last))


def joined(chain: Sequence[Sweep]) -> Experiment:
    """One sweep of all the runs of several, each in one variant."""
    first = chain[0][0]
    entries = {e["name"]: e for experiment, _ in chain for e in experiment.plan["implementations"]}
    runs: dict[Any, Row] = {}
    metrics: dict[Any, Row] = {}
    for experiment, variant in chain:
        for table, rows in ((runs, experiment.runs), (metrics, experiment.metrics)):
            for row in rows:
                if experiment.variant_of(row) == variant:
                    table.setdefault((*experiment.key_of(row), row.get("metric")), row)
    plan = {**first.plan, "implementations": list(entries.values())}
    return Experiment(plan, first.benchmark, list(runs.values()), list(metrics.values()))


def longest_experiment(experiments: Sequence[Experiment]) -> Experiment:
    """What has the most implementations, then values, among sweeps that go on from one another."""
    sweeps = [(each, variant) for each in experiments for variant in each.variants]
    chains = []
    for first in sweeps:
        chain = [first]
        while following := next((s for s in sweeps if _goes_on(chain[-1], s)), None):
            chain.append(following)
        chains.append(joined(chain))
    return max(chains, key=lambda chain: (len(chain.implementations), len(chain.values)))


def shown_metrics(benchmark: Benchmark) -> list[Metric]:
    """The parts of a sampled quantity of which more is better, or else of the first one."""
    sampled = [quantity for quantity in benchmark.quantities.values() if not quantity.exact]
    if not sampled:
        return []
    higher = [quantity for quantity in sampled if quantity.better == "higher"]
    return list(benchmark.panels((higher or sampled)[0].name))[:2]


def _out_of_memory(experiments: Sequence[Experiment]) -> Experiment | None:
    """The first sweep, in one variant, in which some run is out of memory and another is not."""
    for experiment in experiments:
        for variant in experiment.variants:
            runs = [run for run in experiment.runs if experiment.variant_of(run) == variant]
            if {"oom", "ok"} <= {run["status"] for run in runs}:
                return joined([(experiment, variant)])
    return None


# The figure


def _reference(
    experiment: Experiment,
    metric: Metric,
    data: pd.DataFrame,
    product: Ceiling | None,
    languages: Sequence[str],
) -> tuple[float, str, float] | None:
    """What the values are held against: a value, its words, and how far down it goes as a band.

    It is what the device holds, where something ran out of memory; or the matrix product's rate,
    down to what it fell to under load, unless the best rate is far below it.
    """
    if metric.account and "oom" in set(data["status"]):
        capacity = metric.account.capacity(experiment.device)
        if capacity:
            text = f"{in_words('capacity', languages)} {as_number(round(capacity))}"
            return capacity, text, capacity
    if product is None or metric.unit not in FLOPS or metric.quantity.logarithmic:
        return None
    low, high = (rate / FLOPS[metric.unit] for rate in product.bounds)
    text = label_product(product, metric.unit, languages)
    return (high, text, low) if data["value"].max() * FROM_CEILING >= high else None


def draw_summary(
    experiments: Sequence[Experiment],
    emphasised: Sequence[str],
    product: Ceiling | None,
    languages: Sequence[str],
) -> Figure | None:
    """The rates along the longest sweep, and peak memory where something runs out of it.

    None where there is no result to draw. `product` is the rates' ceiling, if it was measured.
    """
    along = longest_experiment(experiments)
    benchmark = experiments[0].benchmark
    shown = [(along, metric) for metric in shown_metrics(benchmark)]
    failing = _out_of_memory(experiments) or along
    shown += [(failing, metric) for metric in metrics_of(benchmark, exact=True)[:1]]
    frames = [line_frame(s, s.implementations, [metric], languages) for s, metric in shown]
    data = pd.concat(frames, ignore_index=True)
    if data["value"].isna().all():
        return None
    highest = data[data["metric"].isin([m.name for m in shown_metrics(benchmark)])]["value"].max()
    entries = {e["name"]: e for s, _ in shown for e in s.plan["implementations"]}.values()
    looks = looks_of(entries, emphasised)
    labelled = [name for name, look in looks.items() if look.stands_out]
    marks = max(int(own["level"].nunique()) for own in frames)
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(shown))
    for (experiment, metric), axes, own in zip(shown, panels, frames, strict=True):
        logarithmic = metric.quantity.logarithmic
        reference = _reference(experiment, metric, own, product, languages)
        further = [] if metric.exact or logarithmic else [highest]
        if reference:  # with room for its words
            further.append(reference[0] * (2 if logarithmic else 1.1))
        draw_panel(
            axes,
            experiment,
            own,
            looks,
            title_with_unit(metric, languages),
            PANEL_INCHES,
            ticks=[str(value) for value in experiment.values],
            limits=value_limits(own, logarithmic, *further),
            logarithmic=logarithmic,
            labelled=labelled,
            rows=marks,
            subtitle=label_fixed(experiment, languages),
        )
        if reference and own["value"].notna().any():
            draw_reference(axes, *reference)
        axes.set_xlabel(label_briefly(experiment))
    apart: Style = {"linestyle": "none"} if along.is_of_problems else {}
    others = {name: look for name, look in looks.items() if not look.stands_out}
    handles = [handle(name, name, **look.sample(**apart)) for name, look in others.items()]
    failures = [status for status in data["status"].unique() if status != "ok"]
    handles += [handle(in_words(status, languages), color=GREY, **MARK) for status in failures]
    draw_legend(figure, handles)
    lay_out(figure, PANEL_INCHES)
    return figure
