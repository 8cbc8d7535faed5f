"""Findings about steps: what an implementation gains over the one that it improves on.

They are judged as every other comparison is. Where both runs were counted, a step that helps is
reported with the counter whose fall saves most. Other things may have changed with it too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.comparison import compared_ratios, describe_range
from flashlab.analysis.ratios import rounded, shared_verdict, with_verdict
from flashlab.analysis.series import Series, build_finding
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import Label

VERDICTS = {"above": "helps", "below": "hurts", "equal": "no_difference"}

MOVED = 1.25
"""Least factor by which a counter must change to be named."""


def _counted(experiment: Experiment, name: str, value: int, metric: Metric) -> dict[str, float]:
    """The counters of an implementation's run at a value; empty where there are none."""
    run = experiment.run_at(name, experiment.variants[0], value)
    return experiment.counters_of(run, metric.name) if run and run["status"] == "ok" else {}


def _moved_counter(experiment: Experiment, name: str, value: int, metric: Metric) -> dict[str, Any]:
    """As a fact the counter whose fall with a step saves the most cycles.

    What a unit of a multiprocessor does per cycle weighs the counters against one another
    (`Quantity.per_cycle`). The step is compared with the last one before it that was counted. Empty
    where there is none, or no counter fell by `MOVED`.
    """
    previous = {each: other for other, each in experiment.steps}
    now, before_it = _counted(experiment, name, value, metric), previous.get(name)
    while before_it is not None and not _counted(experiment, before_it, value, metric):
        before_it = previous.get(before_it)
    if before_it is None or not now:
        return {}
    earlier = _counted(experiment, before_it, value, metric)
    saved: dict[str, tuple[float, Metric]] = {}
    for counter in experiment.benchmark.counters_on(experiment.runs[0]["device"])[metric.name]:
        quantity = counter.quantity
        before, after = earlier[quantity.name], now[quantity.name]
        if quantity.per_cycle and before > MOVED * after:
            saved[counter.name] = (before - after) / quantity.per_cycle, counter
    if not saved:
        return {}
    _, counter = max(saved.values(), key=lambda entry: entry[0])
    before, after = (rounded(each[counter.quantity.name]) for each in (earlier, now))
    unit = "B" if counter.unit == "B" else ""
    told = {"counter": Label(counter.labels), "unit": unit, "before": before, "after": after}
    return {"moved": told}


def steps(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """How many times as good as the step before each step is, by each sampled metric."""
    metrics = metrics_of(experiment.benchmark, exact=False)
    for variant, names, metric in itertools.product(experiment.variants, experiment.steps, metrics):
        pair = [Series(experiment, name, variant, metric) for name in reversed(names)]
        ratios, at = compared_ratios(given, pair), experiment.values[-1]
        facts = {
            **describe_range(ratios),
            "helps_at": with_verdict(ratios, "above"),
            "hurts_at": with_verdict(ratios, "below"),
            "equal_at": with_verdict(ratios, "equal"),
            "undecided_at": with_verdict(ratios, "inconclusive"),
        }
        if at in facts["helps_at"]:
            facts |= _moved_counter(experiment, names[1], at, metric)
        verdict, subject = shared_verdict(ratios, VERDICTS), {"other": names[0]}
        yield build_finding("step", pair, verdict, facts=facts, ratios=ratios, subject=subject)


STEP = Kind(
    label="kind.step",
    verdicts=("helps", "hurts", "no_difference", "mixed", "inconclusive"),
    of_experiment=[(EXPERIMENTS, steps)],
)
