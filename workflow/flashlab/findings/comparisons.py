"""Findings that compare: implementation with implementation, one variant with another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Finding
from flashlab.findings.ratios import (
    INTERVALS,
    Estimates,
    Ratio,
    advantages,
    counted,
    exceeds_margin,
    rounded_off_margin,
    shared_verdict,
    with_verdict,
    without_samples,
)
from flashlab.findings.series import Series, build_finding
from flashlab.sweep import Sweep, Variant, metrics_of

VERDICTS = {"above": "better", "below": "worse", "equal": "equivalent"}


def describe_range(found: Sequence[Ratio]) -> dict[str, Any]:
    """The printed range of the ratios, and where each end lies; the count alone where none is."""
    if not found:
        return {"count": 0}
    lowest = min(found, key=lambda ratio: ratio.ratio)
    highest = max(found, key=lambda ratio: ratio.ratio)
    return {
        "first": found[0].value,
        "last": found[-1].value,
        "count": len(found),
        "low": rounded_off_margin(lowest.ratio),
        "low_at": lowest.value,
        "high": rounded_off_margin(highest.ratio),
        "high_at": highest.value,
    }


def _values_by_verdict(found: Sequence[Ratio]) -> dict[str, list[int]]:
    """The values of the sweep at which each verdict holds."""
    return {
        "better_at": with_verdict(found, "above"),
        "worse_at": with_verdict(found, "below"),
        "equal_at": with_verdict(found, "equal"),
        "undecided_at": with_verdict(found, "inconclusive"),
    }


def _is_higher(one: Ratio, other: Ratio) -> bool:
    """Whether a ratio is higher than another: both intervals apart by the margin of four medians.

    Each ratio is one of two medians and has the margin once.
    """
    if one.low is None or other.high is None:
        return False
    return exceeds_margin(one.low / other.high, margins=2)


def trend_of(found: Sequence[Ratio]) -> str:
    """How the ratio goes along the sweep: it ``widens``, ``narrows``, ``peaks`` or ``dips``.

    It widens or narrows from the first value to the last where no two ratios go against that. Else
    it peaks or dips where the highest or the lowest lies in between, beyond those at both ends.
    Otherwise ``none``.
    """
    if len(found) < 2:
        return "none"
    pairs = list(itertools.combinations(found, 2))
    rises = any(_is_higher(later, earlier) for earlier, later in pairs)
    falls = any(_is_higher(earlier, later) for earlier, later in pairs)
    first, last = found[0], found[-1]
    if _is_higher(last, first) and not falls:
        return "widens"
    if _is_higher(first, last) and not rises:
        return "narrows"
    highest, lowest = (choose(found, key=lambda ratio: ratio.ratio) for choose in (max, min))
    if all(_is_higher(highest, end) for end in (first, last)):
        return "peaks"
    if all(_is_higher(end, lowest) for end in (first, last)):
        return "dips"
    return "none"


def _verdict(found: Sequence[Ratio]) -> str:
    shared = shared_verdict(found)
    return VERDICTS.get(shared, shared)


def _build_finding(
    kind: str,
    pair: Sequence[Series],
    found: Sequence[Ratio],
    verdict: str,
    sentences: Sequence[str],
    params: Mapping[str, Any],
    method: str,
    subject: Mapping[str, str],
) -> Finding:
    """A finding on the ratios of two series."""
    return build_finding(
        kind,
        pair,
        verdict,
        sentences=sentences,
        params=params,
        method=f"median {pair[0].metric.labels['en']} {method}, {INTERVALS}",
        n=min((ratio.samples for ratio in found), default=0),
        estimates=[ratio.to_json() for ratio in found],
        reasons=without_samples(found),
        subject=subject,
    )


def _compared_metrics(sweep: Sweep) -> list[Metric]:
    """The sampled metrics that are measured; in the headline also the totals of several."""
    measured = metrics_of(sweep.benchmark, exact=False)
    names = {metric.name for metric in measured}
    totals = [
        metric
        for metric in sweep.benchmark.metrics
        if metric.derived and len(metric.derived.of) > 1 and names.issuperset(metric.derived.of)
    ]
    return [*measured, *totals] if sweep.is_summary else measured


def comparisons(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """How many times as good as the baseline each implementation is, by each sampled metric."""
    if sweep.baseline not in sweep.implementations:
        return
    others = sorted(name for name in sweep.implementations if name != sweep.baseline)
    metrics = _compared_metrics(sweep)
    for name, variant, metric in itertools.product(others, sweep.variants, metrics):
        pair = [Series(sweep, who, variant, metric) for who in (name, sweep.baseline)]
        mine, theirs = map(estimates.along, pair)
        found = advantages(mine, theirs, metric.higher_is_better)
        verdict, trend = _verdict(found), trend_of(found)
        over = "over that of" if metric.higher_is_better else "under that of"
        yield _build_finding(
            "comparison",
            pair,
            found,
            verdict,
            sentences=[
                counted(f"comparison.{verdict}", len(found)),
                *([f"comparison.trend.{trend}"] if trend != "none" else []),
            ],
            params={**describe_range(found), "trend": trend, **_values_by_verdict(found)},
            method=f"{over} the baseline, as a factor above 1 where better",
            subject={"baseline": sweep.baseline},
        )


def _variant_pairs(sweep: Sweep) -> Iterator[tuple[str, Variant, Variant]]:
    """Pairs of variants that differ in one boolean parameter alone: off, and on."""
    for parameter in sweep.benchmark.variants:
        if parameter.kind is not bool:
            continue
        for off in sweep.variants:
            on = tuple((key, key == parameter.name or value) for key, value in off)
            if dict(off)[parameter.name] is False and on in sweep.variants:
                yield parameter.name, off, on


def variant_effects(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """What switching a variant on does to each sampled metric."""
    names, metrics = sorted(sweep.implementations), metrics_of(sweep.benchmark, exact=False)
    for switched, off, on in _variant_pairs(sweep):
        for name, metric in itertools.product(names, metrics):
            pair = [Series(sweep, name, variant, metric) for variant in (off, on)]
            before, after = map(estimates.along, pair)
            found = advantages(after, before, metric.higher_is_better)
            verdict = _verdict(found)
            sides = ("with", "without") if metric.higher_is_better else ("without", "with")
            yield _build_finding(
                "variant_effect",
                pair,
                found,
                verdict,
                sentences=[counted(f"variant_effect.{verdict}", len(found))],
                params={**describe_range(found), **_values_by_verdict(found)},
                method=f"{sides[0]} {switched} over that {sides[1]}, as a factor above 1 where "
                "better",
                subject={"switched": switched},
            )


def _changes(found: Sequence[Ratio]) -> list[tuple[Ratio, Ratio]]:
    """Neighbours, among the sizes at which one is better, of which not the same one is."""
    decided = [ratio for ratio in found if ratio.verdict in ("above", "below")]
    return [pair for pair in itertools.pairwise(decided) if pair[0].verdict != pair[1].verdict]


def _unchanged(found: Sequence[Ratio], names: tuple[str, str]) -> tuple[str, dict[str, str]] | None:
    """Who is nowhere worse by more than the margin, None where that cannot be said of either."""
    first_worse = any(ratio.may_be_below for ratio in found)
    second_worse = any(ratio.may_be_above for ratio in found)
    if first_worse and second_worse:
        return None
    if not first_worse and not second_worse:
        return "level", {}
    leader, trailer = names if second_worse else names[::-1]
    return "leads", {"leader": leader, "trailer": trailer}


def _crossover_verdicts(
    found: Sequence[Ratio], names: tuple[str, str]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Verdict, sentence and params: one for each change, or one for the lack of any."""
    changes = [
        (
            "crosses",
            "crossover.crosses",
            {
                "low_at": before.value,
                "high_at": after.value,
                "before": names[before.verdict == "below"],
                "after": names[after.verdict == "below"],
            },
        )
        for before, after in _changes(found)
    ]
    if changes:
        return changes
    if len(found) < 2:
        return [("inconclusive", "crossover.inconclusive.missing", {})]
    unchanged = _unchanged(found, names)
    if unchanged is None:
        return [("inconclusive", "crossover.inconclusive", {})]
    relation, params = unchanged
    sentence = f"crossover.none_in_range.{relation}"
    return [("none_in_range", sentence, {"relation": relation, **params})]


def crossovers(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """Between which measured values the better of two implementations changes: a finding each."""
    if len(sweep.values) < 2:
        return
    metrics = metrics_of(sweep.benchmark, exact=False)
    for names in itertools.combinations(sorted(sweep.implementations), 2):
        for variant, metric in itertools.product(sweep.variants, metrics):
            # Above 1 the first of the two is the better one.
            pair = [Series(sweep, name, variant, metric) for name in names]
            first, second = map(estimates.along, pair)
            found = advantages(first, second, metric.higher_is_better)
            span: dict[str, Any] = {"count": len(found)}
            if found:
                span |= {"first": found[0].value, "last": found[-1].value}
            for verdict, sentence, params in _crossover_verdicts(found, names):
                yield _build_finding(
                    "crossover",
                    pair,
                    found,
                    verdict,
                    sentences=[sentence],
                    params=span | params,
                    method="of the two, as a factor above 1 where the first is better",
                    subject={"other": names[1]},
                )
