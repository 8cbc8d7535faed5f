"""The one estimator: medians of runs with their distributions, the processes of each combined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Metric
from flashlab.replication import combine_processes
from flashlab.statistics import Estimate, estimate_median, function_estimate
from flashlab.sweep import Row, Sweep


class Estimates:
    """Medians with their distributions: of each metric of each run once an experiment.

    So the same run on both sides of a function is the same median, and varies as one. The processes
    of runs are combined as in the tables: those of one implementation, in one experiment and by one
    metric, share what is known of the spread between processes.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Estimate] = {}
        self._kinds: dict[tuple[str, str, str], dict[tuple[Any, ...], Estimate]] = {}

    def of(self, key: tuple[Any, ...], samples: Sequence[float]) -> Estimate:
        """The estimate of these samples; `key` is what tells them from all others."""
        if key not in self._found:
            self._found[key] = estimate_median(samples)
        return self._found[key]

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
            bases = (metric.name,) if metric.derived is None else metric.derived.of
            runs = {
                sweep.key_of(row): row
                for row in sweep.metrics
                if row["implementation"] == implementation
                and row["metric"] == metric.name
                and row["status"] == "ok"
                and all(sweep.samples_of({**row, "metric": base}) for base in bases)
            }
            processes = [self._of_processes(sweep, row, metric, bases) for row in runs.values()]
            combined = combine_processes(processes)
            self._kinds[kind] = {
                key: found.estimate for key, found in zip(runs, combined, strict=True)
            }
        return self._kinds[kind]

    def _of_processes(
        self, sweep: Sweep, row: Row, metric: Metric, bases: Sequence[str]
    ) -> list[Estimate]:
        """A sampled metric, measured or following from several, of each process of a run."""
        key = sweep.key_of(row)
        measured = [
            [
                self.of((*key, base, process), samples)
                for process, samples in enumerate(sweep.samples_of({**row, "metric": base}))
            ]
            for base in bases
        ]
        if metric.derived is None:
            return measured[0]
        parameters = {p.name: row[p.name] for p in sweep.benchmark.given}
        compute = partial(metric.derived.compute, parameters)
        found = []
        for process, estimates in enumerate(zip(*measured, strict=True)):
            place = (*key, metric.name, process)
            if place not in self._found:
                self._found[place] = function_estimate(compute, estimates)
            found.append(self._found[place])
        return found

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
        if key not in self._found:
            self._found[key] = function_estimate(compute, bases)
        return self._found[key]

    def along(self, series: Series) -> dict[int, Estimate]:
        """A series by sweep value. Only runs that are ok are in it."""
        sweep, metric = series.sweep, series.metric.name
        return {
            sweep.value_of(row): self.of_metric(sweep, row, metric) for row in series.measured_rows
        }
