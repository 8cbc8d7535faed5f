"""Findings about steps: what an implementation gains over the one that it improves on.

They are judged as every other comparison is. Where both runs were a step is reported with
the counter that changed most. Other things may have changed with it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.comparison import describe_range
from flashlab.analysis.ratios import (
    INTERVALS,
    advantages,
    rounded,
    shared_verdict,
    with_verdict,
    without_samples,
)
from flashlab.analysis.series import Series, build_finding
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import Label

VERDICTS = {"above": "helps", "below": "hurts", "equal": "no_difference"}

TIME_IN_KERNELS = "busy_time"
"""A counter that is the time itself, and so no cause of it."""

MOVED = 1.25
"""Least factor by which a counter must change to be named."""


@dataclass(frozen=True)
class Moved:
    """A counter of two runs: what it was before a step, and what it is after."""

    counter: Metric
    before: float
    after: float

    @property
    def factor(self) -> float:
        """How many times as good it is: above 1 is better; infinite where it is gone."""
        if self.counter.higher_is_better:
            worse, better = self.before, self.after
        else:
            worse, better = self.after, self.before
        return math.inf if worse == 0 else better / worse

    @property
    def improves(self) -> bool:
        """Whether it is better after the step than before."""
        return self.factor > 1


GOOD_FOR = {"helps": True, "hurts": False}
"""Whether a counter that explains a verdict must have improved, or have become worse."""


def moved_counter(
    sweep: Sweep, pair: tuple[str, str], value: int, metric: Metric, improved: bool
) -> Moved | None:
    """The counter that moved most, the right way, from one implementation to another at a value.

    None where none did, or where one of the two was not counted.
    """
    runs = [sweep.run_at(name, sweep.variants[0], value) for name in pair]
    if any(run is None or run["status"] != "ok" for run in runs):
        return None
    first, second = (sweep.counters_of(run, metric.name) for run in runs if run)
    if not first or not second:
        return None
    declared = sweep.benchmark.counters_on(sweep.runs[0]["device"])[metric.name]
    found = [
        Moved(counter, first[name], second[name])
        for counter in declared
        if (name := counter.quantity.name) != TIME_IN_KERNELS and first[name] != second[name]
    ]
    fitting = [m for m in found if m.improves == improved and _extent(m) >= math.log(MOVED)]
    return max(fitting, key=_extent, default=None)


def _extent(moved: Moved) -> float:
    """By how much a counter moved, either way."""
    return abs(math.log(moved.factor)) if 0 < moved.factor < math.inf else math.inf


SHOWN_IN = {"B": (1e9, " GB"), "1": (1e6, " × 10⁶"), "%": (1.0, "%")}
"""By a counter's unit: the divisor of its value in sentences, and the text that follows it."""


def _described(moved: Moved, value: int) -> dict[str, Any]:
    """A counter that changed, in the unit in which it is told, and at which value."""
    divisor, unit = SHOWN_IN.get(moved.counter.unit, (1.0, f" {moved.counter.unit}"))
    return {
        "counter": Label(moved.counter.labels),
        "unit": unit,
        "before": rounded(moved.before / divisor),
        "after": rounded(moved.after / divisor),
        "at": value,
    }


def steps(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """How many times as good as the step before each step is, by each sampled metric."""
    for variant in sweep.variants:
        for before, name in sweep.steps:
            for metric in metrics_of(sweep.benchmark, exact=False):
                pair = [Series(sweep, who, variant, metric) for who in (name, before)]
                yield _step(sweep, pair, given.estimates)


def _step(sweep: Sweep, pair: list[Series], estimates: Estimates) -> Finding:
    mine, theirs = pair
    metric = mine.metric
    after, before = map(estimates.along, pair)
    found = advantages(after, before, metric.higher_is_better)
    shared = shared_verdict(found)
    verdict = VERDICTS.get(shared, shared)
    facts: dict[str, Any] = {
        **describe_range(found),
        "helps_at": with_verdict(found, "above"),
        "hurts_at": with_verdict(found, "below"),
        "equal_at": with_verdict(found, "equal"),
        "undecided_at": with_verdict(found, "inconclusive"),
    }
    at = sweep.values[-1]
    names = theirs.implementation, mine.implementation
    moved = None
    if verdict in GOOD_FOR:
        moved = moved_counter(sweep, names, at, metric, GOOD_FOR[verdict])
    if moved:
        facts["moved"] = _described(moved, at)
    return build_finding(
        "step",
        pair,
        verdict,
        facts=facts,
        method=f"median {metric.labels['en']} against the step before, as a factor above 1 where "
        f"better, {INTERVALS}; counters of one pass of each",
        n=min((ratio.samples for ratio in found), default=0),
        estimates=[ratio.to_json() for ratio in found],
        reasons=without_samples(found),
        subject={"other": theirs.implementation},
    )


STEP = Kind(
    name="step",
    label="kind.step",
    verdicts=("helps", "hurts", "no_difference", "mixed", "inconclusive"),
    of_experiment=[(EXPERIMENTS, steps)],
)
