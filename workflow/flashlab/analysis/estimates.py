"""The one estimator: medians of runs with their distributions, the processes of each combined.

What is known of the spread between processes is shared by the runs of one implementation over the
whole dataset, metric by metric; one that was never measured in several processes is judged by that
of all the others. So a run has one estimate, in whichever experiments it stands.

A ratio of two implementations is also estimated over several settings together: where single ones
are undecided, as on a machine of other people's work too, their mean often is decided, since what
disturbs a process at one setting is not there at the next.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import scipy.special

from flashlab.analysis.experiment import Key, Runs, run_keys
from flashlab.analysis.pairing import Pairings, Processes, RunEstimate, place_of
from flashlab.analysis.ratios import Ratio
from flashlab.analysis.replication import (
    MEAN_COUNT,
    MIN_PROCESSES,
    UNREPLICATED,
    Replicated,
    combine_processes,
    scatters_more,
    shared_spread,
)
from flashlab.benchmarks.model import Metric
from flashlab.statistics import (
    CONFIDENCE,
    Estimate,
    Floats,
    estimate_median,
    function_estimate,
    interval_of,
    tick_of,
)

MIN_SETTINGS = 2
"""Fewest settings that are more than a single one."""


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

    def pooled(self, metric: Metric, pairs: Iterable[tuple[Key, Key]]) -> Ratio | None:
        """The ratio of runs over others, pair by pair; without those that lack the metric."""
        known = self.processes(metric)
        both = [(known[one], known[other]) for one, other in pairs if {one, other} <= known.keys()]
        return pooled_ratio([one for one, _ in both], [other for _, other in both])


# Several settings together


def _half_width(error: float, freedom: float) -> float:
    """Half of an interval by Student's t, from a standard error and its degrees of freedom."""
    return error * float(scipy.special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _within_settings(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by how much the processes differ within each setting.

    The standard error is that of a mean of independent settings, its degrees of freedom by Welch
    and Satterthwaite.
    """
    variances = np.array([float(np.var(each, ddof=1)) / len(each) for each in logs])
    total = float(variances.sum())
    if not total:
        return 0.0
    weights = [1 / (len(each) - 1) for each in logs]
    freedom = total**2 / float(variances**2 @ weights)
    return _half_width(math.sqrt(total) / len(logs), freedom)


def _between_rounds(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by how much it differs from round to round.

    A round is the processes of one number at all settings, measured one after the other. What too
    few rounds have in common, no spread tells: the assumed one of both sides' processes stands in.
    """
    rounds = min(map(len, logs))
    if rounds < MIN_PROCESSES:
        assumed = UNREPLICATED.deviation * math.sqrt(2 / rounds)
        return _half_width(assumed, UNREPLICATED.freedom)
    means = np.mean([each[:rounds] for each in logs], axis=0)
    return _half_width(float(np.std(means, ddof=1)) / math.sqrt(rounds), rounds - 1)


def _between_processes(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by its processes: by rounds, and by those within each setting.

    At a setting where they scatter more than at the others all but one may have been disturbed. So
    there the interval leaves none out.
    """
    usual, others = list[Floats](), list[Floats]()
    for each, is_greater in zip(logs, scatters_more(logs), strict=True):
        (others if is_greater else usual).append(each)
    half = max(_between_rounds(usual), _within_settings(usual)) * len(usual)
    farthest = (float(np.abs(each - each.mean()).max()) for each in others)
    return (half + math.fsum(farthest)) / len(logs)


def _mean_log_ratio(*medians: Floats) -> Floats:
    """The geometric mean of ratios, of which the numerators come first."""
    half = len(medians) // 2
    logs = [np.log(median) for median in medians]
    mean: Floats = np.exp((sum(logs[:half]) - sum(logs[half:])) / half)
    return mean


def _within_processes(ones: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """The half-width of the log mean's interval by the calls within processes; 0 without one."""
    found = function_estimate(_mean_log_ratio, [*ones, *others])
    ends = interval_of(found)
    return max(abs(math.log(end / found.median)) for end in ends) if ends else 0.0


def pooled_ratio(
    numerators: Sequence[Processes], denominators: Sequence[Processes]
) -> Ratio | None:
    """The geometric mean over settings of the ratio of two implementations, process by process.

    Its 95% interval is the widest of three: by Student's t over rounds, which has few degrees of
    freedom and is narrow by chance at times, or of fewer than three by the assumed spread; by the
    spread between the processes of single settings, which does not see what a whole round has in
    common; and by the calls within each process, than which no interval is narrower. Of
    a setting whose processes scatter more than at others it leaves none out.

    Args:
        numerators: the processes of the one implementation at each setting, in their order.
        denominators: those of the other one at the same settings.

    Returns:
        Its `value` is how many settings there are. None for fewer than `MIN_SETTINGS`, or where one
        was measured in a single process.
    """
    pairs = [
        list(zip(one.estimates, other.estimates, strict=False))  # those of one number
        for one, other in zip(numerators, denominators, strict=True)
    ]
    if len(pairs) < MIN_SETTINGS or min(map(len, pairs)) < 2:
        return None
    logs = [np.log([a.median / b.median for a, b in each]) for each in pairs]
    centre = float(np.mean([each.mean() for each in logs]))
    ones, others = zip(*itertools.chain.from_iterable(pairs), strict=True)
    half = max(_between_processes(logs), _within_processes(ones, others))
    samples = min(estimate.count for estimate in (*ones, *others))
    ends = math.exp(centre - half), math.exp(centre + half)
    return Ratio(len(logs), math.exp(centre), *ends, samples, pairs=min(map(len, logs)))
