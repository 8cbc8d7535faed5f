"""Conclusions on alternatives at one setting: which implementation and variant to use, and why.

For experiments whose sweep has no order (`Experiment.has_alternatives`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.conclusions.quoting import Known, Told, build_conclusion, in_units, tell
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import place
from flashlab.analysis.ratios import ratio, rounded
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.statistics import Estimate
from flashlab.telling.values import (
    Listed,
    Measured,
    MetricName,
    Run,
    Short,
    Statement,
    clauses,
    heading,
    percent,
    say,
    settings,
)

OUTCOMES = {
    "better": "conclusion.alternatives.outcome.helps",
    "worse": "conclusion.alternatives.outcome.costs",
    "equivalent": "conclusion.alternatives.outcome.level",
    "inconclusive": "conclusion.alternatives.outcome.open",
}
"""The effect of a variant, by the verdict on the decisive metric."""


@dataclass(frozen=True)
class _Alternative:
    """A run that has numbers, and its estimate of the decisive metric."""

    run: Row
    estimate: Estimate
    where: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.run["implementation"])


def _alternatives(
    experiment: Experiment, metric: Metric, estimates: Estimates
) -> list[_Alternative]:
    """The runs at the first value of the sweep, the best first."""
    several = {parameter.name for parameter in experiment.varying_variants}
    found = [
        _Alternative(
            run,
            estimates.of_metric(experiment, run, metric.name),
            {name: value for name, value in experiment.variant_of(run) if name in several},
        )
        for run in experiment.ordered
        if run["status"] == "ok" and experiment.value_of(run) == experiment.values[0]
    ]
    sign = -1 if metric.higher_is_better else 1
    return sorted(found, key=lambda each: sign * each.estimate.median)


def alternative_conclusions(known: Known, estimates: Estimates) -> Iterator[Finding]:
    """The answer on page one, then the conclusion of each section that has one."""
    chosen = next(experiment for experiment in known.sections if experiment.has_alternatives)
    yield from _answer(known, chosen, estimates)
    for experiment in known.sections:
        told = [*_effects(known, experiment), *_curves(known, experiment)]
        if told:
            name = experiment.name
            yield build_conclusion("section", "alternatives", told, experiment=name, section=name)


def _answer(known: Known, experiment: Experiment, estimates: Estimates) -> Iterator[Finding]:
    """What is best by the decisive metric, and its share of the device's ceiling."""
    metric = known.decisive
    if metric is None:
        return
    found = _alternatives(experiment, metric, estimates)
    if not found:
        yield build_conclusion("answer", "no_numbers", [tell("conclusion.front.no_numbers")])
        return
    best, choice = found[0], None
    if len(found) > 1:
        by_position = {str(i): each.estimate for i, each in enumerate(found)}
        choice = place(0, by_position, metric.higher_is_better)
    near = [
        e for i, e in enumerate(found) if choice and str(i) in choice.possible and e is not best
    ]
    told = [_best(known.benchmark, metric, best, near)]
    told += _against_naive(experiment, best, found, metric)
    told += _share_of_ceiling(known, experiment, best)
    told += _least(experiment, found)
    yield build_conclusion("answer", "best", told, implementation=best.name, metric=metric.name)


def _best(
    benchmark: Benchmark, metric: Metric, best: _Alternative, near: Sequence[_Alternative]
) -> Told:
    """The best by the median, and those of which it is not decided that they are worse."""
    names = [Run(each.name, settings(benchmark, each.where)) for each in near]
    return tell(
        "conclusion.alternatives.best.level" if near else "conclusion.alternatives.best",
        metric.quantity.name,
        best_name=best.name,
        best_where=Listed(settings(benchmark, best.where)),
        best_value=Measured(rounded(best.estimate.median)),
        best_unit=metric.unit,
        level_names=Listed(names),
    )


def _naive(found: Sequence[_Alternative], naive: str | None) -> _Alternative | None:
    """The naive implementation in its plainest variant."""
    plain = [e for e in found if e.name == naive and not any(e.where.values())]
    return plain[0] if plain else None


def _against_naive(
    experiment: Experiment, best: _Alternative, found: Sequence[_Alternative], metric: Metric
) -> Iterator[Told]:
    """How many times as good as the naive implementation the best is, and every other one."""
    naive = _naive(found, experiment.benchmark.naive)
    if naive is None or naive is best:
        return

    factor = best.estimate.median / naive.estimate.median
    if ratio(0, best.estimate, naive.estimate).verdict not in ("above", "below"):
        return
    yield tell(
        "conclusion.alternatives.naive",
        metric.quantity.name,
        naive=naive.name,
        naive_where=Listed(settings(experiment.benchmark, naive.where)),
        naive_value=Measured(rounded(naive.estimate.median)),
        best_times=Measured(rounded(factor if metric.higher_is_better else 1 / factor)),
        best_unit=metric.unit,
    )


