"""From a submission's folder or archive to its results, each with what is said of it.

An archive may be a bomb, name files outside its folder, or hold links: its members are read within
bounds, and only regular files are written, one by one, to a folder that is removed again. A
report's PDF is an archive of the attached records.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from flashlab.lab5.documents import MAX_BYTES, MAX_ENTRIES, MAX_FILES, SPREADSHEETS
from flashlab.lab5.results import Folder, Result, read_folder
from flashlab.report.attached import CONFIG, RECORDS, parsed, read_records
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, read_bounded, readable
from flashlab_grading.model import GradingError, Line, Submission, is_same_device
from flashlab_grading.recorded import is_shipped
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of

MAX_SUBMISSIONS, MAX_ARCHIVE_BYTES = 2_000, 2**25
ZIP, REPORT, LEFT_BY_TOOLS = ".zip", ".pdf", "__MACOSX"
UNKNOWN = (".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Archives that others unpack: a submission like that is named, not looked into."""

WARNED = ("form.archive_unknown", "form.archive_nested", "form.not_utf8")
"""Problems of form that are nobody's fault: a person has to open these files."""

SHIPPED = ""
"""In place of the keys of a file that is ignored: it is the project's own."""

Member = tuple[str, bytes | UnsoundFileError]
"""The path in an archive of a file, and its bytes or why they were not read."""


def is_archive(name: str) -> bool:
    """True for a file named like an archive, of a kind that can be opened or not."""
    return name.lower().endswith((ZIP, REPORT, *UNKNOWN))


@contextmanager
def _damage() -> Iterator[None]:
    """UnsoundFileError in place of whatever the libraries make of hostile bytes."""
    try:
        yield
    except (UnsoundFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(error)[:200] or type(error).__name__
        raise UnsoundFileError("form.archive_damaged", reason=reason) from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: PurePosixPath) -> bytes:
    """The bytes of a member; UnsoundFileError for one that is no file of a submission's own."""
    has_drive = path.parts and re.match("[A-Za-z]:", path.parts[0])
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        raise UnsoundFileError("form.archive_path", value=info.filename[:200])
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UnsoundFileError("form.link")
    if is_archive(path.name) and not path.name.lower().endswith(REPORT):
        raise UnsoundFileError("form.archive_nested")
    if info.file_size > MAX_FILE_BYTES:  # the size that it states is the most that is read of it
        size, most = f"> {MAX_FILE_BYTES}", str(MAX_FILE_BYTES)
        raise UnsoundFileError("form.too_large", size=size, most=most)
    with _damage(), archive.open(info) as file:
        return file.read(MAX_FILE_BYTES)


def _in_zip(content: bytes) -> Iterator[Member]:
    """The files in a zip, with their names in the encoding that all of them have."""
    with _damage():
        for encoding in ("utf-8", SPREADSHEETS, "cp437"):
            with suppress(UnicodeDecodeError):
                archive = zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
                break
    for info in itertools.islice(archive.infolist(), MAX_ENTRIES):
        path = PurePosixPath(info.filename.replace("\\", "/"))
        is_hidden = any(re.match(r"\.[^.]", part) or part == LEFT_BY_TOOLS for part in path.parts)
        if not info.is_dir() and not is_hidden:
            try:
                yield str(path), _member(archive, info, path)
            except UnsoundFileError as problem:
                yield info.filename, problem


def _in_report(content: bytes) -> Iterator[Member]:
    """The records of a report on attention; none of any other PDF, which is no fault."""
    with _damage(), suppress(UnsoundPdfError):
        attachments = attachments_of(content)
        if {CONFIG, RECORDS} <= attachments.keys():
            config = parsed(attachments[CONFIG], CONFIG)
            if isinstance(config, dict) and config.get("benchmark", "attention") == "attention":
                for name, record in read_records(attachments).items():
                    yield name, json.dumps(record).encode()


def _in_archive(path: Path) -> Iterator[Member]:
    if not path.name.lower().endswith((ZIP, REPORT)):
        raise UnsoundFileError("form.archive_unknown")
    content = read_bounded(str(path), most=MAX_ARCHIVE_BYTES)
    yield from (_in_zip if path.name.lower().endswith(ZIP) else _in_report)(content)


def _take_members(found: Folder, prefix: str, members: Iterable[Member]) -> None:
    """Add what is in an archive to `found`, under the archive's path."""
    size = 0
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        for count, (path, content) in enumerate(members):
            try:
                if isinstance(content, UnsoundFileError):
                    raise content
                size += len(content)
                if count >= MAX_FILES or size > MAX_BYTES:
                    raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
                with readable():
                    Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                    Path(folder, path).write_bytes(content)
            except ValueError:  # a NUL in its name
                value = path[:200]
                found.refused[f"{prefix}/{path}"] = UnsoundFileError(
                    "form.archive_path", value=value
                )
            except UnsoundFileError as problem:
                found.refused[f"{prefix}/{path}"] = problem
        _take_folder(found, f"{prefix}/", Path(folder))


