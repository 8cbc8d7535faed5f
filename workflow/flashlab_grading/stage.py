"""The grading stage: from a call's order to the CSV files and the PDF."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from flashlab.files import read_json
from flashlab_grading.apart import check_apart
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import Line
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import measured_of
from flashlab_grading.sheets import write_grades, write_pages, write_summary


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, pdf: Path) -> None:
    """Grade what the order names, and write the two CSV files and the PDF."""
    order = read_json(order_file)
    names, others = find_submissions(order["submissions"])
    checked = check_apart(order["submissions"], names, order["device"], order.get("nonce"))
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    loose = [Line("warn", "form.loose", name) for name in others]
    grades = replace(grades, lines=(*loose, *grades.lines))
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"])
    write_pages(pdf, grades, order)
    counts = Counter(line.verdict for line in grades.lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(grades.summaries)} submissions: {said}")
