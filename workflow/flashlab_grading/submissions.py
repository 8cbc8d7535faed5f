"""From a submission's folder to its results: read, parsed, and joined with their declarations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from flashlab.course import (
    RUNS_CSV,
    DeclaredRun,
    NotAResultError,
    NotMeasuredError,
    read_result,
    read_runs_csv,
)
from flashlab.untrusted import UnsoundFileError
from flashlab_grading import declared
from flashlab_grading.archives import REPORT, members_of, read_member
from flashlab_grading.files import Entries, Found, entries_of, files_of
from flashlab_grading.model import GradingError, Line, Result, Submission, Verdict

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""


class _Reader:
    """Collects one submission; runs.csv may come after the files that it declares."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.results: dict[str, Result] = {}
        self.seen: set[str] = set()
        self.declared: dict[str, list[tuple[str, DeclaredRun]]] = {}
        self.others: list[str] = []

    def fail(self, file: str, problem: UnsoundFileError) -> None:
        verdict: Verdict = "warn" if problem.code in WARNED else "fail"
        self.lines.append(Line(verdict, problem.code, file, problem.params))

    def note(self, file: str, code: str, **params: str) -> None:
        self.lines.append(Line("pass", code, file, params))

    def take(self, found: Found) -> None:
        self.seen.add(found.path)
        try:
            if found.problem is not None:
                raise found.problem
            assert found.content is not None
            if PurePosixPath(found.path).name.lower() == RUNS_CSV:
                self._take_declarations(found.path, found.content)
            else:
                self._take_result(found.path, found.content)
        except NotAResultError:
            self.others.append(found.path)
        except UnsoundFileError as problem:
            self.fail(found.path, problem)
        except NotMeasuredError as reason:
            self.note(found.path, "form.not_measured", status=reason.status)

    def _take_result(self, path: str, content: bytes) -> None:
        result = read_result(content)
        recorded = declared.of_record(result.claim) if result.claim else None
        self.results[path] = Result(
            *(path, result.numbers, recorded or declared.of_name(path), recorded, result.samples),
            claim=result.claim,
        )
        self.lines.append(Line("pass", "form.pass", path))

    def _take_declarations(self, path: str, content: bytes) -> None:
        runs = read_runs_csv(content)
        for problem in runs.problems:
            self.fail(path, problem)
        for code in runs.notes:
            self.note(path, code)
        folder = PurePosixPath(path).parent
        for row in runs.rows:
            self.declared.setdefault(str(folder / row.file), []).append((path, row))

    def finish(self) -> Submission:
        for file, rows in self.declared.items():
            if file not in self.seen:
                table, row = rows[0]
                line = str(row.line)
                self.fail(table, UnsoundFileError("form.row_missing", line=line, value=row.file))
            elif file in self.results:
                result = self.results[file]
                first, *again = (declared.of_row(row) for _, row in rows)
                again = [row for row in again if row.contradicts(first)]
                first = first.completed_by(result.declaration)
                if first.device_name is None and result.recorded:
                    first = replace(first, device_name=result.recorded.device_name)
                if result.recorded and not result.recorded.gpu:
                    first = replace(first, gpu=False)
                self.results[file] = replace(result, declaration=first, declared_again=tuple(again))
        self._leave_out_doubles()
        for file in self.others:
            # Only a row of runs.csv makes it a result that is not one.
            if file in self.declared:
                self.fail(file, NotAResultError())
            else:
                self.note(file, "form.not_a_result")
        told = any(not line.is_note or line.code == "form.not_measured" for line in self.lines)
        if not self.results and not told:
            self.fail("", UnsoundFileError("form.nothing"))
        return Submission(self.name, tuple(self.results.values()), tuple(self.lines))

    def _leave_out_doubles(self) -> None:
        """Count a result once that is there twice, such as in a folder and in its report's PDF."""
        seen: dict[tuple[object, ...], str] = {}
        for file, result in list(self.results.items()):
            said = result.declaration
            samples = tuple(sorted(result.samples.items()))
            key = (repr(result.numbers), samples, tuple(said.stated.items()))
            other = seen.setdefault(key, file)
            if other != file and said.says_something:
                del self.results[file]
                self.note(file, "form.double", other=other)


def read_submission(folder: str, name: str, device_name: str | None) -> Submission:
    """The submission in ``folder/name``; `device_name` is used where it names no device itself."""
    return _read(name, files_of(str(Path(folder, name))), device_name)


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    name = f"report{REPORT}"
    members = members_of(name, content)
    return _read(name, (Found(m.path, read_member(m), m.problem) for m in members), None)


def _read(name: str, files: Iterable[Found], device_name: str | None) -> Submission:
    reader = _Reader(name)
    for found in files:
        reader.take(found)
    submission = reader.finish()
    named = {result.declaration.device_name for result in submission.results} - {None}
    lines = list(submission.lines)
    if device_name is not None:
        lines += [
            Line("warn", "form.other_device", "", {"device": other}, device_name, other)
            for other in sorted(map(str, named))
            if not declared.is_same_device(other, device_name)
        ]
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named.pop() if len(named) == 1 else (None if named else device_name)
    results = []
    for result in submission.results:
        said = result.declaration
        on = replace(said, device_name=said.device_name or device)
        results.append(replace(result, declaration=on))
    return replace(submission, results=tuple(results), lines=tuple(lines), device_name=device)


def find_submissions(folder: str) -> Entries:
    """What lies in a class's folder; GradingError if it has no submission or cannot be listed."""
    try:
        entries = entries_of(folder)
    except UnsoundFileError as problem:
        text = f"config: submissions: {folder} cannot be graded: {problem}"
        raise GradingError(text) from problem
    if not entries.submissions:
        raise GradingError(
            f"{folder} has no subfolders; each submission is one. To check a single submission: "
            f"./run selfcheck {folder}"
        )
    return entries
