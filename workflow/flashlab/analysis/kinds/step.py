"""Findings about steps: what an implementation gains over the one that it improves on.

They are judged as every other comparison is. Where both runs were a step is reported with
the counter that changed most. Other things may have changed with it too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from flashlab.analysis.experiment import Sweep, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.comparison import compared_ratios, describe_range
from flashlab.analysis.ratios import rounded, shared_verdict, with_verdict
from flashlab.analysis.series import Series, build_finding
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import Label

VERDICTS = {"above": "helps", "below": "hurts", "equal": "no_difference"}

TIME_IN_KERNELS = "busy_time"
"""A counter that is the time itself, and so no cause of it."""

MOVED = 1.25
"""Least factor by which a counter must change to be named."""

GOOD_FOR = {"helps": True, "hurts": False}
"""Whether a counter that explains a verdict must have improved, or have become worse."""

SHOWN_IN = {"B": (1e9, " GB"), "1": (1e6, " × 10⁶"), "%": (1.0, "%")}
"""By a counter's unit: the divisor of its value in sentences, and the text that follows it."""


def _improvement(counter: Metric, before: float, after: float) -> float:
    """The logarithm of how many times as good a counter is: infinite where it came or went."""
    worse, better = (before, after) if counter.higher_is_better else (after, before)
    if not worse or not better:
        return math.inf if better else -math.inf
    return math.log(better / worse)


def _moved_counter(
    sweep: Sweep, names: tuple[str, str], value: int, metric: Metric, improved: bool
) -> dict[str, Any]:
    """As a fact the counter that moved most, the right way, from one implementation to another.

    In the unit in which it is told. Empty where none did, or where one of the two was not counted.
    """
    runs = [sweep.run_at(name, sweep.variants[0], value) for name in names]
    counted = [sweep.counters_of(run, metric.name) for run in runs if run and run["status"] == "ok"]
    if len(counted) < 2 or not all(counted):
        return {}
    moved: dict[str, tuple[float, Metric, list[float]]] = {}
    for counter in sweep.benchmark.counters_on(sweep.runs[0]["device"])[metric.name]:
        before, after = values = [of_run[counter.quantity.name] for of_run in counted]
        if before == after or counter.quantity.name == TIME_IN_KERNELS:
            continue
        improvement = _improvement(counter, before, after)
        if (improvement > 0) == improved and abs(improvement) >= math.log(MOVED):
            moved[counter.name] = abs(improvement), counter, values
    if not moved:
        return {}
    _, counter, values = max(moved.values(), key=lambda entry: entry[0])
    divisor, unit = SHOWN_IN.get(counter.unit, (1.0, f" {counter.unit}"))
    before, after = (rounded(each / divisor) for each in values)
    label = Label(counter.labels)
    told = {"counter": label, "unit": unit, "before": before, "after": after, "at": value}
    return {"moved": told}


def steps(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """How many times as good as the step before each step is, by each sampled metric."""
    metrics = metrics_of(sweep.benchmark, exact=False)
    for variant, names, metric in itertools.product(sweep.variants, sweep.steps, metrics):
        pair = [Series(sweep, name, variant, metric) for name in reversed(names)]
        ratios, at = compared_ratios(given, pair), sweep.values[-1]
        shared = shared_verdict(ratios)
        verdict = VERDICTS.get(shared, shared)
        facts = {
            **describe_range(ratios),
            "helps_at": with_verdict(ratios, "above"),
            "hurts_at": with_verdict(ratios, "below"),
            "equal_at": with_verdict(ratios, "equal"),
            "undecided_at": with_verdict(ratios, "inconclusive"),
        }
        if verdict in GOOD_FOR:
            facts |= _moved_counter(sweep, names, at, metric, GOOD_FOR[verdict])
        subject = {"other": names[0]}
        yield build_finding("step", pair, verdict, facts=facts, ratios=ratios, subject=subject)


STEP = Kind(
    label="kind.step",
    verdicts=("helps", "hurts", "no_difference", "mixed", "inconclusive"),
    of_experiment=[(EXPERIMENTS, steps)],
)
