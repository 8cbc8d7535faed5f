"""The grades as CSV, a row for each check of a file and for each submission, and as a PDF."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from flashlab.files import open_atomically, read_json
from flashlab_grading.grade import Grades, Summary
from flashlab_grading.model import BADGES, CHECKS
from flashlab_grading.shown import MARKS, cell, told_apart
from flashlab_grading.wording import sentence, word

COLUMNS = ("submission", "file", "check", "verdict", "expected", "found")
SUMMARY_COLUMNS = (
    *("submission", "device", "files", *CHECKS),
    *("failed", "warned", "not_checked", "badges"),
)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(text) for text in row] for row in rows)


def _name_of(grades: Grades) -> Callable[[str], str]:
    """The name of a submission on the sheet: those that look alike are told apart."""
    apart = told_apart(summary.submission for summary in grades.summaries)
    return lambda name: apart.get(name, name)


def write_grades(path: Path, grades: Grades, languages: Sequence[str]) -> None:
    """Write a row for each line, with a column for its message in each language."""
    name = _name_of(grades)
    rows = (
        (
            *(name(line.submission), line.file, line.check, line.verdict),
            *(line.expected, line.found),
            *(sentence(line, language, str) for language in languages),
        )
        for line in grades.lines
    )
    _write(path, (*COLUMNS, *(f"message.{language}" for language in languages)), rows)


def _verdict(summary: Summary, check: str) -> str:
    """A check's verdict, with how much of it was made if it was made in part."""
    done, total = summary.checked[check]
    part = f" ({done}/{total})" if summary.is_part(check) else ""
    return summary.verdicts[check] + part


def write_summary(path: Path, grades: Grades) -> None:
    """Write a row for each submission."""
    name = _name_of(grades)
    rows = (
        (
            *(name(summary.submission), summary.device, str(summary.files)),
            *(_verdict(summary, check) for check in CHECKS),
            *(str(summary.counts.get(v, 0)) for v in ("fail", "warn", "not_checked")),
            " ".join(summary.badges),
        )
        for summary in grades.summaries
    )
    _write(path, SUMMARY_COLUMNS, rows)


def to_html(document: dict[str, object]) -> str:
    """The pages as one HTML document; others' texts in `document` must be escaped already."""
    from flashlab.report.page import LANGUAGE_TAGS
    from flashlab.report.render import TEMPLATES, templates

    known = {"word": word, "tags": LANGUAGE_TAGS, "checks": CHECKS, "badges": BADGES}
    template = templates(TEMPLATES).get_template("grades.html.j2")
    return template.render(grades=document, marks=MARKS, order=tuple(MARKS), **known)


def write_pages(document_file: Path, output: Path) -> None:
    """Write the PDF: a table of the class, then what did not pass in each submission."""
    from flashlab.report.render import TEMPLATES, to_pdf

    document = read_json(document_file)
    styles = ("report.css", "grades.css")
    pdf = to_pdf(to_html(document), TEMPLATES, (), datetime.fromtimestamp(0, UTC), styles)
    with open_atomically(output, binary=True) as file:
        file.write(pdf)
