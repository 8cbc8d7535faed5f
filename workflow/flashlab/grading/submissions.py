"""From a submission's folder to its results: read, parsed, and matched with what declares them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

from flashlab.grading import declared, form
from flashlab.grading.files import (
    Found,
    UnsoundFileError,
    files_of,
    loose_files_in,
    submissions_in,
)
from flashlab.grading.model import Declaration, GradingError, Line, Numbers, Result, Submission

RUNS_CSV = "runs.csv"


class _Reader:
    """Collects one submission; runs.csv may come after the files that it declares."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.results: dict[str, Result] = {}
        self.seen: set[str] = set()
        self.declared: dict[str, list[tuple[str, Declaration]]] = {}

    def fail(self, file: str, problem: UnsoundFileError) -> None:
        self.lines.append(Line(self.name, file, "form", "fail", problem.code, problem.params))

    def take(self, found: Found) -> None:
        self.seen.add(found.path)
        try:
            if found.problem is not None:
                raise found.problem
            assert found.content is not None
            if PurePosixPath(found.path).name == RUNS_CSV:
                self._take_declarations(found.path, found.content)
            else:
                self._take_result(found.path, found.content)
        except UnsoundFileError as problem:
            self.fail(found.path, problem)
        except form.NotMeasuredError as reason:
            line = Line(
                *(self.name, found.path, "form", "not_checked", "form.not_measured"),
                {"status": reason.status},
            )
            self.lines.append(line)

    def _take_result(self, path: str, content: bytes) -> None:
        document = form.parse(content)
        numbers: Numbers = form.read_numbers(document)
        claim = form.read_claim(document)
        samples = form.read_samples(document)
        recorded = declared.of_record(claim) if claim else None
        declaration = recorded or declared.of_name(path)
        self.results[path] = Result(path, numbers, declaration, recorded, samples)
        self.lines.append(Line(self.name, path, "form", "pass", "form.pass"))

    def _take_declarations(self, path: str, content: bytes) -> None:
        runs = declared.read_runs_csv(content)
        for line_number, problem in runs.problems:
            params = {"line": str(line_number), **problem.params}
            self.lines.append(Line(self.name, path, "form", "fail", problem.code, params))
        folder = PurePosixPath(path).parent
        for file, declarations in runs.by_file.items():
            whole = str(folder / file)
            self.declared.setdefault(whole, []).extend((path, d) for d in declarations)

    def finish(self) -> Submission:
        for file, rows in self.declared.items():
            if file not in self.seen:
                missing = UnsoundFileError("form.row_missing", value=file)
                self.fail(rows[0][0], missing)
            elif file in self.results:
                result = self.results[file]
                first, *again = (declaration for _, declaration in rows)
                if first.device_name is None and result.recorded:
                    first = replace(first, device_name=result.recorded.device_name)
                if result.recorded and not result.recorded.gpu:
                    first = replace(first, gpu=False)
                self.results[file] = replace(result, declaration=first, declared_again=tuple(again))
        if not self.results and not self.lines:
            self.fail("", UnsoundFileError("form.nothing"))
        return Submission(self.name, tuple(self.results.values()), tuple(self.lines))


def read_submission(folder: str, name: str, device_name: str | None) -> Submission:
    """The submission in ``folder/name``; `device_name` is for what names no device itself."""
    reader = _Reader(name)
    for found in files_of(str(Path(folder, name))):
        reader.take(found)
    submission = reader.finish()
    named = {result.declaration.device_name for result in submission.results} - {None}
    # A submission is of one GPU: what one file names is the others' too.
    device = named.pop() if len(named) == 1 else (None if named else device_name)
    results = tuple(
        replace(result, declaration=_on(result.declaration, device))
        for result in submission.results
    )
    return replace(submission, results=results, device_name=device)


def _on(declaration: Declaration, device_name: str | None) -> Declaration:
    return replace(declaration, device_name=declaration.device_name or device_name)


def _not_graded(folder: str, problem: UnsoundFileError) -> GradingError:
    reason = ": ".join(problem.params.values())
    return GradingError(f"config: submissions: {folder} cannot be graded: {reason}")


def loose_files(folder: str) -> list[Line]:
    """A line, of no submission, for each file that lies beside the submissions."""
    try:
        names = loose_files_in(folder)
    except UnsoundFileError as problem:
        raise _not_graded(folder, problem) from problem
    return [Line("", name, "form", "warn", "form.loose") for name in names]


def read_submissions(folder: str, device_name: str | None) -> dict[str, Submission]:
    """All submissions of a folder by name; GradingError where it has none or cannot be listed."""
    try:
        names = submissions_in(folder)
    except UnsoundFileError as problem:
        raise _not_graded(folder, problem) from problem
    if not names:
        raise GradingError(f"{folder} has no subfolders; each submission is one")
    return {name: read_submission(folder, name, device_name) for name in names}
