"""The one estimator: medians of runs with their distributions, the processes of each combined.

What is known of the spread between processes is shared by the runs of one implementation over the
whole dataset, metric by metric; one that was never measured in several processes is judged by that
of all the others. So a run has one estimate, in whichever experiments it stands.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial

from flashlab.analysis.experiment import Experiment, Row, Samples, run_keys
from flashlab.analysis.pairing import Key, Pairings, Processes, RunEstimate, place_of
from flashlab.analysis.pooled import PooledRatio, pooled_ratio
from flashlab.analysis.replication import (
    MEAN_COUNT,
    UNREPLICATED,
    Replicated,
    combine_processes,
    shared_spread,
)
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Metric
from flashlab.statistics import Estimate, estimate_median, function_estimate, tick_of


def bases_of(metric: Metric) -> tuple[str, ...]:
    """The measured metrics that a metric's samples are of."""
    return (metric.name,) if metric.derived is None else metric.derived.of


def _of_means(metric: Metric, row: Row, means: Sequence[Sequence[float]]) -> list[Estimate]:
    """A metric in each process of a run of which only means are known, by its bases' means."""
    every = [[Estimate(mean, MEAN_COUNT, None) for mean in processes] for processes in means]
    if metric.derived is None:
        return every[0]
    compute = partial(metric.derived.compute, row)
    return [function_estimate(compute, each) for each in zip(*every, strict=True)]


