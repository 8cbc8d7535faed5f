"""Whether a metric goes one way along a sweep, or which pairs go one way and the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.ratios import Ratio, printed_ratio, ratio, rounded, without_samples
from flashlab.analysis.series import Series, build_finding, each_series, quoted, told_covaried
from flashlab.statistics import Estimate
from flashlab.telling.values import Statement, say


@dataclass(frozen=True)
class _Step:
    """A value's ratio to an earlier value of the sweep, and whether it has or may have changed."""

    start: int
    ratio: Ratio
    falls: bool
    rises: bool
    may_fall: bool
    may_rise: bool


Steps = tuple[list[_Step], list[_Step]]
"""Each value against the highest of those before it, and against the lowest."""


def _step(medians: Mapping[int, Estimate], start: int, value: int, exact: bool) -> _Step:
    """A step, judged by the margin; of an exact metric by any digit that is printed."""
    if exact:
        share = rounded(medians[value].median / medians[start].median)
        falls, rises = share < 1, share > 1
        return _Step(start, Ratio(value, share, share, share, 1), falls, rises, falls, rises)
    change = ratio(value, medians[value], medians[start])
    falls, rises = change.verdict == "below", change.verdict == "above"
    return _Step(start, change, falls, rises, change.may_be_below, change.may_be_above)


def _steps(medians: Mapping[int, Estimate], exact: bool) -> Steps:
    values = list(medians)
    highest, lowest = (
        [
            _step(medians, choose(values[:i], key=lambda at: medians[at].median), value, exact)
            for i, value in enumerate(values)
            if i
        ]
        for choose in (max, min)
    )
    return highest, lowest


def _verdict(from_highest: Sequence[_Step], from_lowest: Sequence[_Step]) -> str:
    """Whether it goes one way, both ways, or that is not decided."""
    if any(step.falls for step in from_highest) and any(step.rises for step in from_lowest):
        return "broken"
    may_fall = any(step.may_fall for step in from_highest)
    may_rise = any(step.may_rise for step in from_lowest)
    return "inconclusive" if not from_lowest or (may_fall and may_rise) else "monotone"


def _statements(
    series: Series, verdict: str, steps: Steps, values: Sequence[int]
) -> Iterator[Statement]:
    """Both ways at their most, or that it is not decided; nothing of what goes one way."""
    if verdict == "monotone":
        return
    told = quoted([series])
    if values:
        told |= {"first": values[0], "last": values[-1]}
    if verdict == "broken":
        from_highest, from_lowest = steps
        fall = min((s for s in from_highest if s.falls), key=lambda step: step.ratio.ratio)
        rise = max((s for s in from_lowest if s.rises), key=lambda step: step.ratio.ratio)
        for name, step in (("fall", fall), ("rise", rise)):
            told |= {f"{name}_from": step.start, f"{name}_to": step.ratio.value}
            told |= {f"{name}_ratio": printed_ratio(step.ratio)}
        yield say("monotonicity.broken", **told)
    elif len(values) < 2:
        yield say("monotonicity.inconclusive.missing", **told)
    else:
        yield say("monotonicity.inconclusive", **told)
    yield from told_covaried(series.experiment)


def monotonicities(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Whether each metric goes one way, for each implementation and variant."""
    if len(experiment.values) < 2:
        return
    for series in each_series(experiment, experiment.benchmark.compared):
        medians = given.estimates.along(series)
        steps = _steps(medians, series.metric.exact)
        verdict = _verdict(*steps)
        yield build_finding(
            "monotonicity",
            [series],
            verdict,
            statements=list(_statements(series, verdict, steps, list(medians))),
            estimates=[
                {"against": against, "start": step.start, **step.ratio.to_json()}
                for against, group in zip(("highest", "lowest"), steps, strict=True)
                for step in group
            ],
            reasons=without_samples(step.ratio for group in steps for step in group),
        )


MONOTONICITY = Kind(
    label="kind.monotonicity",
    verdicts=("monotone", "broken", "inconclusive"),
    of_experiment=[(SWEEPS, monotonicities)],
    told="in full",
    alarming=frozenset({"broken"}),
)
