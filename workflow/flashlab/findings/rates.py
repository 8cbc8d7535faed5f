"""The rate along a sweep: where the time is level, where the rate saturates, where it jumps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Evidence, Finding
from flashlab.findings.operations import timed_metrics
from flashlab.findings.ratios import (
    INTERVALS,
    Estimates,
    Ratio,
    function_of,
    interval_json,
    ratio,
    rounded,
    without_samples,
)
from flashlab.findings.series import Series, build_finding, each_series
from flashlab.statistics import Estimate, Floats
from flashlab.sweep import Sweep, metrics_of

LEVEL_WORK = 1.5
"""Least factor by which the operations must grow for a level time to mean anything."""

JUMP = 1.5
"""Least factor between neighbours that is a jump of the rate."""

MIN_SATURATION_SIZES = 3

LEVEL_METHOD = (
    "median at each value over that at the smallest, from there on while each is within the "
    f"margin, {INTERVALS}"
)
SATURATION_METHOD = f"rate at each value over the highest rate of the sweep, {INTERVALS}"
JUMP_METHOD = (
    f"rate over that at the value before: beyond a factor of {JUMP} with its whole interval, while "
    f"that of every other implementation is within it, {INTERVALS}"
)


@dataclass(frozen=True)
class _Rates:
    """A series as rates: operations over time, or the metric itself where higher is better."""

    series: Series
    estimates: Mapping[int, Estimate]
    operations: Mapping[int, float]

    def over(self, value: int, base: int) -> Ratio:
        """The rate at one value over that at another; exactly 1 over itself."""
        mine, theirs = self.estimates[value], self.estimates[base]
        if value == base:
            return Ratio(value, 1.0, 1.0, 1.0, mine.count)
        if self.series.metric.higher_is_better:
            return ratio(value, mine, theirs)
        work = self.operations[value] / self.operations[base]

        def quotient(time: Floats, base_time: Floats) -> Floats:
            return work * base_time / time

        return function_of(value, quotient, (mine, theirs))

    def median(self, value: int) -> float:
        """The median rate at a value, in a unit of its own."""
        found = self.estimates[value].median
        return found if self.series.metric.higher_is_better else self.operations[value] / found


def _rates(series: Series, estimates: Estimates) -> _Rates:
    work = series.metric.work
    rows = {series.sweep.value_of(run): run for run in series.runs}
    operations = {value: work.operations(run) if work else 0.0 for value, run in rows.items()}
    return _Rates(series, estimates.along(series), operations)


def _rate_metrics(sweep: Sweep) -> list[Metric]:
    """The sampled metrics of which there is a rate."""
    rates = [m for m in metrics_of(sweep.benchmark, exact=False) if m.higher_is_better]
    return [*timed_metrics(sweep.benchmark), *rates]


def _json(found: Sequence[Ratio]) -> list[dict[str, Any]]:
    return [entry.to_json() for entry in found]


# The small end


def launch_bounds(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """Whether at the small end of a sweep the time stays level while the operations grow."""
    for series in each_series(sweep, timed_metrics(sweep.benchmark)):
        rates = _rates(series, estimates)
        values = sorted(rates.estimates, key=lambda value: (rates.operations[value], value))
        if len(values) < 2:
            continue
        first, *others = values
        found: list[Ratio] = []
        for value in others:
            found.append(ratio(value, rates.estimates[value], rates.estimates[first]))
            if found[-1].verdict != "equal":
                break
        level = [step for step in found if step.verdict == "equal"]
        until = level[-1].value if level else first
        growth = rates.operations[until] / rates.operations[first]
        if growth >= LEVEL_WORK:
            verdict = "level"
        else:
            verdict = "inconclusive" if found[-1].verdict == "inconclusive" else "none"
        yield build_finding(
            "launch_bound",
            [series],
            verdict,
            sentences=[f"launch_bound.{verdict}"],
            params={
                "first": first,
                "until": until,
                "times_work": rounded(growth),
                "times": rounded(level[-1].ratio if level else 1.0),
            },
            method=LEVEL_METHOD,
            n=min(step.samples for step in found),
            estimates=_json(found),
            reasons=without_samples(found),
        )


# The large end


def _saturation(found: Mapping[int, Ratio], best: int) -> tuple[str, int | None]:
    """What the shares of the highest rate amount to, and from which value on it is reached."""
    values = list(found)
    reached = values[-1]
    for value in reversed(values):
        if found[value].verdict != "equal":
            break
        reached = value
    last, before = found[values[-1]], found[values[-2]]
    if last.verdict == "below":
        return "falls", None
    if last.verdict == "inconclusive":
        return "inconclusive", None
    if reached != values[-1]:
        blocked = values.index(reached) and found[values[values.index(reached) - 1]]
        if blocked and blocked.verdict == "inconclusive":
            return "inconclusive", None
        return "reached", reached
    if before.verdict == "inconclusive":
        return "inconclusive", None
    return ("rising" if best == values[-1] else "uneven"), None


def saturations(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """From which value on a rate stays within the margin of its highest."""
    for series in each_series(sweep, _rate_metrics(sweep)):
        rates = _rates(series, estimates)
        if len(rates.estimates) < MIN_SATURATION_SIZES:
            continue
        best = max(rates.estimates, key=rates.median)
        found = {value: rates.over(value, best) for value in sorted(rates.estimates)}
        verdict, reached = _saturation(found, best)
        values = list(found)
        yield build_finding(
            "saturation",
            [series],
            verdict,
            sentences=[f"saturation.{verdict}"],
            params={
                "first": values[0],
                "last": values[-1],
                "best": best,
                "from": reached,
                "share": rounded(100 * found[values[-1]].ratio),
                "share_before": rounded(100 * found[values[-2]].ratio),
            },
            method=SATURATION_METHOD,
            n=min(entry.samples for entry in found.values()),
            estimates=_json(list(found.values())),
            reasons=without_samples(entry for v, entry in found.items() if v != best),
        )


# In between


def _jumps(step: Ratio) -> bool:
    """Whether a step's whole interval lies beyond the factor of a jump."""
    if step.low is None or step.high is None:
        return False
    return step.low > JUMP or step.high < 1 / JUMP


