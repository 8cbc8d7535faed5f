"""A rate that changes between neighbours for one implementation and for none of the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.rates import rate_metrics, rates_of
from flashlab.analysis.ratios import Ratio, interval_json, rounded
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.telling.values import Measured, say, span

LEAST_JUMP = 1.5
"""Least factor between neighbours that is a jump of the rate."""

MESSAGES = {"rises": "jump.rises", "falls": "jump.falls"}


def _jumps(step: Ratio) -> bool:
    """Whether a step's whole interval lies beyond the factor of a jump."""
    return (step.low or 0.0) > LEAST_JUMP or (step.high or math.inf) < 1 / LEAST_JUMP


def _is_calm(step: Ratio) -> bool:
    """Whether a step's whole interval lies within the factor of a jump."""
    return (step.low or 0.0) >= 1 / LEAST_JUMP and (step.high or math.inf) <= LEAST_JUMP


def jumps(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """A rate that changes between neighbours for one implementation and for none of the others."""
    checks = hits = 0
    names = sorted(experiment.implementations)
    for variant, metric in itertools.product(experiment.variants, rate_metrics(experiment)):
        of = {
            name: rates_of(Series(experiment, name, variant, metric), given.estimates)
            for name in names
        }
        for before, value in itertools.pairwise(experiment.values):
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
                rest = [rounded(other.ratio) for other in others]
                verdict, jump = "rises" if step.ratio > 1 else "falls", rounded(step.ratio)
                told = quoted([of[name].series], before=before, value=value)
                told |= {"ratio": Measured(jump), "factors": span(min(rest), max(rest))}
                yield build_finding(
                    "jump",
                    [of[name].series],
                    verdict,
                    statements=[say(MESSAGES[verdict], **told)],
                    facts={"ratio": jump},
                    estimates=[
                        {"implementation": key, "value": value, **interval_json(other)}
                        for key, other in steps.items()
                    ],
                    values=[before, value],
                )
    if checks > hits:
        yield Finding("jump", experiment.name, {}, "none", facts={"checked": checks})


def _strength(finding: Finding) -> float:
    """The factor of the jump, either way, as a power of two."""
    return abs(math.log2(finding.facts["ratio"]))


JUMP = Kind(
    label="kind.jump",
    verdicts=("rises", "falls", "none"),
    of_experiment=[(SWEEPS, jumps)],
    told="briefly",
    strength=_strength,
)
