"""Where findings are told: on page one, in a section's prose, or in tables and counts alone.

The order on page one is by *strength*, in doublings: how far from "no difference" the effect is
even at the near end of its 95% interval.

- A ratio (comparison, effect of a variant): the largest such distance over the sweep.
- A crossover: the smaller of the two leads, before and after.
- Growth: how far the quantity's growth departs from that of the parameter, which must vary alone.
  It comes after all comparisons, which are what a reader can choose by.
- A size that does not fit into memory at all: more than any ratio.

Each topic (a kind, and for a comparison the metric) gives its strongest finding about the
implementations of the headline table; one more is the strongest comparison of any other
implementation. Of these, the strongest `STRONGEST` are on page one (fewer where the page is full),
and after them the nearest approach of any implementation to the measured matrix-product rate. A
finding that decides nothing is none of them.
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

UNDECIDED = NOTHING_FOUND | {"inconclusive", "imprecise", "too_few_sizes", "withheld"}

RULE_BROKEN = frozenset({"limit_found", "broken"})
"""Verdicts that are told of every implementation: something that should hold does not."""

PROSE_KINDS = frozenset(
    {"variant_effect", "comparison", "crossover", "exact_comparison", "out_of_memory", "scaling"}
    | {"monotonicity", "cause"}
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


def _topic(finding: Finding, headline: Collection[str]) -> tuple[str, ...] | None:
    compares = finding.kind == "comparison"
    if finding.implementations <= set(headline):
        return (finding.kind, str(finding.metric)) if compares else (finding.kind,)
    return ("comparison of another",) if compares else None


def _share_of_matrix_product(finding: Finding) -> float:
    share: float = finding.params["matrix_high"]
    return share


def front_page(
    findings: Iterable[Finding], headline: Collection[str], experiments: Collection[str]
) -> list[Finding]:
    """The findings of page one, strongest first; equally strong ones in their own order."""
    of_sections = [finding for finding in findings if finding.experiment in experiments]
    best: dict[tuple[str, ...], Finding] = {}
    for finding in of_sections:
        topic = _topic(finding, headline)
        if topic is None or not strength(finding):
            continue
        if topic not in best or strength(finding) > strength(best[topic]):
            best[topic] = finding
    ordered = sorted(best.values(), key=lambda f: (f.kind == "scaling", -strength(f)))
    rooflines = [f for f in of_sections if f.kind == "roofline" and f.verdict != "model_error"]
    nearest = max(rooflines, key=_share_of_matrix_product, default=None)
    return [*ordered[:STRONGEST], *([nearest] if nearest else [])]


def is_told(finding: Finding, headline: Collection[str], tabulated: bool) -> bool:
    """Whether a section tells a finding in a sentence: one about the headline's implementations.

    What breaks a rule that should hold is told of every implementation. Growth is not told where
    it is `tabulated`: where a table gives it for all implementations.
    """
    if tabulated and finding.kind == "scaling":
        return False
    if finding.kind not in PROSE_KINDS or finding.verdict in NOTHING_FOUND:
        return False
    return finding.verdict in RULE_BROKEN or finding.implementations <= set(headline)


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
            content = [finding.kind, dict(finding.subject), dict(finding.params), finding.verdict]
            key = canonical([*content, sweep.parameter.name])
            if key not in known:
                known.add(key)
                yield finding


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
            *told_rooflines(by_section, headline),
        )
    }
    return [
        replace(finding, front=front.get(id(finding)), told=id(finding) in told)
        for finding in findings
    ]