def _share_of_ceiling(known: Known, experiment: Experiment, best: _Alternative) -> Iterator[Told]:
    """The share of the device's measured matrix-product rate that the best one reaches."""
    variant = dict(experiment.variant_of(best.run))
    found = [
        f
        for f in known.every("roofline", experiment.name, implementation=best.name)
        if dict(f.variant or ()) == variant and "matrix_high" in f.facts
    ]
    if found:
        share = percent(found[0].facts["matrix_high"] / 100)
        yield tell("conclusion.alternatives.ceiling", sources=found[:1], ceiling_share=share)


def _least(experiment: Experiment, found: Sequence[_Alternative]) -> Iterator[Told]:
    """Which alternative takes the least of the first exact metric, and what the naive one takes."""
    metrics, naive = (
        metrics_of(experiment.benchmark, exact=True),
        _naive(found, experiment.benchmark.naive),
    )
    if not metrics or naive is None:
        return
    metric = metrics[0]

    def value(each: _Alternative) -> float:
        return float(experiment.metric_row(each.run, metric.name)["value"])

    least = min(found, key=value)
    if least is naive:
        return
    yield tell(
        "conclusion.alternatives.least",
        exact_metric=MetricName(metric.name),
        exact_unit=metric.unit,
        least_name=least.name,
        least_where=Listed(settings(experiment.benchmark, least.where)),
        least_value=in_units(value(least)),
        least_naive=in_units(value(naive)),
        least_share=percent(value(least) / value(naive)),
    )


# What a variant does


def _effects(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Whom switching a variant on helps and by how much, and from when on it pays."""
    metric = known.decisive
    for switched in experiment.varying_variants:
        found = [
            finding
            for finding in known.every("variant_effect", experiment.name, switched=switched.name)
            if metric is not None and finding.metric == metric.name and finding.facts["count"]
        ]
        if not found:
            continue
        by_verdict: dict[str, list[Finding]] = {}
        for finding in found:
            verdict = finding.verdict if finding.verdict in OUTCOMES else "inconclusive"
            by_verdict.setdefault(verdict, []).append(finding)
        helped = [finding.subject["implementation"] for finding in by_verdict.get("better", ())]
        key = "conclusion.alternatives.effect.none"
        if helped:
            key = "conclusion.alternatives.effect.some"
        if len(helped) == len(found):
            key = "conclusion.alternatives.effect.all"
        label = heading(switched.labels)
        yield tell(key, sources=found, effect_of_heading=label, effect_helped=Listed(helped))
        outcomes = clauses(
            say(key, effects=Listed(list(map(_told_effect, by_verdict[verdict]))))
            for verdict, key in OUTCOMES.items()
            if verdict in by_verdict
        )
        yield tell("conclusion.alternatives.effect.each", sources=found, effect_outcomes=outcomes)
        yield from _break_even(experiment, switched.name, metric, found)


def _told_effect(finding: Finding) -> Statement:
    """``Pytorch 1.92×``."""
    name, times = finding.subject["implementation"], Measured(finding.facts["low"])
    return say("conclusion.each.gain", name=name, times=times)


def _break_even(
    experiment: Experiment, switched: str, metric: Metric | None, found: Sequence[Finding]
) -> Iterator[Told]:
    """From which step on the time that a variant costs at the start is made up for.

    Where the benchmark measures a start in seconds and chooses by a time in ms.
    """
    starts = [m for m in experiment.benchmark.measured if m.quantity.once and m.unit == "s"]
    if metric is None or metric.unit != "ms" or not starts:
        return
    start, listed = starts[0], []
    for finding in found:
        if finding.verdict != "better":
            continue
        name, rest = finding.subject["implementation"], dict(finding.variant or ())
        figures = []
        for is_on in (False, True):
            variant = tuple(
                (p.name, is_on if p.name == switched else rest[p.name])
                for p in experiment.benchmark.variants
            )
            run = experiment.run_at(name, variant, experiment.values[0])
            assert run is not None  # the effect was taken of both
            figures += [experiment.metric_row(run, m.name)["value"] for m in (start, metric)]
        start_off, time_off, start_on, time_on = figures
        steps = math.ceil((start_on - start_off) * 1e3 / (time_off - time_on))
        if steps > 0:
            listed.append(say("conclusion.each.step", name=name, count=Short(steps)))
    if listed:
        yield tell("conclusion.alternatives.break_even", break_even=Listed(listed))


# Curves


def _curves(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Whether all curves lie within the spread of the naive implementation's."""
    found = known.every("curve", experiment.name)
    differing = [finding for finding in found if finding.verdict == "differs"]
    judged = [finding for finding in found if finding.verdict in ("within", "differs")]
    if not judged:
        return
    widest = max(differing or judged, key=lambda f: float(f.facts["distance"]))
    label = widest.facts["label"]
    if differing:
        names = Listed(sorted({f.subject["implementation"] for f in differing}))
        key = "conclusion.alternatives.curve.differs"
        yield tell(key, sources=differing, curve_label=label, curve_names=names)
    else:
        yield tell("conclusion.alternatives.curve.within", sources=judged, curve_label=label)
