"""The grades of a class: a row for each check of a file, one for each submission, and a PDF."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.files import open_atomically, read_json
from flashlab_grading import causes
from flashlab_grading.apart import check_apart
from flashlab_grading.grade import Grades, Summary, grade_checked
from flashlab_grading.model import BADGES, CHECKS, Line, Verdict, confidence_of
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import measured_of
from flashlab_grading.shown import MARKS, cell, for_page
from flashlab_grading.submissions import find_submissions

COLUMNS = ("submission", "file", "check", "verdict", "expected", "found")
COUNTS: dict[str, Verdict] = {
    "failed": "fail",
    "warned": "warn",
    "not_checked": "not_checked",
}
MOST = {"causes": 12, "pairs": 40, "files": 8}
"""Most causes of a submission, pairs of copies, and loose files that are shown; the CSV has all."""


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(text) for text in row] for row in rows)


def write_grades(path: Path, grades: Grades, languages: Sequence[str]) -> None:
    """Write a row for each line, with a column for its message in each language."""
    rows = (
        (
            *(getattr(line, name) for name in COLUMNS),
            *(causes.sentence(line, language, str) for language in languages),
        )
        for line in grades.lines
    )
    _write(path, (*COLUMNS, *(f"message.{language}" for language in languages)), rows)


def _verdict(summary: Summary, check: str) -> str:
    """A check's verdict, with how much of it was made if it was made in part."""
    part = " ({}/{})".format(*summary.checked[check]) if summary.is_part(check) else ""
    return summary.verdicts[check] + part


def write_summary(path: Path, grades: Grades) -> None:
    """Write a row for each submission."""
    rows = (
        (
            *(s.submission, s.device, str(s.files)),
            *(_verdict(s, check) for check in CHECKS),
            *(str(s.counts[verdict]) for verdict in COUNTS.values()),
            " ".join(s.badges),
        )
        for s in grades.summaries
    )
    _write(path, ("submission", "device", "files", *CHECKS, *COUNTS, "badges"), rows)


def _unchecked(summary: Summary) -> int:
    """The number of checks of its own files that came to no conclusion, or not for all."""
    own = [check for check in CHECKS if check not in ("copies", "reproduction")]
    return sum(summary.verdicts[check] == "not_checked" for check in own)


def to_html(grades: Grades, order: Mapping[str, Any]) -> str:
    """The pages as one HTML document, for which the template makes others' texts safe.

    A table of the class, then what did not pass in each submission, the most urgent first.
    """
    from flashlab.report.page import LANGUAGE_TAGS
    from flashlab.report.render import TEMPLATES, templates

    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    named = {s.submission: s for s in grades.summaries}
    told = {name: causes.causes_of(lines[name], s.files) for name, s in named.items()}
    notes = {name: causes.notes_of(lines[name], s.files) for name, s in named.items()}

    def place(summary: Summary) -> tuple[int, ...]:
        return *causes.urgency(told[summary.submission]), -_unchecked(summary)

    ordered = sorted(grades.summaries, key=place)
    return (
        templates(TEMPLATES)
        .get_template("grades.html.j2")
        .render(
            **{"summaries": ordered, "causes": told, "notes": notes, "order": order},
            told=[s for s in ordered if told[s.submission] or notes[s.submission]],
            clean=[for_page(s.submission) for s in ordered if not told[s.submission]],
            earned={badge: sum(badge in s.badges for s in ordered) for badge in BADGES},
            pairs=causes.pairs_of(grades.lines),
            loose=[for_page(line.file) for line in grades.lines if line.code == "form.loose"],
            **{"checks": CHECKS, "badges": BADGES, "marks": MARKS, "tags": LANGUAGE_TAGS},
            **{"word": causes.word, "show": for_page, "confidence": confidence_of, "most": MOST},
            **{"cause_sentence": causes.cause_sentence, "sentence": causes.sentence},
        )
    )


def write_pages(path: Path, grades: Grades, order: Mapping[str, Any]) -> None:
    """Write the PDF (`to_html`)."""
    from flashlab.report.render import TEMPLATES, to_pdf

    styles, printed = ("report.css", "grades.css"), datetime.fromtimestamp(0, UTC)
    pdf = to_pdf(to_html(grades, order), TEMPLATES, (), printed, styles)
    with open_atomically(path, binary=True) as file:
        file.write(pdf)


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, pdf: Path) -> None:
    """Grade what the order names, and write the two CSV files and the PDF."""
    order = read_json(order_file)
    names, others = find_submissions(order["submissions"])
    checked = check_apart(order["submissions"], names, order["device"])
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    loose = [Line("warn", "form.loose", name) for name in others]
    grades = replace(grades, lines=(*loose, *grades.lines))
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"])
    write_pages(pdf, grades, order)
    counts = Counter(line.verdict for line in grades.lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(grades.summaries)} submissions: {said}")
