"""Whether another implementation is the fastest on the second side than on the first."""

from __future__ import annotations

from typing import Any

from flashlab.analysis.estimates import Estimates, bases_of
from flashlab.analysis.experiment import Experiment, chosen_metrics, run_keys
from flashlab.analysis.kinds.choice import place
from flashlab.analysis.replication import agreed_value
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.compare.pairs import measurements_in, status_in
from flashlab.compare.rule import TIMES
from flashlab.compare.sides import Records
from flashlab.statistics import Estimate


def _experiment(benchmark: Benchmark, metric: Metric, side: Records) -> Experiment:
    """The runs of a side that have a metric, as findings read them."""
    bases = [benchmark.metric(name) for name in bases_of(metric)]
    runs, metrics, samples = [], [], {}
    for run, records in side.items():
        measured = [measurements_in(records, base) for base in bases]
        if status_in(records) != "ok" or not all(measured):
            continue
        row = {**run.to_row(), "status": "ok"}
        runs.append(row)
        if metric.derived:
            metrics.append({**row, "metric": metric.name})
        for base, found in zip(bases, measured, strict=True):
            value = agreed_value([each.value for each in found])
            metrics.append({**row, "metric": base.name, "value": value})
            kept = [[*each.samples] for each in found]
            if all(kept):
                samples[(*(row[column] for column in run_keys(benchmark)), base.name)] = kept
    processes = [
        {
            **run.to_row(),
            **{name: each.environment.get(name) for name in ("device_name", "gpu_uuid", "boot")},
            "process": each.process,
            "status": each.status,
            "started": each.started,
            "ended": each.ended,
            "warnings": each.warnings,
            "record": f"{run} {each.process}",
        }
        for run, records in side.items()
        for each in records
    ]
    return Experiment({"name": metric.name}, benchmark, runs, metrics, samples, processes)


Shape = tuple[str, str, str]
"""A shape in short, with dtype and kind of device."""


def _fastest(benchmark: Benchmark, metric: Metric, side: Records) -> dict[Shape, str | None]:
    """Who is decidedly the fastest at each shape where there are several; None if nobody is."""
    experiment = _experiment(benchmark, metric, side)
    estimates, shapes = Estimates([experiment]), dict[Shape, dict[str, Estimate]]()
    for row in experiment.runs:
        shape = (" ".join(benchmark.describe(row)), row["dtype"], row["device"])
        estimate = estimates.of_metric(experiment, row, metric.name)
        shapes.setdefault(shape, {})[row["implementation"]] = estimate
    places = {
        shape: place(0, by_name, metric.higher_is_better) for shape, by_name in shapes.items()
    }
    return {shape: each.best if each.is_alone else None for shape, each in places.items() if each}


def compare_choices(benchmark: Benchmark, one: Records, other: Records) -> list[dict[str, Any]]:
    """By the first time that is measured and by every total of times: where who is fastest changes.

    ``total`` shapes have several implementations on both sides, and at ``decided`` of them it is
    decided on both who is the fastest: at ``changes`` not the same one, at the others one of
    ``kept``.
    """
    times = [metric for metric in chosen_metrics(benchmark) if metric.unit in TIMES]
    found = []
    for metric in (*times[:1], *(total for total in benchmark.totals if total in times)):
        first, second = (_fastest(benchmark, metric, side) for side in (one, other))
        common = [shape for shape in first if shape in second]
        decided = [shape for shape in common if first[shape] and second[shape]]
        changed = [shape for shape in decided if first[shape] != second[shape]]
        if decided:
            found.append(
                {
                    "metric": metric.name,
                    "total": len(common),
                    "decided": len(decided),
                    "kept": sorted({str(first[s]) for s in decided if s not in changed}),
                    "changes": [
                        {"shape": shape[0], "one": first[shape], "other": second[shape]}
                        for shape in changed
                    ],
                }
            )
    return found
