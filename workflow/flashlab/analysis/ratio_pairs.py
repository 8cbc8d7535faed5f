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
from flashlab.analysis.ratios import Ratio, ratio, rounded, without_samples
from flashlab.analysis.settings import Setting, at_settings, dataset_finding, in_short
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import (
    Heading,
    InBrackets,
    Listed,
    Measured,
    MetricName,
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


def factors_of(
    pairs: Sequence[Pair], name: str, metric: Metric, estimates: Estimates, ideal: float = 1.0
) -> list[Ratio]:
    """The first setting's median over the second's, of each pair; its value is its position."""
    medians = ([one.estimate(estimates, name, metric) for one in pair] for pair in pairs)
    return [ratio(at, first, second, ideal) for at, (first, second) in enumerate(medians)]


def pair_finding(
    kind: str,
    sweeps: Sequence[Sweep],
    pairs: Sequence[Pair],
    factors: Sequence[Ratio],
    verdict: str,
    *,
    messages: Mapping[str, str],
    metric: Metric,
    subject: Mapping[str, Any],
    named: Mapping[str, Tellable],
) -> Finding:
    """A finding on the factors of pairs of settings.

    It is told by the verdict's message, where there is one, which may quote what is `named`.
    """
    benchmark, name = sweeps[0].benchmark, subject["implementation"]
    lowest, highest = (choose(factors, key=lambda factor: factor.ratio) for choose in (min, max))
    firsts = [pair[0] for pair in pairs]

    def where(factor: Ratio) -> Listed:
        return Listed(settings(benchmark, in_short(benchmark, firsts[factor.value], firsts)))

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
        **named,
    }
    key = messages.get(verdict)
    ideal = {"ideal": rounded(factors[0].ideal)} if factors[0].ideal != 1 else {}
    return dataset_finding(
        kind,
        sweeps,
        verdict,
        subject={**subject, "metric": metric.name},
        statements=[say(key, metric.quantity.name, **values)] if key else [],
        facts={"count": len(factors), **ideal},
        estimates=at_settings(benchmark, firsts, factors),
        compared=[[one.runs[name][1] for one in pair] for pair in pairs],
        reasons=without_samples(factors),
    )
