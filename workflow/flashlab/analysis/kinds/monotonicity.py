"""Whether a metric goes one way along a sweep, or which pairs go one way and the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.ratios import INTERVALS, Ratio, ratio, rounded, without_samples
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.statistics import Estimate
from flashlab.telling.values import Listed, Measured, ParameterName, Statement, say


@dataclass(frozen=True)
class _Step:
    """A value's ratio to an earlier value of the sweep, and whether it has or may have changed."""

    start: int
    ratio: Ratio
    falls: bool
    rises: bool
    may_fall: bool
    may_rise: bool


def _steps(
    by_value: Mapping[int, float], step: Callable[[int, int], _Step]
) -> tuple[list[_Step], list[_Step]]:
    """Each value against the highest of those before it, and against the lowest."""
    values = list(by_value)
    before = [(values[:i], value) for i, value in enumerate(values) if i]
    return (
        [step(max(earlier, key=by_value.__getitem__), value) for earlier, value in before],
        [step(min(earlier, key=by_value.__getitem__), value) for earlier, value in before],
    )


def _sampled_steps(medians: Mapping[int, Estimate]) -> tuple[list[_Step], list[_Step]]:
    """Steps of a sampled metric, judged by the margin."""

    def step(start: int, value: int) -> _Step:
        found = ratio(value, medians[value], medians[start])
        falls, rises = found.verdict == "below", found.verdict == "above"
        return _Step(start, found, falls, rises, found.may_be_below, found.may_be_above)

    return _steps({value: estimate.median for value, estimate in medians.items()}, step)


def _exact_steps(values: Mapping[int, float]) -> tuple[list[_Step], list[_Step]]:
    """Steps of an exact metric, judged by any digit that is printed."""

    def step(start: int, value: int) -> _Step:
        found = rounded(values[value] / values[start])
        falls, rises = found < 1, found > 1
        return _Step(start, Ratio(value, found, found, found, 1), falls, rises, falls, rises)

    return _steps(values, step)


def _verdict(from_highest: Sequence[_Step], from_lowest: Sequence[_Step]) -> str:
    """Whether it goes one way, both ways, or that is not decided."""
    if any(step.falls for step in from_highest) and any(step.rises for step in from_lowest):
        return "broken"
    may_fall = any(step.may_fall for step in from_highest)
    may_rise = any(step.may_rise for step in from_lowest)
    return "inconclusive" if not from_lowest or (may_fall and may_rise) else "monotone"


def _statements(
    series: Series,
    verdict: str,
    steps: tuple[Sequence[_Step], Sequence[_Step]],
    values: Sequence[int],
) -> Iterator[Statement]:
    """Both ways at their most, or that it is not decided; nothing of what goes one way."""
    if verdict == "monotone":
        return
    told, covaried = quoted([series]), series.sweep.covaried
    if values:
        told |= {"first": values[0], "last": values[-1]}
    if verdict == "broken":
        from_highest, from_lowest = steps
        fall = min((s for s in from_highest if s.falls), key=lambda step: step.ratio.ratio)
        rise = max((s for s in from_lowest if s.rises), key=lambda step: step.ratio.ratio)
        for name, step in (("fall", fall), ("rise", rise)):
            told |= {
                f"{name}_from": step.start,
                f"{name}_to": step.ratio.value,
                f"{name}_ratio": Measured(rounded(step.ratio.ratio)),
            }
        yield say("monotonicity.broken", **told)
    elif len(values) < 2:
        yield say("monotonicity.inconclusive.missing", **told)
    else:
        yield say("monotonicity.inconclusive", **told)
    if covaried:
        names = [ParameterName(parameter.name) for parameter in covaried]
        yield say("covaried", symbol=series.sweep.parameter.symbol, covaried=Listed(names))


def monotonicities(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """Whether each metric goes one way, for each implementation and variant."""
    if len(sweep.values) < 2:
        return
    for series in each_series(sweep, sweep.benchmark.compared):
        medians, metric = given.estimates.along(series), series.metric
        values = list(medians)
        if metric.exact:
            steps = _exact_steps({value: found.median for value, found in medians.items()})
        else:
            steps = _sampled_steps(medians)
        verdict = _verdict(*steps)
        found = [step.ratio for group in steps for step in group]
        yield build_finding(
            "monotonicity",
            [series],
            verdict,
            statements=list(_statements(series, verdict, steps, values)),
            method="each value over the highest and over the lowest before it, "
            + ("exact, to three digits" if metric.exact else INTERVALS),
            n=min((ratio.samples for ratio in found), default=0),
            estimates=[
                {"against": against, "start": step.start, **step.ratio.to_json()}
                for against, group in zip(("highest", "lowest"), steps, strict=True)
                for step in group
            ],
            reasons=without_samples(found),
        )


MONOTONICITY = Kind(
    name="monotonicity",
    label="kind.monotonicity",
    verdicts=("monotone", "broken", "inconclusive"),
    of_experiment=[(SWEEPS, monotonicities)],
    told="in full",
    alarming=frozenset({"broken"}),
)
