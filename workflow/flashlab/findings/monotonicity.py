"""Whether a metric goes one way along a sweep, or which pairs go one way and the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Finding
from flashlab.findings.ratios import (
    INTERVALS,
    Estimates,
    Ratio,
    ratio,
    rounded,
    without_samples,
)
from flashlab.findings.series import build_finding, each_series
from flashlab.statistics import Estimate
from flashlab.sweep import Sweep


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


def _judged(from_highest: Sequence[_Step], from_lowest: Sequence[_Step]) -> tuple[str, Any]:
    """Verdict and params: the direction or, where there is none, the deepest fall and rise."""
    fallen = [step for step in from_highest if step.falls]
    risen = [step for step in from_lowest if step.rises]
    if fallen and risen:
        deepest = min(fallen, key=lambda step: step.ratio.ratio)
        highest = max(risen, key=lambda step: step.ratio.ratio)
        return "broken", {
            f"{name}_{part}": value
            for name, step in (("fall", deepest), ("rise", highest))
            for part, value in (
                ("from", step.start),
                ("to", step.ratio.value),
                ("ratio", rounded(step.ratio.ratio)),
            )
        }
    may_fall = any(step.may_fall for step in from_highest)
    may_rise = any(step.may_rise for step in from_lowest)
    if not from_lowest or (may_fall and may_rise):
        return "inconclusive", {}
    return "monotone", {"direction": "falls" if may_fall else "rises" if may_rise else "level"}


def _sentence(metric: Metric, verdict: str, params: Mapping[str, Any], count: int) -> str:
    key = f"monotonicity.{verdict}"
    if "direction" in params:
        key += f".{params['direction']}" + (".exact" if metric.exact else "")
    return f"{key}.missing" if count < 2 else key


def monotonicities(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """Whether each metric goes one way, for each implementation and variant."""
    if len(sweep.values) < 2:
        return
    covaried = [parameter.name for parameter in sweep.covaried]
    for series in each_series(sweep, sweep.benchmark.compared):
        medians, metric = estimates.along(series), series.metric
        values = list(medians)
        if metric.exact:
            steps = _exact_steps({value: found.median for value, found in medians.items()})
        else:
            steps = _sampled_steps(medians)
        verdict, params = _judged(*steps)
        found = [step.ratio for group in steps for step in group]
        yield build_finding(
            "monotonicity",
            [series],
            verdict,
            sentences=[
                _sentence(metric, verdict, params, len(values)),
                *(["covaried"] if covaried else []),
            ],
            params={
                "count": len(values),
                **({"first": values[0], "last": values[-1]} if values else {}),
                "covaried": covaried,
                **params,
            },
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