def _is_calm(step: Ratio) -> bool:
    """Whether a step's whole interval lies within the factor of a jump."""
    if step.low is None or step.high is None:
        return False
    return step.low >= 1 / JUMP and step.high <= JUMP


def jumps(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """A rate that changes between neighbours for one implementation and for none of the others."""
    checks = hits = 0
    names = sorted(sweep.implementations)
    for variant, metric in itertools.product(sweep.variants, _rate_metrics(sweep)):
        of = {name: _rates(Series(sweep, name, variant, metric), estimates) for name in names}
        for before, value in itertools.pairwise(sweep.values):
            steps = {
                name: rates.over(value, before)
                for name, rates in of.items()
                if {before, value} <= rates.estimates.keys()
            }
            if len(steps) < 2:
                continue
            checks += len(steps)
            for name, step in steps.items():
                others = [other for key, other in steps.items() if key != name]
                if not _jumps(step) or not all(map(_is_calm, others)):
                    continue
                hits += 1
                verdict = "rises" if step.ratio > 1 else "falls"
                yield build_finding(
                    "jump",
                    [of[name].series],
                    verdict,
                    sentences=[f"jump.{verdict}"],
                    params={
                        "before": before,
                        "value": value,
                        "ratio": rounded(step.ratio),
                        "low": rounded(min(other.ratio for other in others)),
                        "high": rounded(max(other.ratio for other in others)),
                    },
                    method=JUMP_METHOD,
                    n=min(other.samples for other in steps.values()),
                    estimates=[
                        {"implementation": key, "value": value, **interval_json(other)}
                        for key, other in steps.items()
                    ],
                    values=[before, value],
                )
    if checks > hits:
        yield Finding(
            kind="jump",
            experiment=sweep.name,
            device=sweep.device,
            subject={},
            verdict="none",
            sentences=["jump.none"],
            params={"checks": checks, "clean": checks - hits},
            evidence=Evidence(
                table=f"tables/{sweep.name}/samples.csv",
                rows={"implementation": names},
                method=JUMP_METHOD,
                n=checks,
            ),
        )
