"""The grading stage: from a call's order to the CSV files and the content of the pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.files import write_json
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import (
    Cause,
    Cluster,
    causes_of,
    clusters_of,
    confidence_of,
    urgency,
)
from flashlab_grading.grade import Grades, Summary, grade_checked
from flashlab_grading.model import BADGES, CHECKS, VERDICTS, Line
from flashlab_grading.order import measured_of, read_order
from flashlab_grading.recorded import recorded_results
from flashlab_grading.sheets import write_grades, write_summary
from flashlab_grading.shown import for_page
from flashlab_grading.submissions import find_submissions, loose_files
from flashlab_grading.wording import cause_sentence, sentence

SHOWN = 12
"""Most causes in a submission's section; the CSV has every line."""

SHOWN_PAIRS = 6
"""Most pairs shown of a cluster of copies."""

SHOWN_FILES = 8
"""Most loose files, or members of a cluster, that are named."""


def _in_words(languages: Sequence[str], cause: Cause) -> dict[str, str]:
    return {language: cause_sentence(cause, language, for_page) for language in languages}


def _cause(cause: Cause, languages: Sequence[str]) -> dict[str, Any]:
    return {
        "check": cause.check,
        "verdict": cause.verdict,
        "confidence": cause.confidence,
        "message": _in_words(languages, cause),
        "examples": [
            {
                "file": for_page(example.file),
                "found": for_page(example.found),
                "expected": for_page(example.expected),
            }
            for example in cause.examples
        ],
        "more": max(0, cause.files - len(cause.examples)) if cause.examples else 0,
    }


def _notes(lines: Sequence[Line], languages: Sequence[str]) -> list[dict[str, Any]]:
    """What was understood though it was unusual: one entry for each kind."""
    kinds: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.is_note:
            kinds[line.code].append(line)
    return [
        {
            "message": {x: sentence(same[0], x, for_page) for x in languages},
            "count": len(same),
            "file": for_page(same[0].file) if len(same) == 1 else "",
        }
        for same in kinds.values()
    ]


def _cluster(cluster: Cluster, languages: Sequence[str]) -> dict[str, Any]:
    """A cluster of copies: its members, and the evidence for its pairs side by side."""
    return {
        "members": [for_page(name) for name in cluster.members[:SHOWN_FILES]],
        "more_members": max(0, len(cluster.members) - SHOWN_FILES),
        "confidence": cluster.confidence,
        "pairs": [
            {
                "one": for_page(pair.one),
                "other": for_page(pair.other),
                "confidence": confidence_of(pair.line),
                **{name: pair.line.params[name] for name in ("count", "total", "ratio")},
                **{name: pair.line.params[name] for name in ("width", "odds")},
            }
            for pair in cluster.pairs[:SHOWN_PAIRS]
        ],
        "more_pairs": max(0, len(cluster.pairs) - SHOWN_PAIRS),
    }


def _cell(summary: Summary, check: str) -> dict[str, Any]:
    done, total = summary.checked[check]
    verdict = summary.verdicts[check]
    partly = verdict == "not_checked" and 0 < done < total
    return {"verdict": verdict, "done": done if partly else 0, "total": total}


def _unchecked(summary: Summary) -> int:
    """How many checks of the submission's own files came to no conclusion, or not for all."""
    own = [check for check in CHECKS if check not in ("copies", "reproduction")]
    return sum(summary.verdicts[check] == "not_checked" for check in own)


def _document(grades: Grades, order: Mapping[str, Any]) -> dict[str, Any]:
    """All that the pages show, with others' texts made safe."""
    languages = order["languages"]
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    causes = {s.submission: causes_of(lines[s.submission], s.files) for s in grades.summaries}
    summaries = sorted(
        grades.summaries, key=lambda s: (urgency(causes[s.submission]), -_unchecked(s))
    )
    loose = [for_page(line.file) for line in grades.lines if line.code == "form.loose"]
    return {
        "languages": languages,
        "files": sum(summary.files for summary in summaries),
        "loose": {"files": loose[:SHOWN_FILES], "count": len(loose)},
        "submissions": [
            {
                "submission": for_page(summary.submission),
                "device": for_page(summary.device),
                "files": summary.files,
                "cells": {check: _cell(summary, check) for check in CHECKS},
                "badges": list(summary.badges),
            }
            for summary in summaries
        ],
        "clusters": [_cluster(cluster, languages) for cluster in clusters_of(grades.lines)],
        "details": [
            {
                "submission": for_page(summary.submission),
                "causes": [_cause(cause, languages) for cause in own[:SHOWN]],
                "more": max(0, len(own) - SHOWN),
                "notes": _notes(lines[summary.submission], languages),
            }
            for summary in summaries
            if (own := causes[summary.submission])
        ],
        "noted": [
            {
                "submission": for_page(summary.submission),
                "notes": notes,
            }
            for summary in summaries
            if not causes[summary.submission]
            and (notes := _notes(lines[summary.submission], languages))
        ],
        "clean": [for_page(s.submission) for s in summaries if not causes[s.submission]],
        "counts": {
            check: {
                verdict: sum(s.verdicts[check] == verdict for s in summaries)
                for verdict in VERDICTS
            }
            for check in CHECKS
        },
        "badges": {badge: sum(badge in s.badges for s in summaries) for badge in BADGES},
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
    checked = check_apart(folder, entries.submissions, order["device"], order.get("nonce"))
    grades = grade_checked(checked, measured_of(order), order["here"], recorded_results())
    grades = replace(grades, lines=(*loose_files(entries), *grades.lines))
    write_json(document, _document(grades, order))
    write_summary(summary_csv, grades)
    write_grades(grades_csv, grades, order["languages"][0])
    return grades
