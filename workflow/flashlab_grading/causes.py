"""A submission's lines grouped by verdict and message, the gravest first, and all in words.

Its lines are one for each check of each file. Exchanged labels are one group, however many files
they make false. A group is told by its first lines, from the labels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from flashlab.labels import message
from flashlab_grading.model import CHECKS, VERDICTS, Line, Verdict

EXAMPLES, SAID = 3, 10
"""Most files of a group that are shown, and most sentences on a whole submission."""

TRANSLATED = ("pass", "experiment")
"""Parameters whose values are keys of labels themselves."""

Group = Sequence[Line]
"""Lines of one verdict and message."""

Show = Callable[[str], str]
"""Makes somebody else's text safe to show."""


def grouped(lines: Iterable[Line], *verdicts: Verdict) -> list[Group]:
    """The lines of these verdicts by their messages: by verdict, then check, then count."""
    groups: dict[tuple[Verdict, str], list[Line]] = defaultdict(list)
    for line in lines:
        if line.verdict in verdicts:
            groups[line.verdict, line.code].append(line)

    def place(group: Group) -> tuple[int, ...]:
        return VERDICTS.index(group[0].verdict), CHECKS.index(group[0].check), -len(group)

    return sorted(groups.values(), key=place)


def notes_of(lines: Iterable[Line]) -> list[Group]:
    """What passed in an unusual form, of which a reader should know."""
    return grouped((x for x in lines if not x.code.startswith(f"{x.check}.pass")), "pass")


def urgency(lines: Iterable[Line]) -> tuple[int, int, int]:
    """The place of a submission in the order of what needs a person first; low is urgent.

    Failures come before warnings, and accusations before what is merely incomplete.
    """
    found = [group[0] for group in grouped(lines, "fail", "warn")]
    counts = Counter((line.verdict, line.check in ("form", "coverage")) for line in found)
    warned = counts["warn", False] + counts["warn", True]
    return -counts["fail", False], -counts["fail", True], -warned


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language with its parameters; of a file's form, from the reader's catalog."""
    domain = "course" if key.startswith("form.") else "grades"
    return message(language, domain, key).format_map(params)


def sentence(line: Line, language: str, show: Show) -> str:
    """A line as a sentence, its parameters made safe by `show`, or translated."""
    params = {name: show(value) for name, value in line.params.items()}
    for name in TRANSLATED:
        if value := line.params.get(name):
            params[name] = word(f"{name}.{value}", language)
    if several := line.params.get("others"):  # with NUL between names, which none has
        params["others"] = word("list.separator", language).join(map(show, several.split("\0")))
    return word(line.code, language, **params)


def told(group: Group, language: str, show: Show) -> str:
    """A group in words: of files by the first one, and how many more there are."""
    first = group[:1] if group[0].file else group[:SAID]
    text = " ".join(sentence(line, language, show) for line in first)
    more = len(group) - len(first)
    return text + word("cause.more", language, count=more) if more else text
