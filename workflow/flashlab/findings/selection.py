"""Where findings are told: on page one, in a section's prose, or in tables and counts alone.

Page one begins with wrong results, and then, where there are at least `MIN_CHOICES`
implementations, with which to choose. What follows is ordered by *strength*, in doublings: how far
from "no difference" the effect is even at the near end of its 95% interval.

- A ratio (comparison, effect of a variant): the largest such distance over the sweep.
- A crossover: the smaller of the two leads, before and after.
- Growth: how far the quantity's growth departs from that of the parameter, which must vary alone.
  It comes after all comparisons, which are what a reader can choose by.
- A size that does not fit into memory at all: more than any ratio.

Each topic (a kind, and for a comparison the metric) gives its strongest finding about the
implementations of the headline table. Where page one tells which to choose, that is all; else one
more is the strongest comparison of any other implementation, and after all of them comes the
nearest approach of any implementation to the measured matrix-product rate. At most `STRONGEST` are
on page one beside that approach (fewer where the page is full). A finding that decides nothing is
none of them.

A section tells its comparisons and growth in full, and of each of the `BRIEF_KINDS` at most one
finding, at most `MOST_BRIEF` in all, choices first. What is told so of one implementation and
metric is told once, in the section where it is strongest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashlab.files import canonical
from flashlab.findings.model import Finding
from flashlab.sweep import Sweep

STRONGEST = 5

OUT_OF_MEMORY_STRENGTH = 100.0
"""Doublings: beyond every ratio."""

NOTHING_FOUND = frozenset({"none", "none_in_range", "monotone"})
"""Verdicts of checks that found nothing: counted, not told."""

UNDECIDED = NOTHING_FOUND | {
    *("inconclusive", "imprecise", "too_few_sizes", "withheld", "unexplained"),
}

MIN_CHOICES = 3
"""Fewest implementations among which choosing is more than a comparison with the baseline."""

BRIEF_KINDS = ("jump", "exact_account", "launch_bound", "saturation", "balance")
"""Kinds of which a section tells the strongest finding alone, the foremost ones first."""

MOST_BRIEF = 3

DATASET_KINDS = ("variant_gain", "derived_size", "worse_than_naive")
"""Kinds about the dataset as a whole of which one finding each is told beside the roofline."""

RULE_BROKEN = frozenset({"limit_found", "broken"})
"""Verdicts that are told of every implementation: something that should hold does not."""

PROSE_KINDS = frozenset(
    {"variant_effect", "comparison", "crossover", "exact_comparison", "out_of_memory", "scaling"}
    | {"monotonicity", "choice", "balance", "exact_account", "launch_bound", "saturation", "jump"}
    | {"cause"}
)
"""What an experiment's section tells in prose; the other kinds have sections of their own."""


def _doublings_beyond_one(estimate: Mapping[str, Any]) -> float:
    """Doublings between 1 and the near end of the interval; 0 where the interval holds 1."""
    low = estimate.get("low") or estimate["estimate"]
    high = estimate.get("high") or estimate["estimate"]
    if low > 1:
        return math.log2(low)
    return -math.log2(high) if high < 1 else 0.0


def _smaller_lead(estimates: Sequence[Mapping[str, Any]]) -> float:
    """The smaller of the two leads of a crossover, in doublings."""
    above = max((math.log2(e["low"]) for e in estimates if (e["low"] or 0) > 1), default=0.0)
    below = max((-math.log2(e["high"]) for e in estimates if (e["high"] or 1) < 1), default=0.0)
    return min(above, below)


def strength(finding: Finding) -> float:
    """How strong a finding is, in doublings; 0 for one that decides nothing."""
    if finding.verdict in UNDECIDED:
        return 0.0
    params = finding.params
    match finding.kind:
        case "comparison" | "variant_effect" | "exact_comparison":
            return max(map(_doublings_beyond_one, finding.estimates), default=0.0)
        case "crossover":
            return _smaller_lead(finding.estimates)
        case "scaling" if not params["covaried"]:
            return abs(math.log2(params["times"] / params["times_size"]))
        case "out_of_memory":
            return OUT_OF_MEMORY_STRENGTH
    return 0.0


