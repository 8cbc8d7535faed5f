"""Which findings stand where: on page one, in a section's prose, in its table, or only in a count.

The order on page one is by *strength*, in doublings: how far from "no difference" the effect is
even at the near end of its 95% interval.

- A ratio (speedup, causal effect, memory): the largest such distance over the sweep.
- Growth: how far the quantity's growth departs from that of the parameter.
- A shape that does not fit into memory at all: more than any ratio.

Each topic (a kind, and for a speedup the pass) gives its strongest finding about the
implementations of the headline table; one more is the strongest speedup of any other
implementation. Of these, the strongest `KEY_FINDINGS` stand on page one. A finding that decides
nothing is none of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Finding = Mapping[str, Any]

KEY_FINDINGS = 6

OUT_OF_MEMORY_STRENGTH = 100.0
"""Doublings: beyond every ratio."""

NOTHING_FOUND = frozenset({"none", "none_in_range", "monotone", "withheld"})
"""Verdicts of checks that found nothing: counted, not said."""

UNDECIDED = NOTHING_FOUND | {"inconclusive", "imprecise", "too_few_sizes"}

PROSE_KINDS = frozenset(
    {"causal_effect", "speedup", "crossover", "memory_ratio", "out_of_memory", "scaling"}
    | {"monotonicity"}
)
"""What an experiment's section says in prose; the other kinds have sections of their own."""


def subjects(finding: Finding) -> set[str]:
    """The implementations that a finding is about."""
    subject = finding["subject"]
    return {subject[key] for key in ("implementation", "baseline", "other") if key in subject}


def _beyond(estimate: Mapping[str, Any]) -> float:
    """Doublings between 1 and the near end of the interval; 0 where the interval holds 1."""
    low = estimate.get("low") or estimate["estimate"]
    high = estimate.get("high") or estimate["estimate"]
    if low > 1:
        return math.log2(low)
    return -math.log2(high) if high < 1 else 0.0


def strength(finding: Finding) -> float:
    """How strong a finding is, in doublings; 0 for one that decides nothing."""
    if finding["verdict"] in UNDECIDED:
        return 0.0
    params, estimates = finding["params"], finding["evidence"]["estimates"]
    match finding["kind"]:
        case "speedup" | "causal_effect" | "memory_ratio":
            return max(map(_beyond, estimates), default=0.0)
        case "scaling":
            return abs(math.log2(params["times"] / params["times_size"]))
        case "out_of_memory":
            return OUT_OF_MEMORY_STRENGTH
    return 0.0


def _topic(finding: Finding, headline: Collection[str]) -> tuple[str, ...] | None:
    kind, about = finding["kind"], subjects(finding)
    if about <= set(headline):
        return (kind, finding["subject"]["pass"]) if kind == "speedup" else (kind,)
    return ("speedup of another",) if kind == "speedup" else None


def key_findings(
    findings: Iterable[Finding], headline: Collection[str], alone: Mapping[str, bool]
) -> list[Finding]:
    """The findings of page one, strongest first; equally strong ones in their own order.

    `alone` has the experiments to choose from, and whether in each the parameter varies alone:
    where another one varies with it, growth is no topic.
    """
    best: dict[tuple[str, ...], Finding] = {}
    for finding in findings:
        topic, experiment = _topic(finding, headline), finding["experiment"]
        if topic is None or experiment not in alone or not strength(finding):
            continue
        if finding["kind"] == "scaling" and not alone[experiment]:
            continue
        if topic not in best or strength(finding) > strength(best[topic]):
            best[topic] = finding
    return sorted(best.values(), key=strength, reverse=True)[:KEY_FINDINGS]


def said_in_prose(finding: Finding, headline: Collection[str]) -> bool:
    """Whether a section says a finding in a sentence: one about the headline's implementations.

    What breaks a rule that should hold is said of every implementation.
    """
    if finding["kind"] not in PROSE_KINDS or finding["verdict"] in NOTHING_FOUND:
        return False
    always = finding["kind"] in ("out_of_memory", "monotonicity")
    return always or subjects(finding) <= set(headline)
