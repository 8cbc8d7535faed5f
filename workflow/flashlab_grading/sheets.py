"""The grades of a class: a row for each check of a file, one for each submission, and a PDF."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab.files import open_atomically, read_json
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import EXAMPLES, grouped, notes_of, sentence, told, urgency, word
from flashlab_grading.grade import Graded, Grades, grade_checked
from flashlab_grading.model import BADGES, CHECKS, OWN_CHECKS, Line, Verdict
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import measured_of
from flashlab_grading.shown import MARKS, cell, for_page
from flashlab_grading.submissions import find_submissions

COLUMNS = ("submission", "file", "check", "verdict", "expected", "found")
COUNTS: Mapping[str, Verdict] = {"failed": "fail", "warned": "warn", "not_checked": "not_checked"}
MOST = {"causes": 12, "files": 8, "examples": EXAMPLES}
"""Most causes of a submission, loose files, and examples that are shown; the CSV has all."""


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(text) for text in row] for row in rows)


def write_grades(path: Path, grades: Grades, languages: Sequence[str]) -> None:
    """Write a row for each line, with a column for its message in each language."""
    rows = (
        [getattr(line, name) for name in COLUMNS] + [sentence(line, x, str) for x in languages]
        for line in grades.lines
    )
    _write(path, (*COLUMNS, *(f"message.{language}" for language in languages)), rows)


def write_summary(path: Path, grades: Grades) -> None:
    """Write a row for each submission; a check that was made in part with how much of it was."""
    rows = []
    for own in grades.submissions:
        counts = Counter(line.verdict for line in own.lines)
        parts = {check: " ({}/{})".format(*p) for check in CHECKS if (p := own.part(check))}
        rows.append([
            *(own.submission, own.device or "", str(own.files)),
            *(verdict + parts.get(check, "") for check, verdict in own.verdicts.items()),
            *(str(counts[verdict]) for verdict in COUNTS.values()),
            " ".join(own.badges),
        ])  # fmt: skip
    _write(path, ("submission", "device", "files", *CHECKS, *COUNTS, "badges"), rows)


def to_html(grades: Grades, order: Mapping[str, Any]) -> str:
    """The pages as one HTML document, for which the template makes others' texts safe.

    A table of the class, then what did not pass in each submission, the most urgent first.
    """
    from flashlab.report.page import LANGUAGE_TAGS
    from flashlab.report.render import TEMPLATES, templates

    def place(own: Graded) -> tuple[int, ...]:
        verdicts = own.verdicts
        return *urgency(own.lines), -sum(verdicts[x] == "not_checked" for x in OWN_CHECKS)

    ordered = sorted(grades.submissions, key=place)
    causes = {own.submission: grouped(own.lines, "fail", "warn") for own in ordered}
    template = templates(TEMPLATES).get_template("grades.html.j2")
    return template.render(
        **{"submissions": ordered, "causes": causes, "order": order, "most": MOST},
        notes={own.submission: notes_of(own.lines) for own in ordered},
        clean=[for_page(name) for name, own in causes.items() if not own],
        earned={badge: sum(badge in own.badges for own in ordered) for badge in BADGES},
        loose=[for_page(line.file) for line in grades.lines if line.code == "form.loose"],
        **{"checks": CHECKS, "badges": BADGES, "marks": MARKS, "tags": LANGUAGE_TAGS},
        **{"word": word, "show": for_page, "told": told},
    )


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, pdf: Path) -> None:
    """Grade what the order names, and write the two CSV files and the PDF."""
    from flashlab.report.render import TEMPLATES, to_pdf

    order = read_json(order_file)
    names, others = find_submissions(order["submissions"])
    checked = check_apart(order["submissions"], names, order["device"])
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    loose = [Line("warn", "form.loose", name) for name in others]
    grades = replace(grades, lines=[*loose, *grades.lines])
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"])
    styles, printed = ("report.css", "grades.css"), datetime.fromtimestamp(0, UTC)
    with open_atomically(pdf, binary=True) as file:
        file.write(to_pdf(to_html(grades, order), TEMPLATES, (), printed, styles))
    counts = Counter(line.verdict for line in grades.lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(grades.submissions)} submissions: {said}")
