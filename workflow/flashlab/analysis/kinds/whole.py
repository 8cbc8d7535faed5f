"""Who is best by a time that consists of parts, and which parts fill it (`benchmarks.model.Split`).

Such a time is not what implementations are chosen by elsewhere: most of it may be nobody's merit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flashlab.analysis.experiment import Experiment, Row, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.choice import Choice, place
from flashlab.analysis.ratios import rounded


def _shares(experiment: Experiment, run: Row, parts: tuple[str, ...]) -> Mapping[str, float]:
    """The share of each part in the sum of all, of those that a run has."""
    times = {name: experiment.metric_row(run, name)["value"] or 0.0 for name in parts}
    total = sum(times.values())
    return {name: rounded(time / total) for name, time in times.items() if time}


def _verdict(chosen: Choice) -> str:
    if chosen.is_alone:
        return "alone"
    return "undecided" if chosen.undecided else "level"


def wholes(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """A finding for each value of the sweep at which several implementations have the time.

    It names who is best, what fills that time, and the same of whoever is best by the metric that
    is chosen by.
    """
    benchmark = experiment.benchmark
    split, decisive = benchmark.split, step_metric(experiment)
    if split is None or split.whole not in {metric.name for metric in benchmark.metrics}:
        return
    whole = benchmark.metric(split.whole)
    parts = tuple(name for name in split.parts if name in {m.name for m in benchmark.metrics})
    for variant in experiment.variants:
        for value in experiment.values:
            found = (
                experiment.run_at(name, variant, value) for name in experiment.implementations
            )
            runs = {
                run["implementation"]: run
                for run in found
                if run is not None
                and run["status"] == "ok"
                and experiment.metric_row(run, whole.name)["value"] is not None
            }
            times = {
                name: given.estimates.of_metric(experiment, run, whole.name)
                for name, run in runs.items()
            }
            chosen = place(value, times, whole.higher_is_better)
            if chosen is None:
                continue
            choose = max if decisive.higher_is_better else min
            otherwise = choose(
                runs, key=lambda name: experiment.metric_row(runs[name], decisive.name)["value"]
            )
            told: list[dict[str, Any]] = [
                {
                    "name": name,
                    "median": rounded(times[name].median),
                    "shares": _shares(experiment, runs[name], parts),
                }
                for name in dict.fromkeys((chosen.best, otherwise))
            ]
            yield Finding(
                "whole",
                experiment.name,
                {"metric": whole.name, "variant": dict(variant), "value": value},
                _verdict(chosen),
                facts={"told": told},
                estimates=[{"value": value, **chosen.to_json()}],
            )


WHOLE = Kind(
    label="kind.whole",
    verdicts=("alone", "level", "undecided"),
    of_experiment=[(EXPERIMENTS, wholes)],
)
