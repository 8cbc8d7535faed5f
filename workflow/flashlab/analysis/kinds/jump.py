"""A rate that changes between neighbours for one implementation and for none of the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.ratios import (
    Ratio,
    exceeds_margin,
    function_of,
    interval_json,
    ratio,
    rounded,
)
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.analysis.settings import operations, timed_metrics
from flashlab.statistics import Estimate, Floats
from flashlab.telling.values import Measured, say, span

LEAST_JUMP = 1.5
"""Least factor between neighbours that is a jump of the rate."""

MESSAGES = {"rises": "jump.rises", "falls": "jump.falls"}


def rate_step(series: Series, estimates: Mapping[int, Estimate], value: int, before: int) -> Ratio:
    """The rate at a value over that at another: operations over time, or the metric itself."""
    mine, theirs, metric = estimates[value], estimates[before], series.metric
    if metric.higher_is_better:
        return ratio(value, mine, theirs)
    runs = {series.experiment.value_of(run): run for run in series.runs}
    work = operations(metric, runs[value]) / operations(metric, runs[before])

    def quotient(time: Floats, time_before: Floats) -> Floats:
        return work * time_before / time

    return function_of(value, quotient, (mine, theirs))


def _bounds(step: Ratio) -> tuple[float, float]:
    """A step's interval, which without one excludes nothing."""
    return step.low or 0.0, step.high or math.inf


def jumps_alone(step: Ratio, others: Sequence[Ratio]) -> bool:
    """Whether a step is a jump and none of the others is, each with its whole interval.

    It lies off theirs by more than the margin: else identical code on both sides of the factor of
    a jump would be told apart.
    """
    lows, highs = zip(*map(_bounds, others), strict=True)
    lowest, highest = min(lows), max(highs)
    if lowest < 1 / LEAST_JUMP or highest > LEAST_JUMP:
        return False
    low, high = _bounds(step)
    return (low > LEAST_JUMP and exceeds_margin(low / highest)) or (
        high < 1 / LEAST_JUMP and exceeds_margin(lowest / high)
    )


def jumps(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """A rate that changes between neighbours for one implementation and for none of the others."""
    checks = hits = 0
    names, benchmark = sorted(experiment.implementations), experiment.benchmark
    rates = [metric for metric in metrics_of(benchmark, exact=False) if metric.higher_is_better]
    metrics = [*timed_metrics(benchmark), *rates]
    for variant, metric in itertools.product(experiment.variants, metrics):
        of = {name: Series(experiment, name, variant, metric) for name in names}
        along = {name: given.estimates.along(series) for name, series in of.items()}
        for before, value in itertools.pairwise(experiment.values):
            steps = {
                name: rate_step(of[name], estimates, value, before)
                for name, estimates in along.items()
                if {before, value} <= estimates.keys()
            }
            if len(steps) < 2:
                continue
            checks += len(steps)
            for name, step in steps.items():
                others = [other for key, other in steps.items() if key != name]
                if not jumps_alone(step, others):
                    continue
                hits += 1
                rest = [rounded(other.ratio) for other in others]
                verdict, jump = "rises" if step.ratio > 1 else "falls", rounded(step.ratio)
                told = quoted([of[name]], before=before, value=value)
                told |= {"ratio": Measured(jump), "factors": span(min(rest), max(rest))}
                yield build_finding(
                    "jump",
                    [of[name]],
                    verdict,
                    statements=[say(MESSAGES[verdict], **told)],
                    facts={"ratio": jump},
                    estimates=[
                        {"implementation": key, "value": value, **interval_json(other)}
                        for key, other in steps.items()
                    ],
                    values=[before, value],
                )
    if checks > hits:
        yield Finding("jump", experiment.name, {}, "none", facts={"checked": checks})


def _strength(finding: Finding) -> float:
    """The factor of the jump, either way, as a power of two."""
    return abs(math.log2(finding.facts["ratio"]))


JUMP = Kind(
    label="kind.jump",
    verdicts=("rises", "falls", "none"),
    of_experiment=[(SWEEPS, jumps)],
    told="briefly",
    strength=_strength,
)