class Estimates:
    """Medians with their distributions: of each metric of each run once a dataset.

    So the same run on both sides of a function is the same median, and varies as one.
    """

    def __init__(self, experiments: Sequence[Experiment] = ()) -> None:
        self._experiments = sorted(experiments, key=lambda experiment: experiment.name)
        self._known: dict[tuple[Hashable, ...], Estimate] = {}
        self._metrics: dict[str, dict[Key, RunEstimate]] = {}
        self._runs: dict[str, dict[Key, Processes]] = {}
        self._ticks: dict[str, float] = {}

    def _kept(self, key: tuple[Hashable, ...], estimate: Callable[[], Estimate]) -> Estimate:
        if key not in self._known:
            self._known[key] = estimate()
        return self._known[key]

    def of_row(self, experiment: Experiment, row: Row) -> Estimate:
        """The estimate of a row of the metric table, in the metric's unit.

        An exact value counts as one sample.
        """
        metric = experiment.benchmark.metric(row["metric"])
        if metric.exact or not (experiment.samples_of(row) or experiment.means_of(row)):
            return Estimate(row["value"], 1, None)
        return self._of_sampled(metric)[experiment.key_of(row)]

    def _of_sampled(self, metric: Metric) -> dict[Key, RunEstimate]:
        """A sampled metric of all runs of the dataset that are ok, by their keys."""
        if metric.name not in self._metrics:
            runs, slower = self._processes(metric), -1 if metric.higher_is_better else 1
            others = shared_spread([run.estimates for run in runs.values()]) or UNREPLICATED
            known: dict[Key, Replicated] = {}
            for _, kind in itertools.groupby(runs, key=operator.itemgetter(0)):
                keys = [*kind]
                combined = combine_processes([runs[k].estimates for k in keys], others, slower)
                known |= zip(keys, combined, strict=True)
            columns = run_keys(self._experiments[0].benchmark)
            variants = {columns.index(v.name) for v in self._experiments[0].benchmark.variants}
            kept = {key: run.only(known[key].kept) for key, run in runs.items()}
            pairings, found = Pairings(kept, variants), {}
            for key, run in runs.items():
                looks = max(0, len(run.estimates) - self._usual_processes)
                mine = vars(known[key].estimate)
                found[key] = RunEstimate(**mine, key=key, pairings=pairings, looks=looks)
            self._metrics[metric.name] = found
        return self._metrics[metric.name]

    def _processes(self, metric: Metric) -> dict[Key, Processes]:
        """The processes of each run that has samples or means of a metric, by the runs' keys."""
        if metric.name not in self._runs:
            self._runs[metric.name] = self._read_processes(metric)
        return self._runs[metric.name]

    def _read_processes(self, metric: Metric) -> dict[Key, Processes]:
        found: dict[Key, Processes] = {}
        for experiment in self._experiments:
            for row in experiment.metrics:
                key = experiment.key_of(row)
                if row["metric"] != metric.name or row["status"] != "ok" or key in found:
                    continue
                bases = [{**row, "metric": base} for base in bases_of(metric)]
                samples = [experiment.samples_of(base) for base in bases]
                if all(each and all(each) for each in samples):
                    estimates = self._of_processes(metric, row, key, samples)
                else:
                    estimates = _of_means(metric, row, [experiment.means_of(b) for b in bases])
                if estimates:
                    places = list(map(place_of, experiment.processes_of(row)))
                    known = places if len(places) == len(estimates) else [None] * len(estimates)
                    found[key] = Processes(estimates, known)
        return {key: found[key] for key in sorted(found)}

    def _of_processes(
        self, metric: Metric, row: Row, key: Key, samples: Sequence[Samples]
    ) -> list[Estimate]:
        """A metric in each process of a run, measured or following from several."""
        measured = [
            [
                self._kept((*key, base, i), partial(estimate_median, calls, self._tick(base)))
                for i, calls in enumerate(processes)
            ]
            for base, processes in zip(bases_of(metric), samples, strict=True)
        ]
        if metric.derived is None:
            return measured[0]
        compute = partial(metric.derived.compute, row)
        return [function_estimate(compute, each) for each in zip(*measured, strict=True)]

    def _tick(self, metric: str) -> float:
        """That of the clock of a measured metric, by all samples of runs that are ok."""
        if metric not in self._ticks:
            rows = ((x, row) for x in self._experiments for row in x.metrics)
            ok = ((x, row) for x, row in rows if (row["metric"], row["status"]) == (metric, "ok"))
            self._ticks[metric] = tick_of([s for x, row in ok for s in x.samples_of(row) if s])
        return self._ticks[metric]

    @cached_property
    def _usual_processes(self) -> int:
        """In how many processes runs were measured before any were added to decide a verdict.

        The number that most runs have: no record says why it was measured.
        """
        counts = Counter(
            {
                experiment.key_of(run): len(experiment.processes_of(run))
                for experiment in self._experiments
                for run in experiment.runs
                if run["status"] == "ok"
            }.values()
        )
        return min(counts, key=lambda count: (-counts[count], count))

    def medians_of(self, experiment: Experiment, row: Row, metric: Metric) -> list[float]:
        """The median, or the mean, of a sampled metric in each process of a run."""
        found = self._processes(metric).get(experiment.key_of(row))
        return [estimate.median for estimate in found.estimates] if found else []

    def of_metric(self, experiment: Experiment, run: Row, name: str) -> Estimate:
        """The estimate of any metric of a run, one that follows from others by computing it."""
        metric = experiment.benchmark.metric(name)
        if metric.derived is None:
            return self.of_row(experiment, experiment.metric_row(run, name))
        if len(metric.derived.of) > 1:
            sampled = self._of_sampled(metric)
            if (found := sampled.get(experiment.key_of(run))) is not None:
                return found
        bases = [self.of_metric(experiment, run, base) for base in metric.derived.of]
        parameters = {p.name: run[p.name] for p in experiment.benchmark.given}
        compute = partial(metric.derived.compute, parameters)
        if any(base.quantiles is None for base in bases):
            return function_estimate(compute, bases)  # of means, which are another record's
        key = (*experiment.key_of(run), name)
        return self._kept(key, partial(function_estimate, compute, bases))

    def pooled(self, numerator: Series, denominator: Series) -> PooledRatio | None:
        """The ratio of two series over all values of the sweep at which both have numbers."""
        at = [
            {each.experiment.value_of(row): (each.experiment, row) for row in each.measured_rows}
            for each in (numerator, denominator)
        ]
        common = sorted(at[0].keys() & at[1].keys())
        return self.pooled_over(numerator.metric, *([each[v] for v in common] for each in at))

    def pooled_over(
        self,
        metric: Metric,
        numerators: Sequence[tuple[Experiment, Row]],
        denominators: Sequence[tuple[Experiment, Row]],
    ) -> PooledRatio | None:
        """The ratio of runs over others, one by one, by a metric of which all have numbers.

        Those whose processes are not known are left out.
        """
        known = self._processes(metric)
        pairs = [
            [known.get(experiment.key_of(row)) for experiment, row in both]
            for both in zip(numerators, denominators, strict=True)
        ]
        both = [(one, other) for one, other in pairs if one and other]
        return pooled_ratio([one for one, _ in both], [other for _, other in both])

    def along(self, series: Series) -> dict[int, Estimate]:
        """A series by sweep value. Only runs that are ok are in it."""
        experiment, metric = series.experiment, series.metric.name
        return {
            experiment.value_of(row): self.of_metric(experiment, row, metric)
            for row in series.measured_rows
        }
