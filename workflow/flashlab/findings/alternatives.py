"""Conclusions on alternatives at one setting: which implementation and variant to use, and why.

For experiments whose sweep has no order (`Sweep.has_alternatives`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.conclusion_parts import (
    Known,
    Statement,
    build_conclusion,
    in_percent,
    in_units,
)
from flashlab.findings.model import Finding
from flashlab.findings.ratios import Estimates, ratio, rounded
from flashlab.statistics import Estimate
from flashlab.sweep import Row, Sweep, metrics_of

OUTCOMES = {"better": "helps", "worse": "costs", "equivalent": "level", "inconclusive": "open"}
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


def _alternatives(sweep: Sweep, metric: Metric, estimates: Estimates) -> list[_Alternative]:
    """The runs at the first value of the sweep, the best first."""
    several = {parameter.name for parameter in sweep.varying_variants}
    found = [
        _Alternative(
            run,
            estimates.of_metric(sweep, run, metric.name),
            {name: value for name, value in sweep.variant_of(run) if name in several},
        )
        for run in sweep.ordered
        if run["status"] == "ok" and sweep.value_of(run) == sweep.values[0]
    ]
    sign = -1 if metric.higher_is_better else 1
    return sorted(found, key=lambda each: sign * each.estimate.median)


def alternative_conclusions(known: Known, estimates: Estimates) -> Iterator[Finding]:
    """The answer on page one, then the conclusion of each section that has one."""
    sections = [sweep for sweep in known.sweeps if not sweep.is_summary]
    chosen = next(sweep for sweep in sections if sweep.has_alternatives)
    yield from _answer(known, chosen, estimates)
    for sweep in sections:
        told = [*_effects(known, sweep), *_curves(known, sweep)]
        if told:
            topic = {"section": sweep.name}
            yield build_conclusion(
                [sweep], "section", "alternatives", told, experiment=sweep.name, subject=topic
            )


def _answer(known: Known, sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """What is best by the decisive metric, and its share of the device's ceiling."""
    metric = known.decisive
    if metric is None:
        return
    found = _alternatives(sweep, metric, estimates)
    if not found:
        told = [Statement("conclusion.front.no_numbers")]
        yield build_conclusion(
            known.sweeps, "answer", "no_numbers", told, experiment=None, subject={}, front=0
        )
        return
    best, others = found[0], found[1:]
    level = [e for e in others if ratio(0, e.estimate, best.estimate).verdict in ("equal",)]
    told = [_best(metric, best, level)]
    told += _against_naive(sweep, best, found, metric)
    told += _share_of_ceiling(known, sweep, best)
    told += _least(sweep, found)
    yield build_conclusion(
        known.sweeps,
        "answer",
        "best",
        told,
        experiment=None,
        subject={"implementation": best.name, "metric": metric.name},
        front=0,
    )


def _best(metric: Metric, best: _Alternative, level: Sequence[_Alternative]) -> Statement:
    key = "conclusion.alternatives.best" + (".level" if level else "")
    params = {
        "best_name": best.name,
        "best_where": dict(best.where),
        "best_value": rounded(best.estimate.median),
        "best_unit": metric.unit,
        "level_names": [_labelled(each) for each in level],
    }
    return Statement(key, params)


def _labelled(each: _Alternative) -> Mapping[str, Any]:
    return {"name": each.name, "setting": dict(each.where)}


def _naive(found: Sequence[_Alternative], naive: str | None) -> _Alternative | None:
    """The naive implementation in its plainest variant."""
    plain = [e for e in found if e.name == naive and not any(e.where.values())]
    return plain[0] if plain else None


def _against_naive(
    sweep: Sweep, best: _Alternative, found: Sequence[_Alternative], metric: Metric
) -> Iterator[Statement]:
    """How many times as good as the naive implementation the best is, and every other one."""
    naive = _naive(found, sweep.benchmark.naive)
    if naive is None or naive is best:
        return

    def times(each: _Alternative) -> float:
        found = each.estimate.median / naive.estimate.median
        return rounded(found if metric.higher_is_better else 1 / found)

    yield Statement(
        "conclusion.alternatives.naive",
        {
            "naive": naive.name,
            "naive_where": dict(naive.where),
            "naive_value": rounded(naive.estimate.median),
            "best_times": times(best),
            "best_unit": metric.unit,
        },
    )


