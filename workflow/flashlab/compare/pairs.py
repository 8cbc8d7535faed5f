"""The verdict on each metric of each run that both sides have.

The ratio is that of the second side's value to the first's. The processes of both sides together
tell how much identical code differs from process to process. Where no run was measured in several,
that is unknown, and `UNREPLICATED` takes its place: identical code must not look different.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric, Value
from flashlab.compare.rule import FAILED, MENDED, Ratio
from flashlab.compare.sides import Records
from flashlab.records import Measurement, Record
from flashlab.replication import Spread, combine_processes, geometric_mean
from flashlab.runs import Run
from flashlab.statistics import Estimate, estimate_median, function_interval
from flashlab.sweep import status_of

UNREPLICATED = Spread(0.03, 1e6)
"""The spread that is assumed between processes where none was measured. By it, the least difference
that single processes can show is one of about 14%; identical code was seen to differ by up to 11%
between two H200s (`docs/measuring.md`)."""


@dataclass(frozen=True)
class Processes:
    """A run on one side: the records of its processes."""

    records: Sequence[Record]

    @cached_property
    def status(self) -> str:
        """How the run ended."""
        return status_of([record.status for record in self.records])

    def warnings(self, metric: Metric) -> set[str]:
        """The codes of the warnings on any process that concern a metric.

        None concern an exact one, which is the same on a disturbed machine.
        """
        every = (warning for record in self.records for warning in record.warnings)
        concerned = () if metric.exact else (None, metric.name)
        return {warning["code"] for warning in every if warning.get("metric") in concerned}

    def values(self, metric: Metric) -> list[float]:
        """A metric's value in each process that has one; an optional metric may have none."""
        return [measurement.value for measurement in self._measurements(metric)]

    def estimates(self, metric: Metric) -> list[Estimate]:
        """A sampled metric's estimate in each process; empty where one kept no samples."""
        samples = [measurement.samples for measurement in self._measurements(metric)]
        return [estimate_median(kept) for kept in samples] if all(samples) else []

    def _measurements(self, metric: Metric) -> list[Measurement]:
        ok = (record for record in self.records if record.status == "ok")
        return [record.metrics[metric.name] for record in ok if metric.name in record.metrics]


Both = tuple[Processes, Processes]
"""A run on the first and on the second side."""


@dataclass(frozen=True)
class Pair:
    """One metric of one run on both sides, as it stands in comparison.json.

    `one` and `other` are its values in the metric's unit, None where the run has no result there;
    `processes` are how many measured it on each side. For a run that failed on one side, `metric`
    is None, and `statuses` say how it ended. `warnings` are the codes of those on the metric.
    """

    run: Mapping[str, Any]
    shape: str
    parameters: Mapping[str, Value]
    processes: Sequence[int]
    statuses: Sequence[str]
    verdict: str
    metric: str | None = None
    unit: str | None = None
    one: float | None = None
    other: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    warnings: Sequence[str] = ()


def _pair(benchmark: Benchmark, run: Run, both: Both, verdict: str, **measured: Any) -> Pair:
    """The pair of a run; `measured` is what there is of a metric."""
    return Pair(
        run=run.to_json(),
        shape=" ".join(run.words),
        parameters=benchmark.all_parameters(run),
        statuses=[side.status for side in both],
        verdict=verdict,
        **{"processes": [len(side.records) for side in both], **measured},
    )


def _exact(one: Sequence[float], other: Sequence[float]) -> tuple[Sequence[float], Ratio]:
    """Values that are the same at every measurement; where processes differ, the largest."""
    first, second = max(one), max(other)
    return (first, second), Ratio(second / first, min(other) / max(one), max(other) / min(one))


def _compare_metric(
    metric: Metric, runs: Mapping[Run, Both]
) -> dict[Run, tuple[Sequence[float], Ratio]]:
    """A metric of an implementation's runs that have it on both sides: two values, their ratio."""
    found: dict[Run, tuple[Sequence[float], Ratio]] = {}
    sampled: dict[Run, list[list[Estimate]]] = {}
    for run, both in runs.items():
        one, other = (side.values(metric) for side in both)
        estimates = [side.estimates(metric) for side in both]
        if both[0].records == both[1].records:  # as of a kernel that a revision did not change
            value = geometric_mean(one)
            found[run] = (value, value), Ratio(1.0, 1.0, 1.0)
        elif metric.exact:
            found[run] = _exact(one, other)
        elif all(estimates):
            sampled[run] = estimates
        else:  # means alone have no interval
            values = geometric_mean(one), geometric_mean(other)
            found[run] = values, Ratio(values[1] / values[0])
    processes = [estimates for run in sampled.values() for estimates in run]
    combined = iter(combine_processes(processes, UNREPLICATED))
    for run in sampled:
        before, after = next(combined).estimate, next(combined).estimate
        interval = function_interval(operator.truediv, (after, before)) or (None, None)
        found[run] = (before.median, after.median), Ratio(after.median / before.median, *interval)
    return found


def compare_runs(benchmark: Benchmark, one: Records, other: Records) -> list[Pair]:
    """A pair for each measured metric of each run that both have, or for its failure on one side.

    Runs that failed alike on both sides have none, nor has a metric that one side lacks.
    """
    pairs: list[Pair] = []
    shared = sorted(one.keys() & other.keys())
    for _, runs in itertools.groupby(shared, key=lambda run: run.implementation):
        all_runs = {run: (Processes(one[run]), Processes(other[run])) for run in runs}
        ok = {}
        for run, both in all_runs.items():
            results = [side.status == "ok" for side in both]
            if all(results):
                ok[run] = both
            elif any(results):
                verdict = FAILED if results[0] else MENDED
                pairs.append(_pair(benchmark, run, both, verdict))
        for metric in benchmark.measured:
            having = {run: both for run, both in ok.items() if all(s.values(metric) for s in both)}
            for run, (values, ratio) in _compare_metric(metric, having).items():
                both = ok[run]
                measured = {
                    "metric": metric.name,
                    "unit": metric.unit,
                    "one": values[0],
                    "other": values[1],
                    "ratio": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "processes": [len(side.values(metric)) for side in both],
                    "warnings": sorted(both[0].warnings(metric) | both[1].warnings(metric)),
                }
                pairs.append(_pair(benchmark, run, both, ratio.verdict(metric), **measured))
    return pairs
