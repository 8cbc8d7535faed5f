"""From all tables to findings.json: every kind of finding, and the conclusions drawn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.conclusions.alternative_conclusions import alternative_conclusions
from flashlab.analysis.conclusions.front_conclusions import front_conclusions
from flashlab.analysis.conclusions.quoting import Known
from flashlab.analysis.conclusions.section_conclusions import section_conclusions
from flashlab.analysis.conclusions.step_conclusions import step_conclusions
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, device_of, ladder_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import Form, Given, Whole
from flashlab.analysis.kinds.sittings import with_sittings
from flashlab.analysis.registry import KINDS
from flashlab.analysis.select import select


def derive(
    experiments: Sequence[Experiment],
    estimates: Estimates,
    published: Mapping[str, Any],
    ceilings: Ceilings | None,
) -> list[Finding]:
    """All findings: experiment by experiment in order of their names, then the dataset's.

    `experiments` are the headline's and those of the sections, in the order of the report, and
    those that only the published claims are checked against.
    """
    found: list[Finding] = []
    experiments = with_sittings(experiments)
    shown = [experiment for experiment in experiments if not experiment.is_of_claims]
    given = Given(estimates, ceilings, published)
    for experiment in sorted(shown, key=lambda experiment: experiment.name):
        for kind in KINDS.values():
            for places, of_experiment in kind.of_experiment:
                if _form(experiment) in places:
                    found += of_experiment(experiment, given)
    for kind in KINDS.values():
        for wholes, of_dataset in kind.of_dataset:
            if _whole(shown) in wholes:
                found += of_dataset(shown, given)
    headline = {name for s in shown if s.is_summary for name in s.implementations}
    selected = select(
        found, [experiment for experiment in shown if not experiment.is_summary], headline
    )
    device = device_of(run for experiment in shown for run in experiment.runs)
    every = [*selected, *conclude(selected, shown, estimates, ceilings)]
    return [replace(finding, device=device) for finding in every]


def _form(experiment: Experiment) -> Form:
    """What an experiment is to those who ask."""
    if experiment.is_simulated:
        return "simulated"
    if experiment.is_summary:
        return "headline"
    return "sweep" if experiment.is_ordered else "unordered"


def _whole(experiments: Sequence[Experiment]) -> Whole:
    """What the dataset is."""
    if any(experiment.is_simulated for experiment in experiments):
        return "simulated"
    return (
        "alternatives"
        if any(experiment.has_alternatives for experiment in experiments)
        else "choices"
    )


def conclude(
    findings: Sequence[Finding],
    experiments: Sequence[Experiment],
    estimates: Estimates,
    ceilings: Ceilings | None,
) -> list[Finding]:
    """What to do, by how much and why: drawn last, from all other findings, which they quote.

    `experiments` are the headline's and the sections', in the report's order.
    """
    known = Known(findings, experiments, ceilings)
    if any(experiment.has_alternatives for experiment in experiments):
        found = [*alternative_conclusions(known, estimates)]
    else:
        front = step_conclusions if ladder_of(experiments) else front_conclusions
        found = [*front(known), *section_conclusions(known)]
    page_one = [finding for finding in found if finding.experiment is None]
    ranked = [replace(finding, rank=rank) for rank, finding in enumerate(page_one)]
    return [*ranked, *(finding for finding in found if finding.experiment is not None)]
