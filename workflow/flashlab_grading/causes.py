"""Causes: a submission's lines joined by reason, the most pressing first.

A submission's lines are one for each check of each file. Exchanged labels are one cause, however
many files they make false, and missing experiments another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from flashlab_grading.model import CHECKS, CONFIDENCES, VERDICTS, Line, Verdict

PAIRWISE = ("copies.same", "copies.computed", "copies.likely")
"""Codes of lines about two submissions, which the table of copies shows."""

EXAMPLES = 3


@dataclass(frozen=True)
class Cause:
    """The lines of a submission with one verdict and message.

    `total` is the number of the submission's files.
    """

    lines: Sequence[Line]
    total: int

    @property
    def line(self) -> Line:
        """An example of its lines."""
        return self.lines[0]

    @property
    def files(self) -> int:
        """The number of files that it concerns, 0 for the whole submission."""
        return len({line.file for line in self.lines if line.file})

    @property
    def examples(self) -> list[Line]:
        """Its first lines, where they are about files."""
        return [line for line in self.lines[:EXAMPLES] if line.file]


def _joined(lines: Iterable[Line], total: int) -> list[Cause]:
    """The lines of one verdict and message together, in their order."""
    groups: dict[tuple[Verdict, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line.verdict, line.code].append(line)
    return [Cause(group, total) for group in groups.values()]


def notes_of(lines: Iterable[Line], total: int) -> list[Cause]:
    """Forms of a submission that are unusual but were understood, each kind once."""
    return _joined((line for line in lines if line.is_note), total)


def causes_of(
    lines: Iterable[Line], total: int, verdicts: Container[Verdict] = ("fail", "warn")
) -> list[Cause]:
    """The causes of these verdicts in a submission's lines, the gravest and then the surest first.

    `total` is the number of its files. Experiments of both kinds that are missing are one cause.
    """
    return sorted(
        _joined((line for line in lines if line.verdict in verdicts), total),
        key=lambda cause: (
            VERDICTS.index(cause.line.verdict),
            CONFIDENCES.index(cause.line.confidence),
            cause.line.check == "coverage",
            CHECKS.index(cause.line.check),
            -cause.files,
        ),
    )


def urgency(causes: Sequence[Cause]) -> tuple[int, ...]:
    """The place of a submission in the order of what needs a person first; low is urgent.

    An accusation comes before what is merely incomplete, and that before a question.
    """
    lines = [cause.line for cause in causes]
    counts = Counter((x.check not in ("coverage", "form"), x.confidence) for x in lines)
    certain, likely = counts[True, "certain"], counts[True, "likely"]
    asked = counts[True, "ask"] + counts[False, "ask"]
    accused = -min(1, certain), -min(1, likely)
    return (*accused, -certain, -likely, -counts[False, "certain"], -asked)


def pairs_of(lines: Iterable[Line]) -> list[Line]:
    """A line of one of each two submissions, or datasets, that agree; the surest first."""
    pairs: dict[frozenset[str], Line] = {}
    for line in lines:
        if line.code in PAIRWISE:
            pairs.setdefault(frozenset((line.submission, line.params["other"])), line)
    return sorted(pairs.values(), key=lambda line: CONFIDENCES.index(line.confidence))
