"""The one estimator: medians of runs with their distributions, the processes of each combined.

Tables and findings get theirs from here. The processes of the runs of one implementation, in one
experiment and by one metric, share what is known of the spread between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flashlab.analysis.experiment import Row, Sweep
from flashlab.analysis.replication import Replicated, combine_processes
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Metric
from flashlab.statistics import Estimate, estimate_median, function_estimate

Known = dict[tuple[Hashable, ...], Estimate]
"""Estimates by what tells their samples from all others."""


@dataclass(frozen=True)
class SampledRun:
    """A run with its samples: of each metric those of each process, in order.

    `key` tells it from all others; `parameters` are those that a metric may follow from.
    """

    key: tuple[Hashable, ...]
    parameters: Mapping[str, Any]
    samples: Mapping[str, Sequence[Sequence[float]]]

    @property
    def has_samples(self) -> bool:
        """Whether every process has samples of every metric."""
        return all(each and all(each) for each in self.samples.values())


def bases_of(metric: Metric) -> tuple[str, ...]:
    """The measured metrics that a metric's samples are of."""
    return (metric.name,) if metric.derived is None else metric.derived.of


def combine_runs(metric: Metric, runs: Sequence[SampledRun], known: Known) -> list[Replicated]:
    """A sampled metric, measured or following from several, of runs of one implementation.

    What was estimated before is taken from `known`, where what is estimated here is kept.
    """
    processes = []
    for run in runs:
        measured = [
            [
                _kept(known, (*run.key, base, i), partial(estimate_median, samples))
                for i, samples in enumerate(run.samples[base])
            ]
            for base in bases_of(metric)
        ]
        if metric.derived is None:
            processes.append(measured[0])
            continue
        compute = partial(metric.derived.compute, run.parameters)
        processes.append(
            [
                _kept(known, (*run.key, metric.name, i), partial(function_estimate, compute, each))
                for i, each in enumerate(zip(*measured, strict=True))
            ]
        )
    return combine_processes(processes)


def _kept(known: Known, key: tuple[Hashable, ...], estimate: Callable[[], Estimate]) -> Estimate:
    if key not in known:
        known[key] = estimate()
    return known[key]


class Estimates:
    """Medians with their distributions: of each metric of each run once an experiment.

    So the same run on both sides of a function is the same median, and varies as one.
    """

    def __init__(self) -> None:
        self._known: Known = {}
        self._kinds: dict[tuple[str, str, str], dict[tuple[Any, ...], Estimate]] = {}

    def of(self, key: tuple[Any, ...], samples: Sequence[float]) -> Estimate:
        """The estimate of these samples; `key` is what tells them from all others."""
        return _kept(self._known, key, partial(estimate_median, samples))

    def of_row(self, sweep: Sweep, row: Row) -> Estimate:
        """The estimate of a row of the metric table, in the metric's unit.

        An exact value, and a mean without samples, count as one sample.
        """
        metric = sweep.benchmark.metric(row["metric"])
        if metric.exact or not sweep.samples_of(row):
            return Estimate(row["value"], 1, None)
        return self._of_kind(sweep, row["implementation"], metric)[sweep.key_of(row)]

    def _of_kind(
        self, sweep: Sweep, implementation: str, metric: Metric
    ) -> dict[tuple[Any, ...], Estimate]:
        """A sampled metric of all runs of one implementation that are ok, by their keys."""
        kind = (sweep.name, implementation, metric.name)
        if kind not in self._kinds:
            every = [
                SampledRun(
                    sweep.key_of(row),
                    row,
                    {base: sweep.samples_of({**row, "metric": base}) for base in bases_of(metric)},
                )
                for row in sweep.metrics
                if row["implementation"] == implementation
                and row["metric"] == metric.name
                and row["status"] == "ok"
            ]
            runs = [run for run in every if run.has_samples]
            combined = combine_runs(metric, runs, self._known)
            self._kinds[kind] = {
                run.key: found.estimate for run, found in zip(runs, combined, strict=True)
            }
        return self._kinds[kind]

    def of_metric(self, sweep: Sweep, run: Row, name: str) -> Estimate:
        """The estimate of any metric of a run, one that follows from others by computing it."""
        metric = sweep.benchmark.metric(name)
        if metric.derived is None:
            return self.of_row(sweep, sweep.metric_row(run, name))
        if len(metric.derived.of) > 1:
            kind = self._of_kind(sweep, run["implementation"], metric)
            if (found := kind.get(sweep.key_of(run))) is not None:
                return found
        bases = [self.of_metric(sweep, run, base) for base in metric.derived.of]
        parameters = {p.name: run[p.name] for p in sweep.benchmark.given}
        compute = partial(metric.derived.compute, parameters)
        if any(base.quantiles is None for base in bases):
            return function_estimate(compute, bases)  # of means, which are another record's
        key = (sweep.name, *sweep.key_of(run), name)
        return _kept(self._known, key, partial(function_estimate, compute, bases))

    def along(self, series: Series) -> dict[int, Estimate]:
        """A series by sweep value. Only runs that are ok are in it."""
        sweep, metric = series.sweep, series.metric.name
        return {
            sweep.value_of(row): self.of_metric(sweep, row, metric) for row in series.measured_rows
        }
