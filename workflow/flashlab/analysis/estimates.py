"""The one estimator: medians of runs with their distributions, the processes of each combined.

What is known of the spread between processes is shared by the runs of one implementation over the
whole dataset, metric by metric; one that was never measured in several processes is judged by that
of all the others. So a run has one estimate, in whichever experiments it stands.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from flashlab.analysis.experiment import Key, Runs, run_keys
from flashlab.analysis.pairing import Pairings, Processes, RunEstimate, place_of
from flashlab.analysis.pooled import PooledRatio, pooled_ratio
from flashlab.analysis.replication import (
    MEAN_COUNT,
    UNREPLICATED,
    Replicated,
    combine_processes,
    shared_spread,
)
from flashlab.benchmarks.model import Metric
from flashlab.statistics import Estimate, estimate_median, function_estimate, tick_of


def bases_of(metric: Metric) -> tuple[str, ...]:
    """The measured metrics that a metric's samples are of."""
    return (metric.name,) if metric.derived is None else metric.derived.of


class Estimates:
    """Medians with their distributions: of each sampled metric of each run once a dataset.

    So the same run on both sides of a function is the same median, and varies as one.
    """

    def __init__(self, experiments: Sequence[Runs]) -> None:
        by_name = sorted(experiments, key=lambda each: each.name, reverse=True)
        runs = {each.key: each for of in by_name for each in of.runs if each.status == "ok"}
        self._benchmark = experiments[0].benchmark
        self._runs = {key: runs[key] for key in sorted(runs)}
        self._processes: dict[str, dict[Key, Processes]] = {}
        self._estimates: dict[str, dict[Key, RunEstimate]] = {}
        # In how many processes runs were measured before any were added to decide a verdict. The
        # number that most runs have: no record says why it was measured.
        counts = Counter(len(each.with_numbers) for each in runs.values())
        self._usual = min(counts, key=lambda count: (-counts[count], count), default=0)

    def of(self, metric: Metric) -> dict[Key, RunEstimate]:
        """The estimate of a sampled metric of each run that is ok and has it."""
        if metric.name not in self._estimates:
            runs, slower = self.processes(metric), -1 if metric.higher_is_better else 1
            others = shared_spread([run.estimates for run in runs.values()]) or UNREPLICATED
            known: dict[Key, Replicated] = {}
            for _, kind in itertools.groupby(runs, key=operator.itemgetter(0)):
                keys = [*kind]
                combined = combine_processes([runs[k].estimates for k in keys], others, slower)
                known |= zip(keys, combined, strict=True)
            columns = run_keys(self._benchmark)
            variants = {columns.index(v.name) for v in self._benchmark.variants}
            kept = {key: run.only(known[key].kept) for key, run in runs.items()}
            pairings, found = Pairings(kept, variants), {}
            for key, run in runs.items():
                looks = max(0, len(run.estimates) - self._usual)
                mine = vars(known[key].estimate)
                found[key] = RunEstimate(**mine, key=key, pairings=pairings, looks=looks)
            self._estimates[metric.name] = found
        return self._estimates[metric.name]

    def processes(self, metric: Metric) -> dict[Key, Processes]:
        """The same in each process of these runs, in their order."""
        if metric.name not in self._processes:
            made = self._measured(metric) if metric.derived is None else self._following(metric)
            self._processes[metric.name] = dict(made)
        return self._processes[metric.name]

    def _measured(self, metric: Metric) -> Iterator[tuple[Key, Processes]]:
        """A measured metric; of means alone without a distribution."""
        runs = {key: each for key, each in self._runs.items() if each.has(metric.name)}
        found = {
            key: [record.metrics[metric.name] for record in each.with_numbers]
            for key, each in runs.items()
        }
        tick = tick_of(each.samples for of in found.values() for each in of if each.samples)
        for key, measured in found.items():
            estimates = [
                estimate_median(each.samples, tick)
                if each.samples
                else Estimate(each.value, MEAN_COUNT, None)
                for each in measured
            ]
            yield key, Processes(estimates, [*map(place_of, runs[key].with_numbers)])

    def _following(self, metric: Metric) -> Iterator[tuple[Key, Processes]]:
        """One that follows from measured ones, process by process."""
        assert metric.derived is not None
        bases = [self.processes(self._benchmark.metric(base)) for base in metric.derived.of]
        for key in bases[0]:
            if all(key in base for base in bases):
                compute = partial(metric.derived.compute, self._runs[key].run)
                each = zip(*(base[key].estimates for base in bases), strict=True)
                estimates = [function_estimate(compute, of) for of in each]
                yield key, Processes(estimates, bases[0][key].places)

    def pooled(self, metric: Metric, pairs: Iterable[tuple[Key, Key]]) -> PooledRatio | None:
        """The ratio of runs over others, pair by pair; without those that lack the metric."""
        known = self.processes(metric)
        both = [(known[one], known[other]) for one, other in pairs if {one, other} <= known.keys()]
        return pooled_ratio([one for one, _ in both], [other for _, other in both])
