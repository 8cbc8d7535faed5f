"""The verdict on each metric of each run that both sides have, by the ±5% rule.

The ratio is that of the second side's value to the first's. The processes of both sides together
tell how much identical code differs from process to process. Where no run was measured in several,
that is unknown, and `UNREPLICATED` takes its place: identical code must not look different.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flashlab.analysis.experiment import status_of
from flashlab.analysis.ratios import Ratio, function_of, quotient
from flashlab.analysis.replication import Spread, combine_processes, geometric_mean
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.statistics import Estimate, estimate_median

UNREPLICATED = Spread(0.03, 1e6)
"""The spread that is assumed between processes where none was measured. By it, the least difference
that single processes can show is one of about 14%; identical code was seen to differ by up to 11%
between two H200s (`docs/measuring.md`)."""

TIMES = ("s", "ms", "us", "ns")
"""Units of the metrics that are called faster and slower; others are better and worse."""

EQUAL, INCONCLUSIVE = "equal", "inconclusive"
FAILED, MENDED = "failed", "mended"
LOSSES, GAINS = ("slower", "worse"), ("faster", "better")
VERDICTS = (FAILED, *LOSSES, MENDED, *GAINS, INCONCLUSIVE, EQUAL)
"""The most pressing first: ``failed`` is a run that had a result on the first side alone."""


@dataclass(frozen=True)
class Measured:
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
        return [found.value for found in self._measurements(metric)]

    def estimates(self, metric: Metric) -> list[Estimate]:
        """A sampled metric's estimate in each process; empty where one kept no samples."""
        kept = [found.samples for found in self._measurements(metric)]
        return [estimate_median(samples) for samples in kept] if all(kept) else []

    def _measurements(self, metric: Metric) -> list[Measurement]:
        ok = (record for record in self.records if record.status == "ok")
        return [r.metrics[metric.name] for r in ok if metric.name in r.metrics]


@dataclass(frozen=True)
class Pair:
    """One metric of one run on both sides.

    `one` and `other` are its values in the metric's unit, None where the run has no result there;
    `processes` are how many measured it on each side. For a run that failed on one side, `metric`
    is None, and `statuses` say how it ended. `warnings` are the codes of those on the metric.
    """

    run: Run
    metric: Metric | None
    one: float | None
    other: float | None
    ratio: Ratio | None
    processes: tuple[int, int]
    statuses: tuple[str, str]
    verdict: str
    warnings: tuple[str, ...] = ()

    @property
    def metric_name(self) -> str | None:
        """The metric's name."""
        return self.metric.name if self.metric else None

    def to_json(self, benchmark: Benchmark) -> dict[str, Any]:
        """The pair as it stands in comparison.json."""
        ratio = self.ratio
        return {
            "run": self.run.to_json(),
            "shape": " ".join(self.run.words),
            "parameters": benchmark.all_parameters(self.run),
            "metric": self.metric_name,
            "unit": self.metric.unit if self.metric else None,
            "one": self.one,
            "other": self.other,
            "ratio": ratio.ratio if ratio else None,
            "low": ratio.low if ratio else None,
            "high": ratio.high if ratio else None,
            "processes": list(self.processes),
            "statuses": list(self.statuses),
            "verdict": self.verdict,
            "warnings": list(self.warnings),
        }


def verdict_on(metric: Metric, ratio: Ratio) -> str:
    """What a ratio of the second value to the first says of a metric."""
    if ratio.verdict not in ("above", "below"):
        return ratio.verdict
    gained = (ratio.verdict == "above") == metric.higher_is_better
    return (GAINS if gained else LOSSES)[0 if metric.unit in TIMES else 1]


def _exact_ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, Ratio]:
    """Values that are the same at every measurement; where processes differ, the largest."""
    first, second = max(one), max(other)
    low, high = min(other) / max(one), max(other) / min(one)
    return first, second, Ratio(0, second / first, low, high, 1)


def _compare_kind(
    metric: Metric, both: Mapping[Run, tuple[Measured, Measured]]
) -> dict[Run, tuple[float, float, Ratio]]:
    """A metric of an implementation's runs that are ok on both sides: two values, their ratio."""
    found: dict[Run, tuple[float, float, Ratio]] = {}
    sampled: dict[Run, list[list[Estimate]]] = {}
    for run, sides in both.items():
        if sides[0].records == sides[1].records:  # as of a kernel that a revision did not change
            value = geometric_mean(sides[0].values(metric))
            found[run] = (value, value, Ratio(0, 1.0, 1.0, 1.0, len(sides[0].records)))
            continue
        estimates = [side.estimates(metric) for side in sides]
        if not metric.exact and all(estimates):
            sampled[run] = estimates
            continue
        one, other = (side.values(metric) for side in sides)
        if metric.exact:
            found[run] = _exact_ratio(one, other)
        else:  # means alone have no interval
            first, second = geometric_mean(one), geometric_mean(other)
            found[run] = (first, second, Ratio(0, second / first, None, None, 0))
    processes = [estimates for run in sampled.values() for estimates in run]
    combined = iter(combine_processes(processes, UNREPLICATED))
    for run in sampled:
        before, after = next(combined).estimate, next(combined).estimate
        found[run] = (before.median, after.median, function_of(0, quotient, (after, before)))
    return found


def compare_runs(
    benchmark: Benchmark, one: Mapping[Run, Sequence[Record]], other: Mapping[Run, Sequence[Record]]
) -> list[Pair]:
    """A pair for each measured metric of each run that both have, or for its failure on one side.

    Runs that failed alike on both sides have none, nor has a metric that one side lacks.
    """
    pairs: list[Pair] = []
    shared = sorted(one.keys() & other.keys())
    for name in dict.fromkeys(run.implementation for run in shared):
        both = {
            run: (Measured(one[run]), Measured(other[run]))
            for run in shared
            if run.implementation == name
        }
        for run, sides in both.items():
            statuses = (sides[0].status, sides[1].status)
            if statuses.count("ok") == 1:
                verdict = FAILED if statuses[0] == "ok" else MENDED
                counts = (len(sides[0].records), len(sides[1].records))
                pairs.append(Pair(run, None, None, None, None, counts, statuses, verdict))
        ok = {
            run: sides
            for run, sides in both.items()
            if sides[0].status == "ok" and sides[1].status == "ok"
        }
        for metric in benchmark.measured:
            having = {
                r: (a, b) for r, (a, b) in ok.items() if a.values(metric) and b.values(metric)
            }
            for run, (first, second, ratio) in _compare_kind(metric, having).items():
                counts = (len(ok[run][0].values(metric)), len(ok[run][1].values(metric)))
                verdict = verdict_on(metric, ratio)
                codes = tuple(sorted(ok[run][0].warnings(metric) | ok[run][1].warnings(metric)))
                pairs.append(
                    Pair(run, metric, first, second, ratio, counts, ("ok", "ok"), verdict, codes)
                )
    return pairs
