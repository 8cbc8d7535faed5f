r"""The grades of a class as CSV and as a PDF, and what they would be of one folder, printed.

A submission's lines are grouped by verdict and message, the gravest first: exchanged labels are one
group, however many files they make false. A group is told by its first lines, from the labels.

Others' names and texts are made safe to show: what cannot be printed (newlines, ANSI escapes, marks
that reverse the direction of text, bytes that are not UTF-8) becomes a visible escape as Python
writes it, such as ``\u202e``, and so does what the report's fonts lack. A backslash becomes two.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.files import open_atomically, read_json
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError
from flashlab.labels import message
from flashlab.telling.glyphs import covered
from flashlab_grading.checks import (
    BADGES,
    CHECKS,
    OWN_CHECKS,
    VERDICTS,
    GradingError,
    Line,
    Verdict,
)
from flashlab_grading.copies import published_times
from flashlab_grading.grade import Graded, check_apart, grade_checked
from flashlab_grading.order import check_reproduction, measured_of
from flashlab_grading.submissions import find_submissions

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


COLUMNS = ("submission", "file", "check", "verdict", "expected", "found")
COUNTS: Mapping[str, Verdict] = {"failed": "fail", "warned": "warn", "not_checked": "not_checked"}
MOST = {"causes": 12, "files": 8, "examples": EXAMPLES}
"""Most causes of a submission, loose files, and examples that are shown; the CSV has all."""


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(text) for text in row] for row in rows)


def write_grades(path: Path, lines: Iterable[Line], languages: Sequence[str]) -> None:
    """Write a row for each line, with a column for its message in each language."""
    rows = (
        [getattr(line, name) for name in COLUMNS] + [sentence(line, x, str) for x in languages]
        for line in lines
    )
    _write(path, (*COLUMNS, *(f"message.{language}" for language in languages)), rows)


def write_summary(path: Path, submissions: Iterable[Graded]) -> None:
    """Write a row for each submission; a check that was made in part with how much of it was."""
    rows = []
    for own in submissions:
        counts = Counter(line.verdict for line in own.lines)
        parts = {check: " ({}/{})".format(*p) for check in CHECKS if (p := own.part(check))}
        rows.append([
            *(own.submission, own.device or "", str(len(own.results))),
            *(verdict + parts.get(check, "") for check, verdict in own.verdicts.items()),
            *(str(counts[verdict]) for verdict in COUNTS.values()),
            " ".join(own.badges),
        ])  # fmt: skip
    _write(path, ("submission", "device", "files", *CHECKS, *COUNTS, "badges"), rows)


def to_html(submissions: Iterable[Graded], loose: Iterable[str], order: Mapping[str, Any]) -> str:
    """The pages as one HTML document, for which the template makes others' texts safe.

    A table of the class, then what did not pass in each submission, the most urgent first. `loose`
    are the files that are in none.
    """
    from flashlab.report.page import LANGUAGE_TAGS
    from flashlab.report.render import TEMPLATES, templates

    def place(own: Graded) -> tuple[int, ...]:
        verdicts = own.verdicts
        return *urgency(own.lines), -sum(verdicts[x] == "not_checked" for x in OWN_CHECKS)

    ordered = sorted(submissions, key=place)
    causes = {own.submission: grouped(own.lines, "fail", "warn") for own in ordered}
    return (
        templates(TEMPLATES)
        .get_template("grades.html.j2")
        .render(
            **{"submissions": ordered, "causes": causes, "order": order, "most": MOST},
            notes={own.submission: notes_of(own.lines) for own in ordered},
            clean=[for_page(name) for name, own in causes.items() if not own],
            earned={badge: sum(badge in own.badges for own in ordered) for badge in BADGES},
            loose=[*map(for_page, loose)],
            **{"checks": CHECKS, "badges": BADGES, "marks": MARKS, "tags": LANGUAGE_TAGS},
            **{"word": word, "show": for_page, "told": told},
        )
    )


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, pdf: Path) -> None:
    """Grade what the order names, and write the two CSV files and the PDF."""
    from flashlab.report.render import TEMPLATES, to_pdf

    order = read_json(order_file)
    names, loose = find_submissions(order["submissions"])
    checked = check_apart(order["submissions"], names, order["device"])
    graded, measured = grade_checked(checked, published_times()), measured_of(order)
    for own in graded:
        refuted = {line.file for line in own.lines if line.verdict == "fail"}
        sound = [result for result in own.results if result.name not in refuted]
        again = check_reproduction(sound, measured, order["here"])
        own.lines += [replace(line, submission=own.submission) for line in again]
    lines = [Line("warn", "form.loose", name) for name in loose]
    lines += [line for own in graded for line in own.lines]
    write_summary(summary_csv, graded)
    write_grades(grades_csv, lines, order["languages"])
    styles, printed = ("report.css", "grades.css"), datetime.fromtimestamp(0, UTC)
    with open_atomically(pdf, binary=True) as file:
        file.write(to_pdf(to_html(graded, loose, order), TEMPLATES, (), printed, styles))
    counts = Counter(line.verdict for line in lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(graded)} submissions: {said}")


def self_check(folder: Path, device: str | None, language: str) -> int:
    """Print what grading would say of a folder or archive; the exit status, 1 if anything fails.

    `device` is the class's GPU, if known. GradingError if there is no such folder.
    """
    path = folder.absolute()
    if not path.exists():
        raise GradingError(f"{folder}: there is no such folder; name the one that you hand in")
    checked = check_apart(str(path.parent), [path.name], device)
    (own,) = grade_checked(checked, published_times())

    def labelled(mark: str, key: str, text: str) -> str:
        return f"{mark} {word('labelled', language, name=word(key, language), text=text)}".lstrip()

    for check in CHECKS[:-1]:
        verdict, part = own.verdicts[check], own.part(check)
        text = word(f"verdict.{verdict}", language)
        text = word("cell.part", language, done=part[0], total=part[1]) if part else text
        print(labelled(MARKS[verdict], f"check.{check}", text))
        if not own.of(check):
            print(f"    {word('nothing_to_check', language)}")
    for group in grouped(own.lines, "fail", "warn", "not_checked"):
        mark, key = MARKS[group[0].verdict], f"check.{group[0].check}"
        print("\n" + labelled(mark, key, told(group, language, escaped)))
        for line in group[:EXAMPLES] if group[0].file else ():
            parts = filter(None, (line.file, line.found, line.expected))
            print("    " + " → ".join(map(escaped, parts)))
    for group in notes_of(own.lines):
        print("\n" + labelled("", "note", told(group, language, escaped)))
    if path.is_dir() and not any(line.code == "form.budget" for line in own.lines):
        try:
            entries, _ = import_plan(path, implementations_of(ATTENTION))
            different = {str(entry["run"]) for entry in entries}
            said = word("selfcheck.runs", language, files=len(entries), runs=len(different))
        except FolderError as error:
            said = word("selfcheck.refused", language, reason=escaped(str(error)))
        print(f"\n{said}")
    return int(any(line.verdict == "fail" for line in own.lines))
