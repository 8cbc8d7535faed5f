"""The grading stage: from a call's order to the CSV files and the content of the pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.files import read_json, write_json
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import Cause, causes_of, notes_of, pairs_of, urgency
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import Grades, Summary, grade_checked
from flashlab_grading.model import BADGES, CHECKS, VERDICTS, Line
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import measured_of
from flashlab_grading.sheets import write_grades, write_summary
from flashlab_grading.shown import for_page, told_apart
from flashlab_grading.wording import cause_sentence, sentence

SHOWN, SHOWN_PAIRS, SHOWN_FILES = 12, 40, 8
"""Most causes of a submission, pairs of copies, and loose files that are shown; the CSV has all."""


class _Page:
    """Others' texts made safe for the pages; names that look alike are told apart."""

    def __init__(self, languages: Sequence[str], names: Iterable[str]) -> None:
        self.languages = languages
        self.apart = told_apart(names)

    def show(self, text: str) -> str:
        """A name, or any other text."""
        return self.apart.get(text) or for_page(text)

    def cause(self, cause: Cause) -> dict[str, Any]:
        """A cause in words, with its examples."""
        told = {name: cause_sentence(cause, name, self.show) for name in self.languages}
        return {
            "check": cause.line.check,
            "verdict": cause.line.verdict,
            "confidence": cause.line.confidence,
            "message": told,
            "examples": [
                {key: for_page(getattr(example, key)) for key in ("file", "found", "expected")}
                for example in cause.examples
            ],
            "more": max(0, cause.files - len(cause.examples)) if cause.examples else 0,
        }

    def notes(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """Forms that are unusual but were understood: one entry for each kind."""
        return [
            {
                "message": {x: sentence(note.line, x, self.show) for x in self.languages},
                "count": len(note.lines),
                "file": for_page(note.line.file) if len(note.lines) == 1 else "",
            }
            for note in notes_of(lines, 0)
        ]

    def pair(self, pair: Line) -> dict[str, Any]:
        """Two submissions that agree, with the evidence."""
        named = ("count", "total", "law", "width", "chance")
        return {
            "names": [self.show(name) for name in (pair.submission, pair.params["other"])],
            "source": self.show(pair.params.get("source", "")),
            "confidence": pair.confidence,
            **{name: pair.params.get(name, "") for name in named},
        }


def _cell(summary: Summary, check: str) -> dict[str, Any]:
    done, total = summary.checked[check]
    done = done if summary.is_part(check) else 0
    return {"verdict": summary.verdicts[check], "done": done, "total": total}


def _unchecked(summary: Summary) -> int:
    """The number of checks of its own files that came to no conclusion, or not for all."""
    own = [check for check in CHECKS if check not in ("copies", "reproduction")]
    return sum(summary.verdicts[check] == "not_checked" for check in own)


def _document(grades: Grades, order: Mapping[str, Any]) -> dict[str, Any]:
    """All that the pages show, with others' texts made safe."""
    languages = order["languages"]
    page = _Page(languages, [summary.submission for summary in grades.summaries])
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    causes = {s.submission: causes_of(lines[s.submission], s.files) for s in grades.summaries}
    notes = {
        summary.submission: page.notes(lines[summary.submission]) for summary in grades.summaries
    }
    summaries = sorted(
        grades.summaries, key=lambda s: (urgency(causes[s.submission]), -_unchecked(s))
    )
    pairs = pairs_of(grades.lines)
    loose = [for_page(line.file) for line in grades.lines if line.code == "form.loose"]
    return {
        "languages": languages,
        "files": sum(summary.files for summary in summaries),
        "loose": {"files": loose[:SHOWN_FILES], "count": len(loose)},
        "submissions": [
            {
                "submission": page.show(summary.submission),
                "device": for_page(summary.device),
                "files": summary.files,
                "cells": {check: _cell(summary, check) for check in CHECKS},
                "badges": list(summary.badges),
            }
            for summary in summaries
        ],
        "pairs": [page.pair(pair) for pair in pairs[:SHOWN_PAIRS]],
        "more_pairs": max(0, len(pairs) - SHOWN_PAIRS),
        "details": [
            {
                "submission": page.show(summary.submission),
                "causes": [page.cause(cause) for cause in own[:SHOWN]],
                "more": max(0, len(own) - SHOWN),
                "notes": notes[summary.submission],
            }
            for summary in summaries
            if (own := causes[summary.submission]) or notes[summary.submission]
        ],
        "clean": [page.show(s.submission) for s in summaries if not causes[s.submission]],
        "counts": {
            check: {v: sum(s.verdicts[check] == v for s in summaries) for v in VERDICTS}
            for check in CHECKS
        },
        "badges": {badge: sum(badge in s.badges for s in summaries) for badge in BADGES},
        "reproduced": len(order["measured"]),
        "here": order["here"],
        "seed": order["seed"],
    }


def write_stage(order_file: Path, grades_csv: Path, summary_csv: Path, document: Path) -> None:
    """Grade what the order names, and write the two CSV files and the content of the pages."""
    order = read_json(order_file)
    folder = order["submissions"]
    names, others = find_submissions(folder)
    checked = check_apart(folder, names, order["device"], order.get("nonce"))
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    loose = [Line("warn", "form.loose", name) for name in others]
    grades = replace(grades, lines=(*loose, *grades.lines))
    write_json(document, _document(grades, order))
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"])
    counts = Counter(line.verdict for line in grades.lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(grades.summaries)} submissions: {said}")
