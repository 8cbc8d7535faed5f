"""Which findings the sections tell in prose, and which are in tables and counts alone.

What is on page one is decided with the conclusions (`front_conclusions`).

A section tells its comparisons and growth in full, and of each of the brief kinds at most one
finding, at most `MOST_BRIEF` in all, choices first. What is told so of one implementation and
metric is told once, in the section where it is strongest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.scaling import SCALING
from flashlab.analysis.registry import KINDS
from flashlab.files import canonical
from flashlab.telling.values import to_json

MIN_CHOICES = 3
"""Fewest implementations among which choosing is more than a comparison with the baseline."""

MOST_BRIEF = 3

BRIEFLY = ("jump", "exact_account")
"""Kinds of which a section tells the strongest finding alone, the foremost ones first."""


def _is_told(finding: Finding, headline: Collection[str], tabulated: bool) -> bool:
    """Whether a section tells a finding in full: one about the headline's implementations.

    What breaks a rule that should hold is told of every implementation. Growth is not told where
    it is `tabulated`: where a table gives it for all implementations.
    """
    kind = KINDS[finding.kind]
    if kind.told != "in full" or not finding.statements or (tabulated and kind is SCALING):
        return False
    return finding.verdict in kind.alarming or finding.implementations <= set(headline)


def _content(finding: Finding, experiment: Experiment) -> str:
    """What a finding states, whichever experiment it belongs to."""
    content = [finding.kind, dict(finding.subject), to_json(finding.statements), finding.verdict]
    return canonical([*content, experiment.parameter.name])


def _told(
    findings: Sequence[Finding], experiments: Sequence[Experiment], headline: Collection[str]
) -> Iterator[Finding]:
    """The findings that a section tells and no earlier section has told."""
    known: set[str] = set()
    for experiment in experiments:
        if all(run["status"] != "ok" for run in experiment.runs):
            continue  # every check says the same: that there are no numbers
        tabulated = not set(experiment.implementations) <= set(headline)
        for finding in findings:
            if finding.experiment != experiment.name or not _is_told(finding, headline, tabulated):
                continue
            key = _content(finding, experiment)
            if key not in known:
                known.add(key)
                yield finding


def _decisive(findings: Iterable[Finding]) -> set[str | None]:
    """The metric by which the dataset's overall choice is made."""
    return {f.metric for f in findings if f.kind == "choice" and f.experiment is None}


def _strongest(findings: Iterable[Finding], headline: Collection[str]) -> list[Finding]:
    """Of each brief kind, implementation and metric that which has most to tell, if anything.

    The strongest first; of several the first by name, whatever the order.
    """
    by_strength: list[tuple[float, str, str, Finding]] = []
    for finding in findings:
        strength = KINDS[finding.kind].strength
        told_of = finding.kind == "jump" or finding.implementations <= set(headline)
        if strength and finding.statements and told_of and (found := strength(finding)):
            by_strength.append((-found, str(finding.experiment), str(finding.subject), finding))
    strongest: dict[tuple[Any, ...], Finding] = {}
    for *_, finding in sorted(by_strength, key=lambda each: each[:3]):
        strongest.setdefault((finding.kind, finding.implementations, finding.metric), finding)
    return list(strongest.values())


def _told_briefly(
    findings: Sequence[Finding], experiments: Sequence[Experiment], headline: Collection[str]
) -> Iterator[Finding]:
    """What each section tells of the kinds that it tells briefly, and of its choices.

    Those are by the metric that decides over the dataset: a total, if any. With fewer
    implementations than `MIN_CHOICES` the comparisons tell all there is.
    """
    strongest, decisive = _strongest(findings, headline), _decisive(findings)
    known: set[str] = set()
    for experiment in experiments:
        every = (f for f in findings if (f.kind, f.experiment) == ("choice", experiment.name))
        told_choices = [
            choice
            for choice in every
            if choice.metric in decisive and choice.facts["of"] >= MIN_CHOICES and choice.statements
        ]
        choices = {_content(choice, experiment): choice for choice in told_choices[:MOST_BRIEF]}
        told = [choice for content, choice in choices.items() if content not in known]
        known |= choices.keys()
        of_experiment = [f for f in strongest if f.experiment == experiment.name]
        brief = (next((f for f in of_experiment if f.kind == kind), None) for kind in BRIEFLY)
        yield from [*told, *filter(None, brief)][: max(len(told), MOST_BRIEF)]


def _told_of_dataset(findings: Sequence[Finding], headline: Collection[str]) -> list[Finding]:
    """One finding of each kind about the whole dataset: that with the most settings behind it.

    What is worse than the naive implementation is told of any implementation, by the metric that
    decides over the dataset; the others are told of the headline's.
    """
    found: dict[str, Finding] = {}
    decisive = _decisive(findings)
    for finding in findings:
        kind = KINDS[finding.kind]
        if kind.told != "of the dataset" or not finding.statements:
            continue
        of_headline, best = finding.implementations <= set(headline), found.get(kind.name)
        if not (finding.metric in decisive if kind.alarming else of_headline):
            continue
        if best is None or finding.facts["count"] > best.facts["count"]:
            found[kind.name] = finding
    return list(found.values())


def told_rooflines(findings: Iterable[Finding], headline: Collection[str]) -> list[Finding]:
    """Contradictions of the model, and the nearest approach of each of the headline's."""
    errors: list[Finding] = []
    nearest: dict[str, Finding] = {}
    for finding in findings:
        if finding.kind != "roofline":
            continue
        name = finding.subject["implementation"]
        if finding.verdict == "model_error":
            errors.append(finding)
        elif name in headline:
            best = nearest.setdefault(name, finding)
            nearest[name] = max(best, finding, key=lambda f: float(f.facts["matrix_high"]))
    return [*errors, *nearest.values()]


def select(
    findings: Sequence[Finding], experiments: Sequence[Experiment], headline: Collection[str]
) -> list[Finding]:
    """The findings, each with whether it is told; `experiments` are the sections in order."""
    order = {experiment.name: position for position, experiment in enumerate(experiments)}
    by_section = sorted(findings, key=lambda f: order.get(f.experiment or "", len(order)))
    told = {
        id(finding)
        for finding in (
            *_told(findings, experiments, headline),
            *_told_briefly(findings, experiments, headline),
            *_told_of_dataset(findings, headline),
            *told_rooflines(by_section, headline),
        )
    }
    return [replace(finding, told=id(finding) in told) for finding in findings]
