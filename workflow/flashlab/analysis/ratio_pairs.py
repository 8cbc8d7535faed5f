"""Pairs of settings that differ in one thing alone, across experiments: one factor for each pair.

What a variant gains (`kinds.variant_gain`) and what a derived size does (`kinds.derived_size`) are
such factors, judged against the ratio of the operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.ratios import (
    INTERVALS,
    Ratio,
    function_of,
    interval_json,
    rounded,
    without_samples,
)
from flashlab.analysis.settings import Setting, dataset_finding, in_short
from flashlab.benchmarks.model import Metric
from flashlab.statistics import Estimate, Floats
from flashlab.telling.values import (
    Heading,
    InBrackets,
    Listed,
    Measured,
    MetricName,
    Statement,
    Tellable,
    say,
    settings,
    span,
)

Pair = tuple[Setting, Setting]


def pairs_of(given: Sequence[Setting], names: Sequence[str]) -> Iterator[Pair]:
    """Pairs of settings that differ in nothing but these parameters."""
    grouped: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in given:
        alike = [v for k, v in setting.parameters.items() if k not in names]
        grouped.setdefault((*alike, *setting.key[len(setting.parameters) :]), []).append(setting)
    for group in grouped.values():
        yield from itertools.combinations(group, 2)


def implementations_of(sweeps: Sequence[Sweep]) -> list[str]:
    """Every implementation of several experiments, by name."""
    return sorted({name for sweep in sweeps for name in sweep.implementations})


def over_ideal(value: int, ideal: float, numerator: Estimate, denominator: Estimate) -> Ratio:
    """A ratio of two medians as a share of what operations say."""

    def share(above: Floats, below: Floats) -> Floats:
        return above / below / ideal

    return function_of(value, share, (numerator, denominator))


def times_ideal(share: Ratio, ideal: float) -> Ratio:
    """The ratio itself of a share of the ideal one."""
    low, high = (None if end is None else end * ideal for end in (share.low, share.high))
    return Ratio(share.value, share.ratio * ideal, low, high, share.samples)


def shares_of(
    pairs: Sequence[Pair], name: str, metric: Metric, ideal: float, estimates: Estimates
) -> list[Ratio]:
    """The first setting's median over the second's, as a share of the ideal ratio, of each pair."""
    return [
        over_ideal(at, ideal, *(setting.estimate(estimates, name, metric) for setting in pair))
        for at, pair in enumerate(pairs)
    ]


def pair_finding(
    kind: str,
    sweeps: Sequence[Sweep],
    pairs: Sequence[Pair],
    shares: Sequence[Ratio],
    ideal: float,
    verdict: str,
    *,
    messages: Mapping[str, str],
    metric: Metric,
    subject: Mapping[str, Any],
    named: Mapping[str, Tellable],
    method: str,
) -> Finding:
    """A finding on the factors of pairs of settings; each factor's value is its pair's position.

    It is told by the verdict's message, where there is one, which may quote what is `named`.
    """
    benchmark, name = sweeps[0].benchmark, subject["implementation"]
    factors = [times_ideal(share, ideal) for share in shares]
    lowest = min(factors, key=lambda factor: factor.ratio)
    highest = max(factors, key=lambda factor: factor.ratio)
    firsts = [pair[0] for pair in pairs]

    def where(factor: Ratio) -> Listed:
        return Listed(settings(benchmark, in_short(benchmark, firsts[factor.value], firsts)))

    told: list[Statement] = []
    if verdict in messages:
        values: dict[str, Tellable] = {
            "implementation": name,
            "metric": MetricName(metric.name),
            "where": Heading(MetricName(metric.name, part=True)),
            "variant": InBrackets([]),
            "count": len(factors),
            "low": Measured(rounded(lowest.ratio)),
            "high": Measured(rounded(highest.ratio)),
            "low_where": where(lowest),
            "high_where": where(highest),
            "factors": span(rounded(lowest.ratio), rounded(highest.ratio)),
        }
        told = [say(messages[verdict], metric.quantity.name, **values, **named)]
    return dataset_finding(
        kind,
        sweeps,
        verdict,
        subject={**subject, "metric": metric.name},
        statements=told,
        facts={"count": len(factors), **({"ideal": rounded(ideal)} if ideal != 1 else {})},
        method=f"{method}, {INTERVALS}",
        n=min(factor.samples for factor in factors),
        estimates=[
            {
                "setting": benchmark.all_parameters(firsts[factor.value].parameters),
                **interval_json(factor),
                "verdict": share.verdict,
            }
            for factor, share in zip(factors, shares, strict=True)
        ],
        compared=[[setting.runs[name][1] for setting in pair] for pair in pairs],
        reasons=without_samples(factors),
    )