def _take_folder(found: Folder, prefix: str, folder: Path) -> None:
    """Add what is in a folder to `found`, without the project's own files."""
    own = read_folder(folder)
    for name, result in own.results.items():
        path = f"{prefix}{result.path}"
        if is_shipped(path, Path(folder, result.path).read_bytes()):
            found.ignored[prefix + name] = SHIPPED
        else:
            found.results[prefix + name] = replace(result, name=prefix + name, path=path)
    found.refused |= {prefix + name: problem for name, problem in own.refused.items()}
    found.ignored |= {prefix + name: keys for name, keys in own.ignored.items()}
    found.contradicted |= {prefix + name: text for name, text in own.contradicted.items()}


def _read(path: Path) -> Folder:
    """Everything in a submission: a folder with the archives in it, or one archive."""
    found = Folder()
    if path.is_symlink():
        found.refused[""] = UnsoundFileError("form.link")
        return found
    archives = {path.name: path}
    if path.is_dir():
        _take_folder(found, "", path)
        walked = (Path(here, name) for here, _, names in os.walk(path) for name in sorted(names))
        archives = {own.relative_to(path).as_posix(): own for own in walked if is_archive(own.name)}
    for name, archive in archives.items():
        try:
            if not any(part[0] == "." or part == LEFT_BY_TOOLS for part in Path(name).parts):
                _take_members(found, name, _in_archive(archive))
        except UnsoundFileError as problem:
            # A PDF is a report with its data, or nothing that anybody asked for.
            if not name.lower().endswith(REPORT) or problem.code == "form.archive_damaged":
                found.refused[name] = problem
    return found


def _once(results: Iterable[Result]) -> tuple[list[Result], list[Line]]:
    """Each measurement once, such as of a folder and its copy, with a note on each further one."""
    first, lines = dict[str, Result](), list[Line]()
    for r in results:
        key = repr((r.said, r.seconds, r.rates, r.peak_mib, r.document.get("record")))
        if (other := first.setdefault(key, r)) is not r:
            lines.append(Line("pass", "form.double", r.name, {"other": other.name}))
    return [*first.values()], lines


def read_submission(folder: str, name: str, device: str | None) -> Submission:
    """The submission in ``folder/name``; `device` is used where it names none itself."""
    return _submission(name, _read(Path(folder, name)), device)


def read_report(content: bytes) -> Submission:
    """The records attached to a report's PDF, as a submission."""
    found = Folder()
    _take_members(found, "report.pdf", _in_report(content))
    return _submission("report", found, None)


def _submission(name: str, found: Folder, device: str | None) -> Submission:
    lines = [
        Line("warn" if problem.code in WARNED else "fail", problem.code, file, problem.params)
        for file, problem in found.refused.items()
    ]
    ignored = [file for file, keys in found.ignored.items() if keys != SHIPPED]
    lines += [Line("pass", "form.not_a_result", file) for file in ignored]
    if shipped := len(found.ignored) - len(ignored):
        lines.append(Line("pass", "form.shipped", params={"count": str(shipped)}))
    for file, result in found.results.items():
        code = "pass" if result.status == "ok" else "not_measured"
        lines.append(Line("pass", f"form.{code}", file, {"status": result.status}))
        if file in found.contradicted:
            code = "record_differs" if result.run else "declared_twice"
            lines.append(Line("fail", f"identity.{code}", file, {}, "", found.contradicted[file]))
    measured = [result for result in found.results.values() if result.status == "ok"]
    if not found.results and not found.refused:
        lines.append(Line("fail", "form.nothing"))
    named = {result.said.get("device") for result in measured} - {None}
    for other in sorted(map(str, named)):
        if device is not None and not is_same_device(other, device):
            lines.append(Line("warn", "form.other_device", "", {"device": other}, device, other))
    # A submission comes from one GPU: the device that one file names is that of the others.
    device = named.pop() if len(named) == 1 else (None if named else device)
    of_device = {"device": device} if device else {}
    results, notes = _once(replace(r, said={**of_device, **r.said}) for r in measured)
    return Submission(name, results, lines + notes, device, [*found.contradicted])


def find_submissions(folder: str) -> tuple[list[str], list[str]]:
    """The submissions in a class's folder and the loose files beside them, sorted.

    A submission is a subfolder, a symbolic link (which is reported and not followed), or an archive
    where no folder has its name. Of loose files at most `MAX_FILES` are named.

    GradingError where the folder cannot be listed, or has none, or more than `MAX_SUBMISSIONS`.
    """
    try:
        with readable(), os.scandir(folder) as scanned:
            found = {
                entry.name: entry.is_dir() or entry.is_symlink()
                for entry in itertools.islice(scanned, MAX_ENTRIES)
                if not entry.name.startswith(".") and entry.name != LEFT_BY_TOOLS
            }
        # An archive beside the folder that it was unpacked to would be that folder's copy.
        names = {name: re.sub(r"(?i)(\.tar)?\.[a-z0-9]+\Z", "", name) for name in found}
        submissions = {n for n in found if found[n] or (is_archive(n) and not found.get(names[n]))}
        if len(submissions) > MAX_SUBMISSIONS:
            raise UnsoundFileError("form.too_many", most=str(MAX_SUBMISSIONS))
    except UnsoundFileError as problem:
        text = f"config: submissions: {folder} cannot be graded: {problem}"
        raise GradingError(text) from problem
    if not submissions:
        raise GradingError(
            f"{folder} has no subfolders; each submission is one. To check a single submission: "
            f"./run selfcheck {folder}"
        )
    return sorted(submissions), sorted(found.keys() - submissions)[:MAX_FILES]