def _share_of_ceiling(known: Known, sweep: Sweep, best: _Alternative) -> Iterator[Statement]:
    """The share of the device's measured matrix-product rate that the best one reaches."""
    variant = dict(sweep.variant_of(best.run))
    found = [
        f
        for f in known.every("roofline", sweep.name, implementation=best.name)
        if dict(f.variant or ()) == variant and "matrix_high" in f.params
    ]
    if found:
        share = {"ceiling_share": in_percent(found[0].params["matrix_high"] / 100)}
        yield Statement("conclusion.alternatives.ceiling", share, found[:1])


def _least(sweep: Sweep, found: Sequence[_Alternative]) -> Iterator[Statement]:
    """Which alternative takes the least of the first exact metric, and what the naive one takes."""
    metrics, naive = metrics_of(sweep.benchmark, exact=True), _naive(found, sweep.benchmark.naive)
    if not metrics or naive is None:
        return
    metric = metrics[0]

    def value(each: _Alternative) -> float:
        return float(sweep.metric_row(each.run, metric.name)["value"])

    least = min(found, key=value)
    if least is naive:
        return
    yield Statement(
        "conclusion.alternatives.least",
        {
            "exact_metric": dict(metric.labels),
            "exact_unit": metric.unit,
            "least_name": least.name,
            "least_where": dict(least.where),
            "least_value": in_units(value(least)),
            "least_naive": in_units(value(naive)),
            "least_share": in_percent(value(least) / value(naive)),
        },
    )


# What a variant does


def _effects(known: Known, sweep: Sweep) -> Iterator[Statement]:
    """Whom switching a variant on helps and by how much, and from when on it pays."""
    metric = known.decisive
    for switched in sweep.varying_variants:
        found = [
            finding
            for finding in known.every("variant_effect", sweep.name, switched=switched.name)
            if metric is not None and finding.metric == metric.name and finding.params["count"]
        ]
        if not found:
            continue
        outcomes: dict[str, list[dict[str, Any]]] = {}
        for finding in found:
            effect = {"name": finding.subject["implementation"], "times": finding.params["low"]}
            outcomes.setdefault(OUTCOMES.get(finding.verdict, "open"), []).append(effect)
        helped = len(outcomes.get("helps", ()))
        key = "all" if helped == len(found) else "some" if helped else "none"
        yield Statement(
            f"conclusion.alternatives.effect.{key}",
            {
                "effect_of": dict(switched.labels),
                "effect_helped": [each["name"] for each in outcomes.get("helps", ())],
            },
            found,
        )
        listed = [
            {"code": code, "effects": outcomes[code]}
            for code in OUTCOMES.values()
            if code in outcomes
        ]
        yield Statement("conclusion.alternatives.effect.each", {"effect_outcomes": listed}, found)
        yield from _break_even(sweep, switched.name, metric, found)


def _break_even(
    sweep: Sweep, switched: str, metric: Metric | None, found: Sequence[Finding]
) -> Iterator[Statement]:
    """From which step on the time that a variant costs at the start is made up for.

    Where the benchmark measures a start in seconds and chooses by a time in ms.
    """
    starts = [m for m in sweep.benchmark.measured if m.quantity.once and m.unit == "s"]
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
                for p in sweep.benchmark.variants
            )
            run = sweep.run_at(name, variant, sweep.values[0])
            assert run is not None  # the effect was taken of both
            figures += [sweep.metric_row(run, m.name)["value"] for m in (start, metric)]
        start_off, time_off, start_on, time_on = figures
        steps = math.ceil((start_on - start_off) * 1e3 / (time_off - time_on))
        if steps > 0:
            listed.append({"name": name, "count": steps})
    if listed:
        yield Statement("conclusion.alternatives.break_even", {"break_even": listed})


# Curves


def _curves(known: Known, sweep: Sweep) -> Iterator[Statement]:
    """Whether all curves lie within the spread of the naive implementation's."""
    found = known.every("curve", sweep.name)
    differing = [finding for finding in found if finding.verdict == "differs"]
    judged = [finding for finding in found if finding.verdict in ("within", "differs")]
    if not judged:
        return
    widest = max(differing or judged, key=lambda f: float(f.params["distance"]))
    yield Statement(
        f"conclusion.alternatives.curve.{'differs' if differing else 'within'}",
        {
            **{key: widest.params[key] for key in ("curve_label", "curve_unit", "distance")},
            **{key: widest.params[key] for key in ("spread", "steps")},
            "curve_runs": widest.params["runs"],
            "curve_count": len(judged),
            "curve_naive": widest.subject["baseline"],
            "curve_names": sorted({f.subject["implementation"] for f in differing}),
        },
        differing or judged,
    )
