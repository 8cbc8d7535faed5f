"""A student's own check before handing in: what grading says of one folder, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import cause_sentence, causes_of, notes_of, word
from flashlab_grading.grade import Grades, grade_checked
from flashlab_grading.model import CHECKS, GradingError
from flashlab_grading.recorded import recorded_results
from flashlab_grading.shown import MARKS, escaped


def _lines(grades: Grades, language: str) -> Iterator[str]:
    """The sheet of the only submission, as lines of text."""
    (summary,) = grades.summaries

    def labelled(key: str, text: str) -> str:
        return word("labelled", language, name=word(key, language), text=text)

    for check in CHECKS[:-1]:  # only a grader can make the last
        verdict, (done, total) = summary.verdicts[check], summary.checked[check]
        key = "cell.part" if summary.is_part(check) else f"verdict.{verdict}"
        text = word(key, language, done=done, total=total)
        yield f"{MARKS[verdict]} {labelled(f'check.{check}', text)}"
        if not total:
            yield f"    {word('nothing_to_check', language)}"
    lines = [line for line in grades.lines if line.check != CHECKS[-1]]
    for cause in causes_of(lines, summary.files, ("fail", "warn", "not_checked")):
        text = cause_sentence(cause, language, escaped)
        yield f"\n{MARKS[cause.line.verdict]} {labelled(f'check.{cause.line.check}', text)}"
        for example in cause.examples:
            parts = (example.file, example.found, example.expected)
            yield "    " + " → ".join(escaped(part) for part in parts if part)
    for note in notes_of(lines, summary.files):
        yield f"\n{labelled('note', cause_sentence(note, language, escaped))}"


def _importable_runs(path: Path, language: str) -> str:
    """The number of runs that a report would import from the files, or its error."""
    try:
        entries, _ = import_plan(path, implementations_of(ATTENTION))
    except FolderError as error:
        return word("selfcheck.refused", language, reason=escaped(str(error)))
    different = {str(entry["run"]) for entry in entries}
    return word("selfcheck.runs", language, files=len(entries), runs=len(different))


def self_check(folder: Path, device: str | None, language: str) -> int:
    """Print what grading would say of a folder or archive; the exit status, 1 if anything fails.

    `device` is the class's GPU, if known. GradingError if there is no such folder.
    """
    path = folder.absolute()
    if not path.exists():
        raise GradingError(f"{folder}: there is no such folder; name the one that you hand in")
    checked = check_apart(str(path.parent), [path.name], device)
    grades = grade_checked(checked, (), "", recorded_results())
    for line in _lines(grades, language):
        print(line)
    if path.is_dir():
        print(f"\n{_importable_runs(path, language)}")
    return int(any(line.verdict == "fail" for line in grades.lines))
