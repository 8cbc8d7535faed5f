"""A student's own check before handing in: what grading says of one folder, on the terminal."""

from __future__ import annotations

from pathlib import Path

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import EXAMPLES, grouped, notes_of, told, word
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import CHECKS, GradingError
from flashlab_grading.recorded import recorded_results
from flashlab_grading.shown import MARKS, escaped


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
    (own,) = grade_checked(checked, (), "", recorded_results()).submissions
    lines = [line for line in own.lines if line.check != CHECKS[-1]]  # which a grader alone makes

    def labelled(mark: str, key: str, text: str) -> str:
        named = word("labelled", language, name=word(key, language), text=text)
        return f"{mark} {named}".lstrip()

    for check in CHECKS[:-1]:
        verdict, part = own.verdicts[check], own.part(check)
        text = word(f"verdict.{verdict}", language)
        if part:
            text = word("cell.part", language, done=part[0], total=part[1])
        print(labelled(MARKS[verdict], f"check.{check}", text))
        if not any(line.check == check for line in lines):
            print(f"    {word('nothing_to_check', language)}")
    for group in grouped(lines, "fail", "warn", "not_checked"):
        mark, key = MARKS[group[0].verdict], f"check.{group[0].check}"
        print("\n" + labelled(mark, key, told(group, language, escaped)))
        for line in group[:EXAMPLES] if group[0].file else ():
            parts = filter(None, (line.file, line.found, line.expected))
            print("    " + " → ".join(map(escaped, parts)))
    for group in notes_of(lines):
        print("\n" + labelled("", "note", told(group, language, escaped)))
    if path.is_dir():
        print(f"\n{_importable_runs(path, language)}")
    return int(any(line.verdict == "fail" for line in own.lines))
