"""Findings that compare: implementation with implementation, one variant with another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Evidence, Finding, excluded, rows_of, subject_of
from flashlab.findings.ratios import (
    BOOTSTRAP,
    Estimates,
    Ratio,
    advantages,
    counted,
    rounded,
    shared_verdict,
    with_verdict,
    without_samples,
)
from flashlab.statistics import MARGIN
from flashlab.sweep import Sweep, Variant, metrics_of, warning_codes

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
        "low": rounded(lowest.ratio),
        "low_at": lowest.value,
        "high": rounded(highest.ratio),
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


def _trend(found: Sequence[Ratio]) -> str:
    """Whether the ratio grows from first to last: beyond both intervals and the margin."""
    if len(found) < 2:
        return "none"
    first, last = found[0], found[-1]
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return "none"
    if rounded(last.low) > rounded(first.high) * (1 + MARGIN):
        return "widens"
    if rounded(last.high) < rounded(first.low) * (1 - MARGIN):
        return "narrows"
    return "none"


def _evidence(sweep: Sweep, found: Sequence[Ratio], method: str, rows: dict[str, Any]) -> Any:
    return Evidence(
        table=f"tables/{sweep.name}/samples.csv",
        rows=rows,
        method=f"{method}, {BOOTSTRAP}",
        n=min((ratio.samples for ratio in found), default=0),
        estimates=[ratio.to_json() for ratio in found],
    ).to_json()


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
    baseline = sweep.baseline
    if baseline not in sweep.implementations:
        return
    others = sorted(name for name in sweep.implementations if name != baseline)
    metrics = _compared_metrics(sweep)
    for name, variant, metric in itertools.product(others, sweep.variants, metrics):
        mine, theirs = (
            estimates.along(sweep, implementation, variant, metric.name)
            for implementation in (name, baseline)
        )
        bases = metric.derived.of if metric.derived else (metric.name,)
        found = advantages(mine, theirs, metric.higher_is_better)
        verdict = VERDICTS.get(shared_verdict(found), shared_verdict(found))
        trend = _trend(found)
        pair = sorted([name, baseline])
        over = "over that of" if metric.higher_is_better else "under that of"
        yield Finding(
            kind="comparison",
            experiment=sweep.name,
            device=sweep.device,
            subject=subject_of(name, variant, baseline=baseline, metric=metric.name),
            verdict=verdict,
            sentences=[
                counted(f"comparison.{verdict}", len(found)),
                *([f"comparison.trend.{trend}"] if trend != "none" else []),
            ],
            params={**describe_range(found), "trend": trend, **_values_by_verdict(found)},
            evidence=_evidence(
                sweep,
                found,
                f"median {metric.labels['en']} {over} the baseline, as a factor above 1 where "
                "better",
                rows_of(
                    [baseline, name], variant, metric=bases[0] if len(bases) == 1 else [*bases]
                ),
            ),
            reasons=excluded(sweep, pair, [variant]) + without_samples(found),
            warnings=warning_codes(sweep.of_series(pair, [variant]), *bases),
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
    """What switching a variant on does to each sampled metric.

    Where the variant changes the operations by definition, their ratio (`work_low`, `work_high`)
    turns the ratio of times into that of rates.
    """
    metrics = metrics_of(sweep.benchmark, exact=False)
    for switched, off, on in _variant_pairs(sweep):
        for name, metric in itertools.product(sorted(sweep.implementations), metrics):
            before, after = (
                estimates.along(sweep, name, variant, metric.name) for variant in (off, on)
            )
            found = advantages(after, before, metric.higher_is_better)
            verdict = VERDICTS.get(shared_verdict(found), shared_verdict(found))
            params = {**describe_range(found), **_values_by_verdict(found)}
            if found and metric.work and not metric.higher_is_better:
                work = metric.work.operations
                (first, *_) = sweep.run_rows(name, off)
                share = work({**first, switched: True}) / work({**first, switched: False})
                rates = [ratio.ratio * share for ratio in found]
                params |= {"rate_low": rounded(min(rates)), "rate_high": rounded(max(rates))}
            fixed = tuple((key, value) for key, value in off if key != switched)
            yield Finding(
                kind="variant_effect",
                experiment=sweep.name,
                device=sweep.device,
                subject=subject_of(name, fixed, metric=metric.name, switched=switched),
                verdict=verdict,
                sentences=[
                    counted(f"variant_effect.{verdict}", len(found)),
                    *(["variant_effect.rate"] if "rate_low" in params else []),
                ],
                params=params,
                evidence=_evidence(
                    sweep,
                    found,
                    f"median {metric.labels['en']} without over that with {switched}, as a factor "
                    "above 1 where better",
                    rows_of([name], fixed, metric=metric.name),
                ),
                reasons=excluded(sweep, [name], [off, on]) + without_samples(found),
                warnings=warning_codes(sweep.of_series([name], [off, on]), metric.name),
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
            first, second = (estimates.along(sweep, name, variant, metric.name) for name in names)
            found = advantages(first, second, metric.higher_is_better)
            span: dict[str, Any] = {"count": len(found)}
            if found:
                span |= {"first": found[0].value, "last": found[-1].value}
            for verdict, sentence, params in _crossover_verdicts(found, names):
                yield Finding(
                    kind="crossover",
                    experiment=sweep.name,
                    device=sweep.device,
                    subject=subject_of(names[0], variant, other=names[1], metric=metric.name),
                    verdict=verdict,
                    sentences=[sentence],
                    params=span | params,
                    evidence=_evidence(
                        sweep,
                        found,
                        f"median {metric.labels['en']} of the two, as a factor above 1 where the "
                        "first is better",
                        rows_of(names, variant, metric=metric.name),
                    ),
                    reasons=excluded(sweep, names, [variant]) + without_samples(found),
                    warnings=warning_codes(sweep.of_series(names, [variant]), metric.name),
                )
