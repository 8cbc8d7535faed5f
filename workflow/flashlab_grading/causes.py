r"""A submission's lines grouped by verdict and message, the gravest first, and all in words.

Its lines are one for each check of each file. Exchanged labels are one group, however many files
they make false. A group is told by its first lines, from the labels.

Others' names and texts are made safe to show: what cannot be printed (newlines, ANSI escapes, marks
that reverse the direction of text, bytes that are not UTF-8) becomes a visible escape as Python
writes it, such as ``\u202e``, and so does what the report's fonts lack. A backslash becomes two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from flashlab.labels import message
from flashlab.telling.glyphs import covered
from flashlab_grading.model import CHECKS, VERDICTS, Line, Verdict

MARKS = {"pass": "✓", "warn": "△", "fail": "×", "not_checked": "–"}

EXAMPLES, SAID = 3, 10
"""Most files of a group that are shown, and most sentences on a whole submission."""

MAX_CELL, MAX_CHARACTERS = 32_000, 160
"""Most characters of a CSV cell, of which a spreadsheet holds 32,767 and cuts the rest off in
silence; and of a name or text in a PDF."""

Group = Sequence[Line]
"""Lines of one verdict and message."""


def escaped(text: str, needs_glyph: bool = False) -> str:
    """`text` with visible escapes for everything that could mislead a reader or break a parser."""
    return "".join(
        c if c.isprintable() and c != "\\" and (not needs_glyph or ord(c) in covered())
        else c.encode("unicode_escape").decode()
        for c in text
    )  # fmt: skip


def for_page(text: str) -> str:
    """`text` for the PDF: escaped, without missing glyphs, and shortened in the middle."""
    shown, half = escaped(text, needs_glyph=True), MAX_CHARACTERS // 2 - 2
    return shown if len(shown) <= MAX_CHARACTERS else f"{shown[:half]} … {shown[-half:]}"


def cell(text: str) -> str:
    """`text` for a CSV cell: escaped, never a formula, and short enough for any spreadsheet."""
    shown = escaped(text)
    shown = shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}…"
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


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


def sentence(line: Line, language: str, show: Callable[[str], str]) -> str:
    """A line as a sentence, its parameters made safe by `show`, or translated."""
    params = {name: show(value) for name, value in line.params.items()}
    for name in {"pass", "experiment"} & params.keys():
        params[name] = word(f"{name}.{line.params[name]}", language) if params[name] else ""
    if several := line.params.get("others"):  # with NUL between names, which none has
        params["others"] = word("list.separator", language).join(map(show, several.split("\0")))
    return word(line.code, language, **params)


def told(group: Group, language: str, show: Callable[[str], str]) -> str:
    """A group in words: of files by the first one, and how many more there are."""
    first = group[:1] if group[0].file else group[:SAID]
    text = " ".join(sentence(line, language, show) for line in first)
    more = len(group) - len(first)
    return text + word("cause.more", language, count=more) if more else text
