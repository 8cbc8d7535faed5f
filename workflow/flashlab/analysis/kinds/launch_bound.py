"""Whether at the small end of a sweep the time stays level while the operations grow."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.rates import rates_of, timed_metrics
from flashlab.analysis.ratios import Ratio, ratio, rounded, with_verdict
from flashlab.analysis.series import build_finding, each_series, quoted
from flashlab.telling.values import Number, say

LEVEL_WORK = 1.5
"""Least factor by which the operations must grow for a level time to mean anything."""


def launch_bounds(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """For each timed series how far its time is level, from the least operations on."""
    for series in each_series(sweep, timed_metrics(sweep.benchmark)):
        rates = rates_of(series, given.estimates)
        values = sorted(rates.estimates, key=lambda value: (rates.operations[value], value))
        if len(values) < 2:
            continue
        first, *others = values
        steps: list[Ratio] = []
        for value in others:
            steps.append(ratio(value, rates.estimates[value], rates.estimates[first]))
            if steps[-1].verdict != "equal":
                break
        until = [first, *with_verdict(steps, "equal")][-1]
        growth = rates.operations[until] / rates.operations[first]
        statements, verdict = [], "none"
        if growth >= LEVEL_WORK:
            values_told = quoted([series], first=first, until=until)
            times = Number(rounded(growth))
            statements = [say("launch_bound.level", **values_told, times_work=times)]
            verdict = "level"
        elif steps[-1].verdict == "inconclusive":
            verdict = "inconclusive"
        yield build_finding(
            "launch_bound",
            [series],
            verdict,
            statements=statements,
            facts={"times_work": rounded(growth)},
            ratios=steps,
        )


def _strength(finding: Finding) -> float:
    """By how much the operations grow while the time stays level, as a power of two."""
    return math.log2(finding.facts["times_work"])


LAUNCH_BOUND = Kind(
    label="kind.launch_bound",
    verdicts=("level", "none", "inconclusive"),
    of_experiment=[(SWEEPS, launch_bounds)],
    told="briefly",
    strength=_strength,
)
