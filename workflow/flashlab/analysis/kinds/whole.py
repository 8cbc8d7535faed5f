"""Who is best by a time that consists of parts, and which parts fill it (`benchmarks.model.Split`).

Such a time is not what implementations are chosen by elsewhere: most of it may be nobody's merit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flashlab.analysis.experiment import Experiment, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.choice import places_along
from flashlab.analysis.ratios import rounded
from flashlab.analysis.series import Series


def wholes(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """A finding for each variant in which several implementations have the time.

    At the last value of the sweep where they do, it names who is best, what fills that time, and
    the same of whoever is best by the metric that is chosen by. Parts may leave some of it out.
    """
    benchmark = experiment.benchmark
    split, decisive = benchmark.split, step_metric(experiment)
    measured = {metric.name: metric for metric in benchmark.metrics}
    if split is None or split.whole not in measured:
        return
    whole = measured[split.whole]
    parts = [measured[name] for name in split.parts if name in measured]
    for variant in experiment.variants:
        every = {n: Series(experiment, n, variant, whole) for n in experiment.implementations}
        places = places_along(given.estimates, [*every.values()])
        if not places:
            continue
        at, chosen = [*places.items()][-1]
        choose = max if decisive.higher_is_better else min
        decided = {
            name: Series(experiment, name, variant, decisive).medians[at]
            for name, series in every.items()
            if at in series.medians
        }
        told: list[dict[str, Any]] = []
        for name in dict.fromkeys((chosen.best, choose(decided, key=decided.__getitem__))):
            total = every[name].medians[at]
            times = {
                part.name: Series(experiment, name, variant, part).medians.get(at) for part in parts
            }
            median = rounded(given.estimates.along(every[name])[at].median)
            shares = {part: rounded(time / total) for part, time in times.items() if time}
            told.append({"name": name, "median": median, "shares": shares})
        verdict = "inconclusive" if chosen.undecided else "level"
        yield Finding(
            "whole",
            experiment.name,
            {"metric": whole.name, "variant": dict(variant)},
            "one_best" if chosen.is_alone else verdict,
            facts={"at": at, "told": told, "level": chosen.level, "open": chosen.undecided},
            estimates=[{"value": value, **each.to_json()} for value, each in places.items()],
        )


WHOLE = Kind(
    label="kind.whole",
    verdicts=("one_best", "level", "inconclusive"),
    of_experiment=[(EXPERIMENTS, wholes)],
)
