"""From all tables to findings.json: every kind of finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, device_of
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
                found += of_dataset(experiments if kind.name == "claim" else shown, given)
    headline = {name for s in shown if s.is_summary for name in s.implementations}
    selected = select(
        found, [experiment for experiment in shown if not experiment.is_summary], headline
    )
    device = device_of(run for experiment in shown for run in experiment.runs)
    every = selected
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
