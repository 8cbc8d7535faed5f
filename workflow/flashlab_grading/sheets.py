r"""The grades of a class as CSV and as a PDF, and what they would be of one folder, printed.

A submission's lines are grouped by verdict and message, the gravest first: exchanged labels are one
group, however many files they make false. Others' names and texts are made safe to show: what
cannot be printed (ANSI escapes, marks that reverse text, bytes that are not UTF-8) or is not in the
report's fonts becomes a visible escape as Python writes it, such as ``\u202e``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.config import ConfigError
from flashlab.files import open_atomically, read_json
from flashlab.lab5.assigning import Line, Verdict
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError
from flashlab.labels import message
from flashlab.telling.glyphs import covered
from flashlab.untrusted import printable
from flashlab_grading.checks import BADGES, CHECKS, VERDICTS, Submission
from flashlab_grading.copies import published_times
from flashlab_grading.submissions import ARCHIVES, check_apart, grade_checked, grade_order

MARKS = {"pass": "✓", "warn": "△", "fail": "×", "not_checked": "–"}

EXAMPLES, SAID = 3, 10
"""Most files of a group that are shown, and most sentences on a whole submission."""

MAX_CELL, MAX_CHARACTERS = 32_000, 160
"""Most characters of a CSV cell, of which a spreadsheet cuts off what is behind 32,767, and of a
text in a PDF."""


def escaped(text: str, needs_glyph: bool = False) -> str:
    """`text` with visible escapes for everything that could mislead a reader or break a parser."""

    def is_plain(c: str) -> bool:
        return c.isprintable() and c != "\\" and (not needs_glyph or ord(c) in covered())

    return printable(text, is_plain)


def for_page(text: str) -> str:
    """`text` for the PDF: escaped, without missing glyphs, and shortened in the middle."""
    shown, half = escaped(text, needs_glyph=True), MAX_CHARACTERS // 2 - 2
    return shown if len(shown) <= MAX_CHARACTERS else f"{shown[:half]} … {shown[-half:]}"


def cell(text: str) -> str:
    """`text` for a CSV cell: escaped, never a formula, and short enough for any spreadsheet."""
    shown = escaped(text)
    shown = shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}…"
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def grouped(lines: Iterable[Line], *verdicts: str) -> list[list[Line]]:
    """The lines of these verdicts, no usual pass, by message: by verdict, check, then count."""
    groups = defaultdict[tuple[str, str], list[Line]](list)
    for line in lines:
        if line.verdict in verdicts and not line.code.startswith(f"{line.check}.pass"):
            groups[line.verdict, line.code].append(line)
    return sorted(
        groups.values(),
        key=lambda own: (VERDICTS.index(own[0].verdict), CHECKS.index(own[0].check), -len(own)),
    )


def urgency(own: Submission) -> tuple[int, ...]:
    """The place of a submission in the order of what needs a person first; low is urgent.

    Failures come before warnings, and accusations before what is merely incomplete.
    """
    failed = [group[0].check in ("form", "coverage") for group in grouped(own.lines, "fail")]
    unsure = len(grouped(own.lines, "warn")), sum(own.verdict(x) == "not_checked" for x in CHECKS)
    return -failed.count(False), -failed.count(True), -unsure[0], -unsure[1]


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language with its parameters; of a file's form, from the reader's catalog."""
    domain = "course" if key.startswith("form.") else "grades"
    return message(language, domain, key).format_map(params)


def sentence(lines: Sequence[Line], language: str, show: Callable[[str], str]) -> str:
    """A line, or those on experiments, as a sentence, whose parameters `show` makes safe."""
    params = {name: show(value) for name, value in lines[0].params.items()}
    others = [*map(show, lines[0].params.get("others", "").split("\0"))]  # NUL is in no name
    if lines[0].check == "coverage":
        swept = ((x.params["implementation"], x.params["experiment"]) for x in lines)
        others = [f"{name} {word(f'experiment.{size}', language)}" for name, size in swept]
    if params.get("pass"):
        params["pass"] = word(f"pass.{params['pass']}", language)
    params["others"] = word("list.separator", language).join(others)
    return word(lines[0].code, language, **params)


def told(group: Sequence[Line], language: str, show: Callable[[str], str]) -> str:
    """A group in words: of files by the first one, and how many more there are."""
    if group[0].check == "coverage":
        return sentence(group, language, show)
    first = group[:1] if group[0].file else group[:SAID]
    text = " ".join(sentence([line], language, show) for line in first)
    more = len(group) - len(first)
    return text + word("cause.more", language, count=more) if more else text


COLUMNS = ("submission", "file", "check", "verdict", "expected", "found")
MOST = {"causes": 12, "files": 8, "examples": EXAMPLES}
"""Most causes of a submission, loose files, and examples that are shown; the CSV has all."""


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with open_atomically(path) as file:
        pd.DataFrame(rows).astype(str).map(cell).to_csv(file, index=False, lineterminator="\n")


