"""A folder of results: its files, each with its declaration.

Importing, `selfcheck` and grading read a folder here, so that all of them see the same.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from unicodedata import normalize

from flashlab.course.declaration import (
    Declaration,
    DeclaredFile,
    of_cells,
    of_name,
    of_record,
    of_row,
)
from flashlab.course.files import Found, documents_in
from flashlab.course.results import (
    Claim,
    CourseResult,
    NotAResultError,
    NotMeasuredError,
    result_of,
)
from flashlab.course.runs_csv import OUT_OF_MEMORY, RUNS_CSV, DeclaredRun, read_runs_csv
from flashlab.untrusted import UnsoundFileError


@dataclass(frozen=True)
class CourseFile(DeclaredFile):
    """A result as it was read, and all that declares it.

    `path` is the file in the folder, whose hash is `sha256`; its name goes on where it is one of
    several results in that file. `recorded` is what its own ``record``, or what stands beside its
    numbers, states of the run, and `rows` are the rows of ``runs.csv`` for it.
    """

    read: CourseResult = field(kw_only=True)
    path: str = field(kw_only=True)
    sha256: str = field(kw_only=True)
    recorded: Declaration | None = None
    rows: tuple[Declaration, ...] = ()

    @property
    def declared_again(self) -> tuple[Declaration, ...]:
        """The further rows of ``runs.csv`` that contradict the first."""
        return tuple(row for row in self.rows[1:] if row.contradicts(self.rows[0]))


@dataclass(frozen=True)
class Remark:
    """A note on a file for its reader: the reason that it is refused, or how it was read.

    `code` is the key of its message in ``templates/labels/course.toml``.
    """

    file: str
    code: str
    params: Mapping[str, str] = field(default_factory=dict)
    is_refusal: bool = False

    @property
    def text(self) -> str:
        """Its message in English."""
        return str(UnsoundFileError(self.code, **self.params))


@dataclass(frozen=True)
class CourseFolder:
    """The results of a folder by their paths, and the remarks on it.

    `failed` are records without numbers, by their paths: their status and claim. `out_of_memory`
    are the rows of ``runs.csv`` that declare such runs.
    """

    files: dict[str, CourseFile] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    failed: dict[str, tuple[str, Claim | None]] = field(default_factory=dict)
    out_of_memory: list[DeclaredRun] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)


class _Reader:
    """Collects one folder; runs.csv may come after the files that it declares."""

    def __init__(self) -> None:
        self.folder = CourseFolder()
        self.seen: dict[str, list[str]] = defaultdict(list)
        self.declared: dict[str, list[tuple[str, DeclaredRun]]] = {}
        self.others: list[str] = []

    def refuse(self, file: str, problem: UnsoundFileError) -> None:
        self.folder.remarks.append(Remark(file, problem.code, problem.params, is_refusal=True))

    def note(self, file: str, code: str, **params: str) -> None:
        self.folder.remarks.append(Remark(file, code, params))

    def see(self, path: str) -> None:
        """Note a file that rows can name: macOS decomposes a name's letters, and tables do not."""
        self.seen[normalize("NFC", path)].append(path)

    def take(self, path: str, content: bytes | UnsoundFileError) -> None:
        self.see(path)
        try:
            if isinstance(content, UnsoundFileError):
                raise content
            if PurePosixPath(path).name.lower() == RUNS_CSV:
                self._take_declarations(path, content)
                return
            documents = documents_in(path, content)
        except UnsoundFileError as problem:
            self.refuse(path, problem)
            return
        digest = hashlib.sha256(content).hexdigest()
        for name, document in documents.items():
            if name != path:
                self.see(name)
            try:
                self._take_result(name, result_of(document), path, digest)
            except NotAResultError:
                self.others.append(name)
            except UnsoundFileError as problem:
                self.refuse(name, problem)
            except NotMeasuredError as reason:
                self.folder.failed[name] = reason.status, reason.claim
                self.note(name, "form.not_measured", status=reason.status)

    def _take_result(self, name: str, read: CourseResult, path: str, digest: str) -> None:
        recorded, said = None, of_name(name)
        if read.claim:
            recorded = said = of_record(read.claim)
        elif beside := of_cells(read.stated):
            recorded, said = beside, beside.completed_by(said)
        self.folder.files[name] = CourseFile(
            *(name, read.numbers, said),
            recorded=recorded,
            read=read,
            path=path,
            sha256=digest,
        )
        self.note(name, "form.pass")
        for key, factor in read.converted.items():
            self.note(name, "form.converted", key=key, factor=factor)

    def _take_declarations(self, path: str, content: bytes) -> None:
        runs = read_runs_csv(content)
        self.folder.tables.append(path)
        for problem in runs.problems:
            self.refuse(path, problem)
        for code in runs.notes:
            self.note(path, code)
        folder = PurePosixPath(path).parent
        for row in runs.rows:
            if row.file == OUT_OF_MEMORY:
                self.folder.out_of_memory.append(row)
            else:
                file = normalize("NFC", str(folder / row.file))
                self.declared.setdefault(file, []).append((path, row))

    def finish(self) -> CourseFolder:
        files = self.folder.files
        for file, rows in self.declared.items():
            if file not in self.seen:
                table, row = rows[0]
                line = str(row.line)
                self.refuse(table, UnsoundFileError("form.row_missing", line=line, value=row.file))
            for name in files.keys() & {*self.seen.get(file, ())}:
                files[name] = _declared(files[name], [of_row(row) for _, row in rows])
        self._leave_out_doubles()
        for file in self.others:
            # Only a row of runs.csv makes it a result that is not one.
            if normalize("NFC", file) in self.declared:
                self.refuse(file, NotAResultError())
            else:
                self.note(file, "form.not_a_result")
        return self.folder

    def _leave_out_doubles(self) -> None:
        """Count a result once that is there twice, such as in a folder and in its report's PDF."""
        seen: dict[str, str] = {}
        for name, file in list(self.folder.files.items()):
            stated = file.declaration.stated
            other = seen.setdefault(repr((file.numbers, file.read.samples, stated)), name)
            if other != name and stated:
                del self.folder.files[name]
                self.note(name, "form.double", other=other)


def _declared(file: CourseFile, rows: Sequence[Declaration]) -> CourseFile:
    """The file with its rows of runs.csv, the first of which completes its declaration."""
    said = rows[0].completed_by(file.declaration)
    if file.recorded:
        device = said.device_name or file.recorded.device_name
        said = replace(said, device_name=device, gpu=said.gpu and file.recorded.gpu)
    return replace(file, declaration=said, rows=tuple(rows))


def read_folder(files: Iterable[Found]) -> CourseFolder:
    """The folder that these files make; each file is read when the iterable reaches it."""
    reader = _Reader()
    for path, content in files:
        reader.take(path, content)
    return reader.finish()
