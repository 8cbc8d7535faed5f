"""From a submission's folder to its results: read, parsed, and joined with their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from flashlab_grading.files import Found, files_of
from flashlab_grading.model import Declaration, Line, Result, Samples, Submission, Verdict

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""


class _Reader:
    """Collects one submission; runs.csv may come after the files that it declares."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.results: dict[str, Result] = {}
        self.samples: dict[str, Samples] = {}
        self.seen: set[str] = set()
        self.declared: dict[str, list[tuple[str, DeclaredRun]]] = {}
        self.others: list[str] = []

    def fail(self, file: str, problem: UnsoundFileError) -> None:
        verdict: Verdict = "warn" if problem.code in WARNED else "fail"
        self.lines.append(Line(verdict, problem.code, file, problem.params))

    def note(self, file: str, code: str, **params: str) -> None:
        self.lines.append(Line("pass", code, file, params))

    def take(self, path: str, content: bytes | UnsoundFileError) -> None:
        self.seen.add(path)
        try:
            if isinstance(content, UnsoundFileError):
                raise content
            if PurePosixPath(path).name.lower() == RUNS_CSV:
                self._take_declarations(path, content)
            else:
                self._take_result(path, content)
        except NotAResultError:
            self.others.append(path)
        except UnsoundFileError as problem:
            self.fail(path, problem)
        except NotMeasuredError as reason:
            self.note(path, "form.not_measured", status=reason.status)

    def _take_result(self, path: str, content: bytes) -> None:
        read = read_result(content)
        recorded = declared.of_record(read.claim) if read.claim else None
        said = recorded or declared.of_name(path)
        self.results[path] = Result.of(path, read, said, recorded=recorded)
        self.samples[path] = read.samples
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

    def finish(self, device_name: str | None) -> Submission:
        """The submission; `device_name` is used where it names no device itself."""
        for file, rows in self.declared.items():
            if file not in self.seen:
                table, row = rows[0]
                line = str(row.line)
                self.fail(table, UnsoundFileError("form.row_missing", line=line, value=row.file))
            elif file in self.results:
                self._declare(self.results[file], [declared.of_row(row) for _, row in rows])
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
        named = {r.declaration.device_name for r in self.results.values()} - {None}
        for other in sorted(map(str, named)):
            if device_name is not None and not declared.is_same_device(other, device_name):
                texts = {"device": other}, device_name, other
                self.lines.append(Line("warn", "form.other_device", "", *texts))
        # A submission comes from one GPU: the device that one file names is that of the others.
        device = named.pop() if len(named) == 1 else (None if named else device_name)
        results = tuple(
            replace(r, declaration=replace(r.declaration, device_name=device))
            if r.declaration.device_name is None
            else r
            for r in self.results.values()
        )
        return Submission(self.name, results, tuple(self.lines), device, self.samples)

    def _declare(self, result: Result, rows: Sequence[Declaration]) -> None:
        """Complete what the rows of runs.csv declare a file to be, of which the first counts."""
        said = rows[0].completed_by(result.declaration)
        if result.recorded:
            device = said.device_name or result.recorded.device_name
            said = replace(said, device_name=device, gpu=said.gpu and result.recorded.gpu)
        again = tuple(row for row in rows[1:] if row.contradicts(rows[0]))
        self.results[result.name] = replace(result, declaration=said, declared_again=again)

    def _leave_out_doubles(self) -> None:
        """Count a result once that is there twice, such as in a folder and in its report's PDF."""
        seen: dict[str, str] = {}
        for file, result in list(self.results.items()):
            stated = result.declaration.stated
            other = seen.setdefault(repr((result.numbers, self.samples[file], stated)), file)
            if other != file and stated:
                del self.results[file]
                self.note(file, "form.double", other=other)


def read_submission(folder: str, name: str, device_name: str | None) -> Submission:
    """The submission in ``folder/name``; `device_name` is used where it names no device itself."""
    return _read(name, files_of(str(Path(folder, name))), device_name)


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    name = f"report{REPORT}"
    members = members_of(name, content)
    return _read(name, ((m.path, m.problem or read_member(m)) for m in members), None)


def _read(name: str, files: Iterable[Found], device_name: str | None) -> Submission:
    reader = _Reader(name)
    for path, content in files:
        reader.take(path, content)
    return reader.finish(device_name)
