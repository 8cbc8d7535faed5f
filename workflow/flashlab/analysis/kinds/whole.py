"""Who is best by a time that consists of parts, and which parts fill it (`benchmarks.model.Split`).

Such a time is not what implementations are chosen by elsewhere: most of it may be nobody's merit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flashlab.analysis.experiment import Experiment, Row, Variant, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.choice import Choice, place
from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.model import Metric
from flashlab.statistics import Estimate


def _shares(
    experiment: Experiment, run: Row, whole: Metric, parts: tuple[str, ...]
) -> Mapping[str, float]:
    """The share of each part that a run has in the whole; they may leave some of it out."""
    times = {name: experiment.metric_row(run, name)["value"] for name in parts}
    total = experiment.metric_row(run, whole.name)["value"]
    return {name: rounded(time / total) for name, time in times.items() if time}


def _runs(experiment: Experiment, variant: Variant, value: int, metric: str) -> dict[str, Row]:
    """The runs at a setting that have a metric, by implementation."""
    found = (experiment.run_at(name, variant, value) for name in experiment.implementations)
    return {
        run["implementation"]: run
        for run in found
        if run and run["status"] == "ok" and experiment.metric_row(run, metric)["value"] is not None
    }


def _verdict(chosen: Choice) -> str:
    if chosen.is_alone:
        return "one_best"
    return "inconclusive" if chosen.undecided else "level"


def wholes(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """A finding for each variant in which several implementations have the time.

    At the last value of the sweep where they do, it names who is best, what fills that time, and
    the same of whoever is best by the metric that is chosen by.
    """
    benchmark = experiment.benchmark
    split, decisive = benchmark.split, step_metric(experiment)
    measured = {metric.name for metric in benchmark.metrics}
    if split is None or split.whole not in measured:
        return
    whole = benchmark.metric(split.whole)
    parts = tuple(name for name in split.parts if name in measured)
    for variant in experiment.variants:
        places: list[tuple[Choice, int, dict[str, Row], dict[str, Estimate]]] = []
        for value in experiment.values:
            runs = _runs(experiment, variant, value, whole.name)
            times = {
                name: given.estimates.of_metric(experiment, run, whole.name)
                for name, run in runs.items()
            }
            if chosen := place(value, times, whole.higher_is_better):
                places.append((chosen, value, runs, times))
        if not places:
            continue
        chosen, at, runs, times = places[-1]
        choose = max if decisive.higher_is_better else min
        fastest = choose(
            runs, key=lambda name: experiment.metric_row(runs[name], decisive.name)["value"]
        )
        told: list[dict[str, Any]] = [
            {
                "name": name,
                "median": rounded(times[name].median),
                "shares": _shares(experiment, runs[name], whole, parts),
            }
            for name in dict.fromkeys((chosen.best, fastest))
        ]
        yield Finding(
            "whole",
            experiment.name,
            {"metric": whole.name, "variant": dict(variant)},
            _verdict(chosen),
            facts={"at": at, "told": told, "level": [*chosen.level], "open": chosen.undecided},
            estimates=[{"value": value, **each.to_json()} for each, value, *_ in places],
        )


WHOLE = Kind(
    label="kind.whole",
    verdicts=("one_best", "level", "inconclusive"),
    of_experiment=[(EXPERIMENTS, wholes)],
)
