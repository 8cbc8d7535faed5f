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
from flashlab_grading.model import CHECKS, CONFIDENCES, VERDICTS, Line, Verdict, confidence_of

PAIRWISE = ("copies.same", "copies.computed", "copies.likely", "copies.part")
"""Codes of lines about two submissions, which the table of copies shows."""

COVERAGE = ("coverage.missing", "coverage.few_masks")
DOMAIN, EXAMPLES = "grades", 3
TRANSLATED = ("pass", "experiment")
"""Parameters whose values are keys of labels themselves."""

LISTED = "others"
"""The parameter that holds several names, with NUL between them, which no name has."""

Show = Callable[[str], str]
"""Makes somebody else's text safe to show."""


@dataclass(frozen=True)
class Cause:
    """The lines of a submission with one verdict and message; `total` of all its files."""

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
    """What passed in an unusual form, of which a reader should know, each kind once."""
    passed = (line for line in lines if line.verdict == "pass")
    return _joined((x for x in passed if not x.code.startswith(f"{x.check}.pass")), total)


def causes_of(
    lines: Iterable[Line], total: int, verdicts: Container[Verdict] = ("fail", "warn")
) -> list[Cause]:
    """The causes of these verdicts in a submission's lines, the gravest and then the surest first.

    `total` is the number of its files. Experiments of both kinds that are missing are one cause.
    """

    def place(cause: Cause) -> tuple[int, ...]:
        line, last = cause.line, cause.line.check == "coverage"
        sure, check = CONFIDENCES.index(confidence_of(line)), CHECKS.index(line.check)
        return VERDICTS.index(line.verdict), sure, last, check, -cause.files

    return sorted(_joined((x for x in lines if x.verdict in verdicts), total), key=place)


def urgency(causes: Sequence[Cause]) -> tuple[int, ...]:
    """The place of a submission in the order of what needs a person first; low is urgent.

    An accusation comes before what is merely incomplete, and that before a question.
    """
    lines = [cause.line for cause in causes]
    counts = Counter((x.check not in ("coverage", "form"), confidence_of(x)) for x in lines)
    certain, likely = counts[True, "certain"], counts[True, "likely"]
    asked = counts[True, "ask"] + counts[False, "ask"]
    return (certain < 1, likely < 1, -certain, -likely, -counts[False, "certain"], -asked)


def pairs_of(lines: Iterable[Line]) -> list[Line]:
    """A line of one of each two submissions, or datasets, that agree; the surest first."""
    pairs: dict[frozenset[str], Line] = {}
    for line in sorted(lines, key=lambda line: CONFIDENCES.index(confidence_of(line))):
        if line.code in PAIRWISE:
            pairs.setdefault(frozenset((line.submission, line.params["other"])), line)
    return [*pairs.values()]


# In words


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language with its parameters; of a file's form, from the reader's catalog."""
    domain = "course" if key.startswith("form.") else DOMAIN
    return message(language, domain, key).format_map(params)


def _shown(params: Mapping[str, str], language: str, show: Show) -> dict[str, str]:
    """Parameters made safe, their words translated and their lists written out."""
    comma, found = word("list.separator", language), {}
    for name, value in params.items():
        found[name] = comma.join(map(show, value.split("\0"))) if name == LISTED else show(value)
        if name in TRANSLATED and value:
            found[name] = word(f"{name}.{value}", language)
    return found


def sentence(line: Line, language: str, show: Show) -> str:
    """A line as a sentence, its parameters made safe by `show`."""
    return word(line.code, language, **_shown(line.params, language, show))


def _experiments(lines: Iterable[Line], language: str) -> str:
    """The experiments that lines name: ``sequence length (Pytorch, Flash2), batch size …``."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        found[word(f"experiment.{line.params['experiment']}", language)].append(
            line.params["implementation"]
        )
    comma = word("list.separator", language)
    both = [{"experiment": name, "implementations": comma.join(own)} for name, own in found.items()]
    return comma.join(word("cause.experiment", language, **each) for each in both)


def cause_sentence(cause: Cause, language: str, show: Show) -> str:
    """A cause in words, its parameters made safe by `show`."""
    line, count, key = cause.line, cause.files, f"cause.{cause.line.code}"
    if line.code in COVERAGE:
        return word("cause.coverage", language, experiments=_experiments(cause.lines, language))
    if line.code in PAIRWISE:
        others = dict.fromkeys(each.params["other"] for each in cause.lines)
        return word(key, language, **_shown({LISTED: "\0".join(others)}, language, show))
    if count > 1 and key in messages(language, DOMAIN):
        return word(key, language, count=count, total=cause.total)
    told = sentence(line, language, show)
    return told + word("cause.more_files", language, count=count - 1) if count > 1 else told
