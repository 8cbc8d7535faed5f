"""Times against the ratio that their operations say: of two metrics, two variants, two sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric, Parameter
from flashlab.findings.comparisons import VERDICTS, describe_range
from flashlab.findings.model import Finding
from flashlab.findings.ratios import (
    INTERVALS,
    Estimates,
    Ratio,
    function_of,
    interval_json,
    rounded,
    shared_verdict,
    without_samples,
)
from flashlab.findings.series import Series, build_finding
from flashlab.findings.settings import Setting, dataset_finding, in_short, settings_of
from flashlab.statistics import Estimate, Floats
from flashlab.sweep import Sweep

AGAINST_IDEAL = {"equal": "as_operations", "above": "above", "below": "below"}


def timed_metrics(benchmark: Benchmark) -> list[Metric]:
    """The measured times whose operations are known."""
    return [m for m in benchmark.measured if m.work and not m.higher_is_better]


def _operations(metric: Metric, parameters: Mapping[str, Any]) -> float:
    assert metric.work is not None
    return metric.work.operations(parameters)


def _over(value: int, ideal: float, numerator: Estimate, denominator: Estimate) -> Ratio:
    """A ratio of two medians as a share of what operations say."""

    def share(above: Floats, below: Floats) -> Floats:
        return above / below / ideal

    return function_of(value, share, (numerator, denominator))


def _times(share: Ratio, ideal: float) -> Ratio:
    """The ratio itself of a share of the ideal one."""
    low, high = (None if end is None else end * ideal for end in (share.low, share.high))
    return Ratio(share.value, share.ratio * ideal, low, high, share.samples)


def _verdict(shares: Sequence[Ratio]) -> str:
    shared = shared_verdict(shares)
    return AGAINST_IDEAL.get(shared, shared)


def balances(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """The ratio of the times of two metrics against that of their operations, along a sweep.

    Only where the latter is the same at every value.
    """
    names = sorted(sweep.implementations)
    for first, second in itertools.pairwise(timed_metrics(sweep.benchmark)):
        for name, variant in itertools.product(names, sweep.variants):
            base, series = (Series(sweep, name, variant, metric) for metric in (first, second))
            ideals = {_operations(second, run) / _operations(first, run) for run in series.runs}
            if len({rounded(ideal) for ideal in ideals}) != 1:
                continue
            ideal = ideals.pop()
            below, above = estimates.along(base), estimates.along(series)
            shares = [_over(value, ideal, above[value], below[value]) for value in below]
            found = [_times(share, ideal) for share in shares]
            verdict = _verdict(shares)
            yield build_finding(
                "balance",
                [series],
                verdict,
                sentences=[f"balance.{verdict}" + ("" if found else ".missing")],
                params={**describe_range(found), "ideal": rounded(ideal)},
                method=f"median {second.labels['en']} over median {first.labels['en']}, judged as "
                f"a share of the ratio of their operations, {INTERVALS}",
                n=min((ratio.samples for ratio in found), default=0),
                estimates=[
                    {"value": ratio.value, **interval_json(ratio), "verdict": share.verdict}
                    for ratio, share in zip(found, shares, strict=True)
                ],
                reasons=without_samples(found),
                subject={"other_metric": first.name},
                each_alone=True,
            )


# Pairs of settings, across experiments

Pair = tuple[Setting, Setting]


def _pairs(settings: Sequence[Setting], names: Sequence[str]) -> Iterator[Pair]:
    """Pairs of settings that differ in nothing but these parameters."""
    grouped: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in settings:
        alike = [v for k, v in setting.parameters.items() if k not in names]
        grouped.setdefault((*alike, *setting.key[len(setting.parameters) :]), []).append(setting)
    for group in grouped.values():
        yield from itertools.combinations(group, 2)


def _pair_finding(
    kind: str,
    sweeps: Sequence[Sweep],
    pairs: Sequence[Pair],
    shares: Sequence[Ratio],
    factors: Sequence[Ratio],
    verdict: str,
    subject: Mapping[str, Any],
    params: Mapping[str, Any],
    method: str,
) -> Finding:
    """A finding on the factors of pairs of settings; each factor's value is its pair's position."""
    benchmark, name = sweeps[0].benchmark, subject["implementation"]
    lowest = min(factors, key=lambda factor: factor.ratio)
    highest = max(factors, key=lambda factor: factor.ratio)
    firsts = [pair[0] for pair in pairs]
    compared = [[setting.runs[name][1] for setting in pair] for pair in pairs]
    return dataset_finding(
        kind,
        sweeps,
        verdict,
        subject=subject,
        sentences=[f"{kind}.{verdict}"],
        params={
            "count": len(factors),
            "low": rounded(lowest.ratio),
            "high": rounded(highest.ratio),
            "low_where": in_short(benchmark, firsts[lowest.value], firsts),
            "high_where": in_short(benchmark, firsts[highest.value], firsts),
            **params,
        },
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
        compared=compared,
        reasons=without_samples(factors),
    )


def _implementations(sweeps: Sequence[Sweep]) -> list[str]:
    return sorted({name for sweep in sweeps for name in sweep.implementations})


def variant_gains(sweeps: Sequence[Sweep], estimates: Estimates) -> Iterator[Finding]:
    """What a variant that saves operations gains in time, against the ratio of the operations."""
    benchmark, settings = sweeps[0].benchmark, settings_of(sweeps)
    for parameter in benchmark.variants:
        if parameter.kind is not bool:
            continue
        pairs = [
            pair if pair[0].parameters[parameter.name] is False else (pair[1], pair[0])
            for pair in _pairs(settings, [parameter.name])
        ]
        for name, metric in itertools.product(_implementations(sweeps), timed_metrics(benchmark)):
            mine = [pair for pair in pairs if all(name in setting.runs for setting in pair)]
            ideals = {
                _operations(metric, off.parameters) / _operations(metric, on.parameters)
                for off, on in mine
            }
            if len(ideals) != 1 or (ideal := ideals.pop()) <= 1:
                continue
            shares = [
                _over(
                    position,
                    ideal,
                    *(setting.estimate(estimates, name, metric) for setting in pair),
                )
                for position, pair in enumerate(mine)
            ]
            yield _pair_finding(
                "variant_gain",
                sweeps,
                mine,
                shares,
                [_times(share, ideal) for share in shares],
                _verdict(shares),
                {"implementation": name, "metric": metric.name, "switched": parameter.name},
                {"ideal": rounded(ideal)},
                f"median {metric.labels['en']} without {parameter.name} over that with it, all "
                "else equal, judged as a share of the ratio of the operations",
            )


def _steps(
    benchmark: Benchmark, parameter: Parameter, pairs: Sequence[Pair]
) -> dict[tuple[int, int], list[Pair]]:
    """Pairs by the two values of a derived size, neighbours only, the smaller value first."""

    def size(setting: Setting) -> int:
        return int(benchmark.all_parameters(setting.parameters)[parameter.name])

    values = sorted({size(setting) for pair in pairs for setting in pair})
    steps: dict[tuple[int, int], list[Pair]] = {
        (low, high): [] for low, high in itertools.pairwise(values)
    }
    for pair in pairs:
        small, large = sorted(pair, key=size)
        if (size(small), size(large)) in steps:
            steps[size(small), size(large)].append((small, large))
    return steps


def derived_sizes(sweeps: Sequence[Sweep], estimates: Estimates) -> Iterator[Finding]:
    """What a derived size does to each time at equal operations, from one value to the next."""
    benchmark, settings = sweeps[0].benchmark, settings_of(sweeps)
    for parameter in benchmark.derived_parameters:
        if parameter.is_variant:
            continue
        pairs = list(_pairs(settings, parameter.derived_from))
        steps = _steps(benchmark, parameter, pairs)
        for name, metric in itertools.product(_implementations(sweeps), timed_metrics(benchmark)):
            for (low, high), of_step in steps.items():
                mine = [
                    (small, large)
                    for small, large in of_step
                    if name in small.runs
                    and name in large.runs
                    and _operations(metric, small.parameters)
                    == _operations(metric, large.parameters)
                ]
                if not mine:
                    continue
                factors = [
                    _over(
                        position,
                        1.0,
                        *(setting.estimate(estimates, name, metric) for setting in pair),
                    )
                    for position, pair in enumerate(mine)
                ]
                shared = shared_verdict(factors)
                yield _pair_finding(
                    "derived_size",
                    sweeps,
                    mine,
                    factors,
                    factors,
                    VERDICTS.get(shared, shared),
                    {
                        "implementation": name,
                        "metric": metric.name,
                        "parameter": parameter.name,
                        "step": f"{low} to {high}",
                    },
                    {"from": low, "to": high},
                    f"median {metric.labels['en']} at the smaller {parameter.name} over that at "
                    "the larger, at equal operations and all else equal",
                )
