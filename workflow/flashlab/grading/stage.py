"""The grading stage: from a call's order to the CSV files and the content of the pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.files import write_json
from flashlab.grading.apart import check_apart
from flashlab.grading.grade import Grades, Summary, grade_checked
from flashlab.grading.model import BADGES, CHECKS, VERDICTS, Line
from flashlab.grading.order import measured_of, read_order
from flashlab.grading.recorded import recorded_results
from flashlab.grading.sheets import write_grades, write_summary
from flashlab.grading.shown import for_page
from flashlab.grading.submissions import find_submissions, loose_files
from flashlab.grading.wording import sentence

SHOWN_OF_A_KIND = 6
"""Most rows of one kind in a submission's section; the CSV has every line."""

SHOWN = 24
"""Most rows in a submission's section."""

SHOWN_FILES = 8
"""Most files named in a row."""


def _row(line: Line, files: Sequence[str], languages: Sequence[str]) -> dict[str, Any]:
    return {
        "files": [for_page(file) for file in files[:SHOWN_FILES] if file],
        "more_files": max(0, len(files) - SHOWN_FILES),
        "check": line.check,
        "verdict": line.verdict,
        "message": {language: sentence(line, language, for_page) for language in languages},
        "expected": for_page(line.expected),
        "found": for_page(line.found),
    }


def _details(summary: Summary, lines: Sequence[Line], languages: Sequence[str]) -> dict[str, Any]:
    """What did not pass, the worst first; files with the same message share a row."""
    order = {"fail": 0, "warn": 1}
    wrong = sorted(
        (line for line in lines if line.verdict in order),
        key=lambda line: (order[line.verdict], CHECKS.index(line.check)),
    )
    same: dict[tuple[object, ...], list[Line]] = defaultdict(list)
    for line in wrong:
        params = tuple(sorted(line.params.items()))
        same[line.verdict, line.code, params, line.expected, line.found].append(line)
    kinds: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    more = 0
    for group in same.values():
        first = group[0]
        kinds[first.code] += 1
        if kinds[first.code] <= SHOWN_OF_A_KIND and len(rows) < SHOWN:
            rows.append(_row(first, [line.file for line in group], languages))
        else:
            more += len(group)
    return {
        "submission": for_page(summary.submission),
        "rows": rows,
        "more": more,
        "unchecked": sum(line.verdict == "not_checked" for line in lines),
    }


def _document(grades: Grades, order: Mapping[str, Any]) -> dict[str, Any]:
    """All that the pages show, with others' texts made safe."""
    languages = order["languages"]
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    loose = [for_page(line.file) for line in grades.lines if line.code == "form.loose"]
    details = [_details(s, lines[s.submission], languages) for s in grades.summaries]
    return {
        "languages": languages,
        "files": sum(summary.files for summary in grades.summaries),
        "loose": {"files": loose[:SHOWN_FILES], "count": len(loose)},
        "submissions": [
            {
                "submission": for_page(summary.submission),
                "device": for_page(summary.device),
                "files": summary.files,
                "verdicts": dict(summary.verdicts),
                "badges": list(summary.badges),
            }
            for summary in grades.summaries
        ],
        "details": [detail for detail in details if detail["rows"]],
        "clean": [detail["submission"] for detail in details if not detail["rows"]],
        "counts": {
            check: {
                verdict: sum(s.verdicts[check] == verdict for s in grades.summaries)
                for verdict in VERDICTS
            }
            for check in CHECKS
        },
        "badges": {badge: sum(badge in s.badges for s in grades.summaries) for badge in BADGES},
        "reproduced": len(order["measured"]),
        "here": order["here"],
        "seed": order["seed"],
    }


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, document: Path) -> Grades:
    """Grade what the order names, and write the two CSV files and the content of the pages.

    Raises:
        GradingError: the folder has no submissions.
        RecordError: the record of a run measured here is missing.
    """
    order = read_order(order_file)
    folder = order["submissions"]
    entries = find_submissions(folder)
    checked = check_apart(folder, entries.submissions, order["device"])
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    grades = replace(grades, lines=(*loose_files(entries), *grades.lines))
    write_json(document, _document(grades, order))
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"][0])
    return grades
