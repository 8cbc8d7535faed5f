"""What a person should know of each submission: causes, not symptoms, the most pressing first.

A submission's lines are one for each check of each file. Here those of one cause are joined:
exchanged labels are one cause, however many files they make false, and missing experiments another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flashlab_grading.model import CHECKS, Line, Verdict

Confidence = Literal["certain", "likely", "ask"]
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "ask")
"""How sure an accusation is; `ask` accuses of nothing."""

LIKELY = (
    "copies.likely",
    "identity.cuda_memory",
    "identity.workspace_of_another",
    "identity.workspace",
    "physics.capability",
    "plausibility.identical",
    "plausibility.even",
    "plausibility.one_noise",
)
"""Codes of what is no proof, but has few innocent reasons."""

PAIRWISE = ("copies.same", "copies.scaled", "copies.likely")
"""Codes of lines about two submissions, which a cluster of copies shows together."""

COVERAGE = ("coverage.missing", "coverage.few_masks")
EXAMPLES = 3


@dataclass(frozen=True)
class Cause:
    """What is wrong with a submission for one reason.

    `key` and `params` are those of its message (`wording`), `line` an example of its lines; `files`
    is how many files it concerns, 0 for the whole submission, and `examples` are lines of some.
    """

    verdict: Verdict
    check: str
    confidence: Confidence
    line: Line
    key: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    experiments: tuple[tuple[str, str], ...] = ()
    files: int = 0
    examples: tuple[Line, ...] = ()


def confidence_of(line: Line) -> Confidence:
    """How sure the accusation in a line is."""
    if line.code in LIKELY:
        return "likely"
    return "certain" if line.verdict == "fail" else "ask"


def _cause_of(lines: Sequence[Line], total: int) -> Cause:
    """The cause that lines of one verdict and message have in common."""
    first = lines[0]
    files = list(dict.fromkeys(line.file for line in lines if line.file))
    key, params = "", {"count": str(len(files)), "total": str(total)}
    if first.code == "identity.implementation":
        key = "cause.labels"
    elif first.code in COVERAGE:
        key = "cause.coverage"
    elif first.code in PAIRWISE:
        others = list(dict.fromkeys(line.params["other"] for line in lines))
        key, params = f"cause.{first.code}", {"others": "\0".join(others)}
    elif len(files) > 1:
        key = f"cause.{first.code}"
    experiments = tuple(
        (line.params["experiment"], line.params["implementation"])
        for line in lines
        if first.code in COVERAGE
    )
    return Cause(
        *(first.verdict, first.check, confidence_of(first), first, key),
        params=params,
        experiments=experiments,
        files=len(files),
        examples=tuple(line for line in lines[:EXAMPLES] if line.file),
    )


def causes_of(lines: Iterable[Line], total: int) -> list[Cause]:
    """The causes in a submission's lines, the surest and then the gravest first.

    `total` is the number of its files. Experiments of both kinds that are missing are one cause.
    """
    groups: dict[tuple[Verdict, str], list[Line]] = defaultdict(list)
    for line in lines:
        if line.verdict in ("fail", "warn"):
            groups[line.verdict, line.code].append(line)
    causes = [_cause_of(group, total) for group in groups.values()]
    return sorted(
        causes,
        key=lambda cause: (
            cause.verdict != "fail",
            CONFIDENCES.index(cause.confidence),
            cause.check == "coverage",
            CHECKS.index(cause.check),
            -cause.files,
        ),
    )


def urgency(causes: Sequence[Cause]) -> tuple[int, ...]:
    """The place of a submission in the order of what needs a person first; low is urgent.

    An accusation comes before what is merely incomplete, and that before a question.
    """
    counts = Counter((c.check not in ("coverage", "form"), c.confidence) for c in causes)
    certain, likely = counts[True, "certain"], counts[True, "likely"]
    asked = counts[True, "ask"] + counts[False, "ask"]
    accused = -min(1, certain), -min(1, likely)
    return (*accused, -certain, -likely, -counts[False, "certain"], -asked)


# Clusters of copies


@dataclass(frozen=True)
class Cluster:
    """Submissions, and perhaps published datasets, that pairs of one confidence connect.

    `pairs` has the line of one of each two that agree.
    """

    members: tuple[str, ...]
    pairs: tuple[Line, ...]
    confidence: Confidence


def clusters_of(lines: Iterable[Line]) -> list[Cluster]:
    """The clusters in the lines about copies, the surest and then the largest first."""
    pairs: dict[Confidence, dict[frozenset[str], Line]] = defaultdict(dict)
    for line in lines:
        if line.code in PAIRWISE:
            pair = frozenset((line.submission, line.params["other"]))
            pairs[confidence_of(line)].setdefault(pair, line)
    found = []
    for confidence, own in pairs.items():
        for joined in _connected(own):
            inside = tuple(line for line in own.values() if line.submission in joined)
            found.append(Cluster(tuple(sorted(joined)), inside, confidence))
    order = CONFIDENCES.index
    return sorted(found, key=lambda c: (order(c.confidence), -len(c.members), c.members))


def _connected(pairs: Iterable[frozenset[str]]) -> list[set[str]]:
    """The sets of names that pairs connect."""
    groups: list[set[str]] = []
    for pair in pairs:
        touching = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair]
        groups.append(set(pair).union(*touching))
    return groups