OF_ANOTHER = ("comparison of another",)


def _topic(finding: Finding, headline: Collection[str]) -> tuple[str, ...] | None:
    compares = finding.kind == "comparison"
    if finding.implementations <= set(headline):
        return (finding.kind, str(finding.metric)) if compares else (finding.kind,)
    return OF_ANOTHER if compares else None


def _share_of_matrix_product(finding: Finding) -> float:
    share: float = finding.params["matrix_high"]
    return share


def _foremost(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """What page one begins with: wrong results, and the choice over the whole dataset."""
    of_dataset = [finding for finding in findings if finding.experiment is None]
    wrong = [f for f in of_dataset if f.kind == "correctness" and f.verdict == "wrong"]
    choices = [f for f in of_dataset if f.kind == "choice" and f.params["of"] >= MIN_CHOICES]
    return wrong, choices


def front_page(
    findings: Sequence[Finding], headline: Collection[str], experiments: Collection[str]
) -> list[Finding]:
    """The findings of page one in their order; equally strong ones in their own."""
    wrong, choices = _foremost(findings)
    of_sections = [finding for finding in findings if finding.experiment in experiments]
    best: dict[tuple[str, ...], Finding] = {}
    for finding in of_sections:
        topic = _topic(finding, headline)
        if topic is None or not strength(finding) or (choices and topic == OF_ANOTHER):
            continue
        if topic not in best or strength(finding) > strength(best[topic]):
            best[topic] = finding
    ordered = sorted(best.values(), key=lambda f: (f.kind == "scaling", -strength(f)))
    ranked = [*wrong, *choices, *ordered][: max(STRONGEST, len(wrong) + len(choices))]
    if choices:
        return ranked
    rooflines = [f for f in of_sections if f.kind == "roofline" and f.verdict != "model_error"]
    nearest = max(rooflines, key=_share_of_matrix_product, default=None)
    return [*ranked, *([nearest] if nearest else [])]


def is_told(finding: Finding, headline: Collection[str], tabulated: bool) -> bool:
    """Whether a section tells a finding in a sentence: one about the headline's implementations.

    What breaks a rule that should hold is told of every implementation. Growth is not told where
    it is `tabulated`: where a table gives it for all implementations.
    """
    if tabulated and finding.kind == "scaling":
        return False
    if finding.kind not in PROSE_KINDS or finding.kind in (*BRIEF_KINDS, "choice"):
        return False
    if finding.verdict in NOTHING_FOUND:
        return False
    return finding.verdict in RULE_BROKEN or finding.implementations <= set(headline)


def _content(finding: Finding, sweep: Sweep) -> str:
    """What a finding states, whichever experiment it belongs to."""
    content = [finding.kind, dict(finding.subject), dict(finding.params), finding.verdict]
    return canonical([*content, sweep.parameter.name])


def _told(
    findings: Sequence[Finding], sweeps: Sequence[Sweep], headline: Collection[str]
) -> Iterator[Finding]:
    """The findings that a section tells and no earlier section has told."""
    known: set[str] = set()
    for sweep in sweeps:
        if all(run["status"] != "ok" for run in sweep.runs):
            continue  # every check says the same: that there are no numbers
        tabulated = not set(sweep.implementations) <= set(headline)
        for finding in findings:
            if finding.experiment != sweep.name or not is_told(finding, headline, tabulated):
                continue
            key = _content(finding, sweep)
            if key not in known:
                known.add(key)
                yield finding


def _brief_strength(finding: Finding) -> float:
    """How much a finding of a brief kind has to tell, within its kind; 0 for nothing."""
    if finding.verdict in UNDECIDED:
        return 0.0
    params = finding.params
    match finding.kind:
        case "jump":
            return abs(math.log2(params["ratio"]))
        case "exact_account":  # before all others where a run did not fit into memory
            ran_out = any(reason.status == "oom" for reason in finding.reasons)
            return float(params["share"]) + 100 * ran_out
        case "launch_bound":
            return math.log2(params["times_work"])
        case "saturation" if finding.verdict == "falls":
            return float(100 / params["share"])
        case "saturation" if finding.verdict == "reached":
            return float(params["from"] != params["first"])
        case "balance":
            return max(
                abs(math.log2(estimate["estimate"] / params["ideal"]))
                for estimate in finding.estimates
            )
    return 0.0


def _decisive(findings: Iterable[Finding]) -> set[str | None]:
    """The metric by which the dataset's overall choice is made."""
    return {f.metric for f in findings if f.kind == "choice" and f.experiment is None}


def _told_choices(findings: Iterable[Finding], decisive: Collection[str | None]) -> list[Finding]:
    """The choices of a section, by the metric that decides over the dataset: a total, if any.

    With fewer implementations than `MIN_CHOICES` the comparisons tell all there is.
    """
    return [
        finding
        for finding in findings
        if finding.kind == "choice"
        and finding.metric in decisive
        and finding.params["of"] >= MIN_CHOICES
        and finding.verdict not in UNDECIDED
    ][:MOST_BRIEF]


def _told_briefly(
    findings: Sequence[Finding], sweeps: Sequence[Sweep], headline: Collection[str]
) -> Iterator[Finding]:
    """What each section tells of the kinds that it tells briefly."""
    decisive = _decisive(findings)
    order = {sweep.name: position for position, sweep in enumerate(sweeps)}
    strongest: dict[tuple[str, ...], Finding] = {}
    for finding in sorted(findings, key=lambda f: order.get(f.experiment or "", len(order))):
        if finding.kind not in BRIEF_KINDS or finding.experiment not in order:
            continue
        if finding.kind != "jump" and not finding.implementations <= set(headline):
            continue
        best = strongest.setdefault(_brief_topic(finding), finding)
        strongest[_brief_topic(finding)] = max(best, finding, key=_brief_strength)
    known: set[str] = set()
    for sweep in sweeps:
        mine = [finding for finding in findings if finding.experiment == sweep.name]
        choices = {_content(finding, sweep): finding for finding in _told_choices(mine, decisive)}
        told = [finding for content, finding in choices.items() if content not in known]
        known |= choices.keys()
        for kind in BRIEF_KINDS:
            candidates = [
                finding
                for finding in strongest.values()
                if finding.experiment == sweep.name
                and finding.kind == kind
                and _brief_strength(finding)
            ]
            if candidates and len(told) < MOST_BRIEF:
                told.append(max(candidates, key=_brief_strength))
        yield from told


def _brief_topic(finding: Finding) -> tuple[str, ...]:
    return (finding.kind, *sorted(finding.implementations), str(finding.metric))


def _told_of_dataset(findings: Sequence[Finding], headline: Collection[str]) -> list[Finding]:
    """One finding of each kind about the whole dataset: that with the most settings behind it.

    What is worse than the naive implementation is told of any implementation, by the metric that
    decides over the dataset; the others are told of the headline's.
    """
    found: dict[str, Finding] = {}
    decisive = _decisive(findings)
    for finding in findings:
        kind = finding.kind
        if kind not in DATASET_KINDS or finding.verdict in UNDECIDED:
            continue
        if kind == "worse_than_naive":
            if finding.metric not in decisive:
                continue
        elif not finding.implementations <= set(headline):
            continue
        best = found.get(kind)
        if best is None or finding.params["count"] > best.params["count"]:
            found[kind] = finding
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
            nearest[name] = max(best, finding, key=_share_of_matrix_product)
    return [*errors, *nearest.values()]


def select(
    findings: Sequence[Finding], sweeps: Sequence[Sweep], headline: Collection[str]
) -> list[Finding]:
    """The findings with the place of each; `sweeps` are the sections in the report's order."""
    names = [sweep.name for sweep in sweeps]
    order = {name: position for position, name in enumerate(names)}
    by_section = sorted(findings, key=lambda f: order.get(f.experiment or "", len(order)))
    front = {id(f): rank for rank, f in enumerate(front_page(by_section, headline, names))}
    told = {
        id(finding)
        for finding in (
            *_told(findings, sweeps, headline),
            *_told_briefly(findings, sweeps, headline),
            *_told_of_dataset(findings, headline),
            *told_rooflines(by_section, headline),
        )
    }
    return [
        replace(finding, front=front.get(id(finding)), told=id(finding) in told)
        for finding in findings
    ]
