"""Whether at the small end of a sweep the time stays level while the operations grow."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.rates import rates_of, timed_metrics
from flashlab.analysis.ratios import INTERVALS, Ratio, ratio, rounded, without_samples
from flashlab.analysis.series import build_finding, each_series, quoted
from flashlab.telling.values import Number, say

LEVEL_WORK = 1.5
"""Least factor by which the operations must grow for a level time to mean anything."""

METHOD = (
    "median at each value over that at the smallest, from there on while each is within the "
    f"margin, {INTERVALS}"
)


def launch_bounds(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """For each timed series how far its time is level, from the least operations on."""
    for series in each_series(sweep, timed_metrics(sweep.benchmark)):
        rates = rates_of(series, given.estimates)
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
        growth = rounded(rates.operations[until] / rates.operations[first])
        told = []
        if rates.operations[until] / rates.operations[first] >= LEVEL_WORK:
            verdict = "level"
            values_told = quoted([series], first=first, until=until, times_work=Number(growth))
            told = [say("launch_bound.level", **values_told)]
        else:
            verdict = "inconclusive" if found[-1].verdict == "inconclusive" else "none"
        yield build_finding(
            "launch_bound",
            [series],
            verdict,
            statements=told,
            facts={"times_work": growth},
            method=METHOD,
            n=min(step.samples for step in found),
            estimates=[step.to_json() for step in found],
            reasons=without_samples(found),
        )


def _strength(finding: Finding) -> float:
    """By how much the operations grow while the time stays level, as a power of two."""
    return math.log2(finding.facts["times_work"])


LAUNCH_BOUND = Kind(
    name="launch_bound",
    label="kind.launch_bound",
    verdicts=("level", "none", "inconclusive"),
    of_experiment=[(SWEEPS, launch_bounds)],
    told="briefly",
    strength=_strength,
)