def write_grades(path: Path, lines: Iterable[Line], languages: Sequence[str]) -> None:
    """Write a row for each line, with a column for its message in each language."""
    rows = [
        {name: getattr(line, name) for name in COLUMNS}
        | {f"message.{x}": sentence([line], x, str) for x in languages}
        for line in lines
    ]
    _write(path, rows)


def write_summary(path: Path, submissions: Iterable[Submission]) -> None:
    """Write a row for each submission; a check that was made in part with how much of it was."""
    rows = list[dict[str, object]]()
    for own in submissions:
        row = {"submission": own.name, "device": own.device or "", "files": len(own.results)}
        for check in CHECKS:
            part = own.part(check)
            row[check] = own.verdict(check) + (" ({}/{})".format(*part) if part else "")
        counts = Counter[str](line.verdict for line in own.lines)
        row |= {"badges": " ".join(own.badges), "failed": counts["fail"], "warned": counts["warn"]}
        rows.append(row | {"not_checked": counts["not_checked"]})
    _write(path, rows)


def to_html(
    submissions: Iterable[Submission], loose: Iterable[str], order: Mapping[str, Any]
) -> str:
    """The pages as one HTML document, for which the template makes others' texts safe.

    A table of the class, then what did not pass in each submission, the most urgent first. `loose`
    are the files that are in none.
    """
    from flashlab.report.document import TAGS, TEMPLATES
    from flashlab.report.render import templates

    ordered = sorted(submissions, key=urgency)
    causes = {own.name: grouped(own.lines, "fail", "warn") for own in ordered}
    page = templates(TEMPLATES).get_template("grades.html.j2")
    return page.render(
        **{"submissions": ordered, "causes": causes, "order": order, "most": MOST},
        notes={own.name: grouped(own.lines, "pass") for own in ordered},
        clean=[for_page(name) for name, own in causes.items() if not own],
        loose=[*map(for_page, loose)],
        counts={x: Counter(own.verdict(x) for own in ordered) for x in CHECKS},
        **{"checks": CHECKS, "badges": BADGES, "marks": MARKS, "tags": TAGS},
        **{"word": word, "show": for_page, "told": told},
    )


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, pdf: Path) -> None:
    """Grade what the order names, and write the two CSV files and the PDF."""
    from flashlab.report.document import TEMPLATES
    from flashlab.report.render import to_pdf

    order = read_json(order_file)
    graded, loose = grade_order(order)
    lines = [Line("warn", "form.loose", name) for name in loose]
    lines += [line for own in graded for line in own.lines]
    write_summary(summary_csv, graded)
    write_grades(grades_csv, lines, order["languages"])
    styles, printed = ("report.css", "grades.css"), "1970-01-01T00:00:00+00:00"
    with open_atomically(pdf, binary=True) as file:
        file.write(to_pdf(to_html(graded, loose, order), TEMPLATES, (), printed, styles))


def self_check(folder: Path, device: str | None, language: str) -> int:
    """Print what grading would say of a folder or archive; the exit status, 1 if anything fails.

    `device` is the class's GPU, if known. ConfigError if there is no such folder.
    """
    path = folder.absolute()
    if not (path.is_dir() or (path.exists() and folder.name.lower().endswith(ARCHIVES))):
        raise ConfigError(f"{folder}: there is no such folder; name the one that you hand in")
    checked = check_apart(str(path.parent), [path.name], device)
    (own,) = grade_checked(checked, published_times())  # a dataset frozen here may be one's own

    def show(verdict: Verdict, check: str, text: str) -> None:
        name = word(f"check.{check}", language)
        print(MARKS[verdict], word("labelled", language, name=name, text=text))

    for check in CHECKS[:-1]:
        text = word(f"verdict.{own.verdict(check)}", language)
        if part := own.part(check):
            text = word("cell.part", language, done=part[0], total=part[1])
        show(own.verdict(check), check, text)
        if not own.of(check):
            print(f"    {word('nothing_to_check', language)}")
    for group in grouped(own.lines, *VERDICTS):
        print()
        show(group[0].verdict, group[0].check, told(group, language, escaped))
        for line in group[:EXAMPLES] if group[0].file else ():
            parts = filter(None, (line.file, line.found, line.expected))
            print("    " + " → ".join(map(escaped, parts)))
    if path.is_dir() and not any(line.code in ("form.budget", "form.failed") for line in own.lines):
        try:
            entries, _ = import_plan(path, implementations_of(ATTENTION))
            count = {"files": len(entries), "runs": len({str(entry["run"]) for entry in entries})}
            print("\n" + word("selfcheck.runs", language, **count))
        except FolderError as error:
            print("\n" + word("selfcheck.refused", language, reason=error))
    return int("fail" in {line.verdict for line in own.lines})
