"""Rates along a sweep, and the operations that they follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.ratios import Ratio, function_of, ratio
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.statistics import Estimate, Floats


def timed_metrics(benchmark: Benchmark) -> list[Metric]:
    """The measured times whose operations are known."""
    return [m for m in benchmark.measured if m.work and not m.higher_is_better]


def rate_metrics(experiment: Experiment) -> list[Metric]:
    """The sampled metrics of which there is a rate."""
    rates = [m for m in metrics_of(experiment.benchmark, exact=False) if m.higher_is_better]
    return [*timed_metrics(experiment.benchmark), *rates]


def operations(metric: Metric, parameters: Mapping[str, Any]) -> float:
    """The operations of a metric that has work, for a run with these parameters."""
    assert metric.work is not None
    return metric.work.operations(parameters)


@dataclass(frozen=True)
class Rates:
    """A series as rates: operations over time, or the metric itself where higher is better."""

    series: Series
    estimates: Mapping[int, Estimate]
    operations: Mapping[int, float]

    def over(self, value: int, base: int) -> Ratio:
        """The rate at one value over that at another; exactly 1 over itself."""
        mine, theirs = self.estimates[value], self.estimates[base]
        if value == base:
            return Ratio(value, 1.0, 1.0, 1.0, mine.count)
        if self.series.metric.higher_is_better:
            return ratio(value, mine, theirs)
        work = self.operations[value] / self.operations[base]

        def quotient(time: Floats, base_time: Floats) -> Floats:
            return work * base_time / time

        return function_of(value, quotient, (mine, theirs))


def rates_of(series: Series, estimates: Estimates) -> Rates:
    """The rates of a series."""
    work = series.metric.work
    rows = {series.experiment.value_of(run): run for run in series.runs}
    operations = {value: work.operations(run) if work else 0.0 for value, run in rows.items()}
    return Rates(series, estimates.along(series), operations)
