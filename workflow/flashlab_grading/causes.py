"""Causes: a submission's lines joined by reason, the most pressing first, and all in words.

A submission's lines are one for each check of each file. Exchanged labels are one cause, however
many files they make false, and missing experiments another. Each is one whole sentence, from the
labels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flashlab.labels import message, messages
from flashlab_grading.model import CHECKS, CONFIDENCES, VERDICTS, Line, Verdict

PAIRWISE = ("copies.same", "copies.computed", "copies.likely")
"""Codes of lines about two submissions, which the table of copies shows."""

EXAMPLES = 3

DOMAIN = "grades"
COVERAGE = ("coverage.missing", "coverage.few_masks")
TRANSLATED = ("pass", "experiment")
"""Parameters whose values are keys of labels themselves."""

LISTED = "others"
"""The parameter that holds several names, with NUL between them, which no name has."""


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


# In words


def domain_of(key: str) -> str:
    """The file that a message is in: what reading a file finds is worded with the reader."""
    return "course" if key.startswith("form.") else DOMAIN


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in."""
    return message(language, domain_of(key), key).format_map(params)


def _shown(params: Mapping[str, str], language: str, show: Callable[[str], str]) -> dict[str, str]:
    """Parameters made safe, their words translated and their lists written out."""
    found = {}
    for name, value in params.items():
        if name == LISTED:
            names = map(show, value.split("\0"))
            found[name] = word("list.separator", language).join(names)
        elif name not in TRANSLATED:
            found[name] = show(value)
        elif value:
            found[name] = word(f"{name}.{value}", language)
    return found


def sentence(line: Line, language: str, show: Callable[[str], str]) -> str:
    """A line as a sentence, its parameters made safe by `show`."""
    return word(line.code, language, **_shown(line.params, language, show))


def _experiments(lines: Iterable[Line], language: str) -> str:
    """The experiments that lines name: ``sequence length (Pytorch, Flash2), batch size …``."""
    by_experiment: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_experiment[line.params["experiment"]].append(line.params["implementation"])
    return word("list.separator", language).join(
        word(
            "cause.experiment",
            language,
            experiment=word(f"experiment.{experiment}", language),
            implementations=word("list.separator", language).join(implementations),
        )
        for experiment, implementations in by_experiment.items()
    )


def cause_sentence(cause: Cause, language: str, show: Callable[[str], str]) -> str:
    """A cause in words, its parameters made safe by `show`."""
    line, count = cause.line, cause.files
    if line.code in COVERAGE:
        return word("cause.coverage", language, experiments=_experiments(cause.lines, language))
    if line.code in PAIRWISE:
        others = dict.fromkeys(each.params["other"] for each in cause.lines)
        params = _shown({"others": "\0".join(others)}, language, show)
        return word(f"cause.{line.code}", language, **params)
    if line.code == "identity.implementation":
        return word("cause.labels", language, count=count, total=cause.total)
    if count > 1 and f"cause.{line.code}" in messages(language, DOMAIN):
        return word(f"cause.{line.code}", language, count=count, total=cause.total)
    told = sentence(line, language, show)
    return told + word("cause.more_files", language, count=count - 1) if count > 1 else told
