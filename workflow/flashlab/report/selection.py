"""Where each finding goes: page one, a section's prose, its table, or only a count.

The order on page one is by *strength*, in doublings: how far from "no difference" the effect is
even at the near end of its 95% interval.

- A ratio (speedup, causal effect, memory): the largest such distance over the sweep.
- A crossover: the smaller of the two leads, before and after.
- Growth: how far the quantity's growth departs from that of the parameter, which must vary alone.
  It stands after whatever compares, which is what a reader can choose by.
- A shape that does not fit into memory at all: more than any ratio.

Each topic (a kind, and for a speedup the pass) gives its strongest finding about the
implementations of the headline table; one more is the strongest speedup of any other
implementation. Of these, the strongest `STRONGEST` stand on page one (fewer where the page is
full), and after them the nearest approach of any implementation to the measured matrix-product
rate. A finding that decides nothing is none of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Finding = Mapping[str, Any]

STRONGEST = 5

OUT_OF_MEMORY_STRENGTH = 100.0
"""Doublings: beyond every ratio."""

NOTHING_FOUND = frozenset({"none", "none_in_range", "monotone"})
"""Verdicts of checks that found nothing: counted, not said."""

UNDECIDED = NOTHING_FOUND | {"inconclusive", "imprecise", "too_few_sizes", "withheld"}

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


def _lead(estimates: Sequence[Mapping[str, Any]]) -> float:
    """The smaller of the two leads of a crossover."""
    above = max((math.log2(e["low"]) for e in estimates if (e["low"] or 0) > 1), default=0.0)
    below = max((-math.log2(e["high"]) for e in estimates if (e["high"] or 1) < 1), default=0.0)
    return min(above, below)


def strength(finding: Finding) -> float:
    """How strong a finding is, in doublings; 0 for one that decides nothing."""
    if finding["verdict"] in UNDECIDED:
        return 0.0
    params, estimates = finding["params"], finding["evidence"]["estimates"]
    match finding["kind"]:
        case "speedup" | "causal_effect" | "memory_ratio":
            return max(map(_beyond, estimates), default=0.0)
        case "crossover":
            return _lead(estimates)
        case "scaling" if not params["covaried"]:
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
    findings: Iterable[Finding], headline: Collection[str], experiments: Collection[str]
) -> list[Finding]:
    """The findings of page one, strongest first; equally strong ones in their own order."""
    best: dict[tuple[str, ...], Finding] = {}
    nearest: list[Finding] = []
    for finding in findings:
        if finding["experiment"] not in experiments:
            continue
        if finding["kind"] == "roofline" and finding["verdict"] != "model_error":
            nearest = [max([*nearest, finding], key=_share_of_matrix_product)]
        topic = _topic(finding, headline)
        if topic is None or not strength(finding):
            continue
        if topic not in best or strength(finding) > strength(best[topic]):
            best[topic] = finding
    ordered = sorted(best.values(), key=lambda f: (f["kind"] == "scaling", -strength(f)))
    strongest = ordered[:STRONGEST]
    return [*strongest, *nearest]


def _share_of_matrix_product(finding: Finding) -> float:
    share: float = finding["params"]["matrix_high"]
    return share


def said_in_prose(finding: Finding, headline: Collection[str], tabulated: bool = False) -> bool:
    """Whether a section says a finding in a sentence: one about the headline's implementations.

    What breaks a rule that should hold is said of every implementation. Growth is not said where
    it is `tabulated`: where a table has it for all implementations.
    """
    if tabulated and finding["kind"] == "scaling":
        return False
    if finding["kind"] not in PROSE_KINDS or finding["verdict"] in NOTHING_FOUND:
        return False
    always = finding["verdict"] in ("limit_found", "broken")
    return always or subjects(finding) <= set(headline)
