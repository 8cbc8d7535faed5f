"""The verdict on each metric of each run that both sides have.

The ratio is that of the second side's value to the first's. The processes of both sides together
tell how much identical code differs from process to process. Where no run was measured in several,
that is unknown, and `UNREPLICATED` takes its place: identical code must not look different.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import status_of
from flashlab.analysis.replication import UNREPLICATED, agreed_value, combine_processes
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.compare.rule import FAILED, MENDED, Ratio
from flashlab.compare.sides import Records
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.statistics import Estimate, estimate_median, function_interval

Pair = Mapping[str, Any]
"""One metric of one run on both sides, as it stands in comparison.json.

``one`` and ``other`` are its values in the metric's unit; ``processes`` are how many measured it on
each side. For a run that failed on one side all these are None, and ``statuses`` say how it ended.
``warnings`` are the codes of those on the metric.
"""

Both = tuple[Sequence[Record], Sequence[Record]]
"""The processes of a run on the first and on the second side."""


def status_in(processes: Sequence[Record]) -> str:
    """How a run ended."""
    return status_of([record.status for record in processes])


def values_in(processes: Sequence[Record], metric: Metric) -> list[float]:
    """A metric's value in each process that has one; an optional metric may have none."""
    return [measurement.value for measurement in measurements_in(processes, metric)]


def measurements_in(processes: Sequence[Record], metric: Metric) -> list[Measurement]:
    """What each process that is ok measured of a metric."""
    ok = (record for record in processes if record.status == "ok")
    return [record.metrics[metric.name] for record in ok if metric.name in record.metrics]


def _estimates(processes: Sequence[Record], metric: Metric) -> list[Estimate]:
    """A sampled metric's estimate in each process; empty where one kept no samples."""
    samples = [measurement.samples for measurement in measurements_in(processes, metric)]
    return [estimate_median(kept) for kept in samples] if all(samples) else []


def _warnings(both: Both, metric: Metric) -> list[str]:
    """The codes of the warnings on any process that concern a metric.

    None concern an exact one, which is the same on a disturbed machine.
    """
    every = (w for record in itertools.chain(*both) for w in record.warnings)
    concerned = () if metric.exact else (None, metric.name)
    return sorted({warning["code"] for warning in every if warning.get("metric") in concerned})


def _exact_ratio(one: Sequence[float], other: Sequence[float]) -> Ratio:
    """Of values that are the same at every measurement; where processes differ, of the largest."""
    return Ratio(max(other) / max(one), min(other) / max(one), max(other) / min(one))


def _compare_metric(
    metric: Metric, runs: Mapping[Run, Both]
) -> dict[Run, tuple[float, float, Ratio]]:
    """A metric of an implementation's runs that have it on both sides: two values, their ratio."""
    compared: dict[Run, tuple[float, float, Ratio]] = {}
    sampled: dict[Run, list[list[Estimate]]] = {}
    for run, both in runs.items():
        one, other = (values_in(processes, metric) for processes in both)
        estimates = [_estimates(processes, metric) for processes in both]
        if both[0] == both[1]:  # as of a kernel that a revision did not change
            value = agreed_value(one)
            compared[run] = value, value, Ratio(1.0, 1.0, 1.0)
        elif metric.exact:
            compared[run] = max(one), max(other), _exact_ratio(one, other)
        elif all(estimates):
            sampled[run] = estimates
        else:  # means alone have no interval
            before, after = agreed_value(one), agreed_value(other)
            compared[run] = before, after, Ratio(after / before, None, None)
    processes = [estimates for run in sampled.values() for estimates in run]
    combined = iter(combine_processes(processes, UNREPLICATED))
    for run in sampled:
        first, second = next(combined).estimate, next(combined).estimate
        interval = function_interval(operator.truediv, (second, first)) or (None, None)
        ratio = Ratio(second.median / first.median, *interval)
        compared[run] = first.median, second.median, ratio
    return compared


def _pair(
    benchmark: Benchmark,
    run: Run,
    both: Both,
    verdict: str,
    metric: Metric | None = None,
    one: float | None = None,
    other: float | None = None,
    ratio: Ratio | None = None,
) -> Pair:
    counted = [values_in(side, metric) if metric else side for side in both]
    return {
        "run": run.to_row(),
        "shape": " ".join(run.words),
        "parameters": benchmark.all_parameters(run),
        "metric": metric and metric.name,
        "unit": metric and metric.unit,
        "one": one,
        "other": other,
        "ratio": ratio and ratio.value,
        "low": ratio and ratio.low,
        "high": ratio and ratio.high,
        "processes": [len(processes) for processes in counted],
        "statuses": [status_in(side) for side in both],
        "verdict": verdict,
        "warnings": _warnings(both, metric) if metric else [],
    }


def compare_runs(benchmark: Benchmark, one: Records, other: Records) -> list[Pair]:
    """A pair for each measured metric of each run that both have, or for its failure on one side.

    Runs that failed alike on both sides have none, nor has a metric that one side lacks.
    """
    pairs: list[Pair] = []
    shared = sorted(one.keys() & other.keys())
    for _, runs in itertools.groupby(shared, key=lambda run: run.implementation):
        ok: dict[Run, Both] = {}
        for run in runs:
            both = one[run], other[run]
            before, after = (status_in(processes) == "ok" for processes in both)
            if before and after:
                ok[run] = both
            elif before or after:
                pairs.append(_pair(benchmark, run, both, FAILED if before else MENDED))
        for metric in benchmark.measured:
            having = {r: both for r, both in ok.items() if all(values_in(s, metric) for s in both)}
            for run, measured in _compare_metric(metric, having).items():
                verdict = measured[2].verdict(metric)
                pairs.append(_pair(benchmark, run, ok[run], verdict, metric, *measured))
    return pairs
