"""The files of a submission, also in zip files and reports, found within bounds.

An archive may be a bomb, name files outside its folder, or hold links: its members are read into
memory one at a time and never extracted. A report's PDF is an archive of the attached records.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import PurePosixPath

from flashlab.course.files import (
    BEGIN,
    LEFT_BY_TOOLS,
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_FILES,
    Budget,
    EnoughReadError,
    Found,
    files_in,
    is_result,
)
from flashlab.course.runs_csv import SPREADSHEETS
from flashlab.report.attached import CONFIG, RECORDS, parsed, read_records
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, read_bounded, readable
from flashlab_grading.model import GradingError
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of

MAX_SUBMISSIONS, MAX_ARCHIVE_BYTES = 2_000, 2**25

NAMES = ("utf-8", SPREADSHEETS)
"""Encodings in which programs in Taiwan write the names in a zip file, and do not say so."""

ZIP, REPORT = ".zip", ".pdf"
UNKNOWN = (".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Archives that others unpack: a submission like that is named, not looked into."""


def is_archive(name: str) -> bool:
    """True for a file named like an archive, of a kind that can be opened or not."""
    return name.lower().endswith((ZIP, REPORT, *UNKNOWN))


def without_suffix(name: str) -> str:
    """An archive's name without what makes it one: ``ann.tar.gz`` is ann."""
    return re.sub(r"(\.tar)?\.[a-z0-9]+\Z", "", name, flags=re.IGNORECASE)


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


def _opened_zip(content: bytes) -> zipfile.ZipFile:
    """The archive, its names decoded as the first of `NAMES` that all of them can be."""
    with _damage():
        for encoding in NAMES:
            with suppress(UnicodeDecodeError):
                return zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
        return zipfile.ZipFile(io.BytesIO(content))


def _begin_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    if info.flag_bits & 0x1:
        raise UnsoundFileError("form.unreadable", reason="encrypted")
    with _damage(), archive.open(info) as file:
        return file.read(most)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member; one that states too large a size is refused unread."""
    content = b""
    if info.file_size <= MAX_FILE_BYTES:
        content = _begin_of(archive, info, MAX_FILE_BYTES + 1)
    if max(info.file_size, len(content)) > MAX_FILE_BYTES:
        most = str(MAX_FILE_BYTES)
        raise UnsoundFileError("form.too_large", size=f"> {most}", most=most)
    return content


def _refusal(info: zipfile.ZipInfo, path: PurePosixPath, depth: int) -> UnsoundFileError | None:
    """The reason why a member is not read, if there is one."""
    has_drive = path.parts and re.match("[A-Za-z]:", path.parts[0])
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        return UnsoundFileError("form.archive_path", value=info.filename[:200])
    if stat.S_ISLNK(info.external_attr >> 16):
        return UnsoundFileError("form.link")
    if len(path.parts) + depth > MAX_DEPTH:
        return UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
    if is_archive(path.name) and not path.name.lower().endswith(REPORT):
        return UnsoundFileError("form.archive_nested")
    return None


def _in_zip(path: str, content: bytes, left: Budget, depth: int) -> Iterator[Found]:
    archive = _opened_zip(content)
    for info in (info for info in archive.infolist() if not info.is_dir()):
        inner = PurePosixPath(info.filename.replace("\\", "/"))
        problem = _refusal(info, inner, depth)
        is_hidden = any(part == LEFT_BY_TOOLS or part.startswith(".") for part in inner.parts)
        if is_hidden and (problem is None or problem.code != "form.archive_path"):
            continue
        left.look(path)
        if problem is not None:
            yield f"{path}/{info.filename}", problem
        elif is_result(inner.name, partial(_begin_of, archive, info, BEGIN)):
            yield left.take(f"{path}/{inner}", partial(_member, archive, info))


def records_of(content: bytes) -> dict[str, bytes]:
    """The records of a report on attention; none of any other PDF, which is no fault."""
    with _damage():
        try:
            attachments = attachments_of(content)
        except UnsoundPdfError:
            return {}
        if not {CONFIG, RECORDS} <= attachments.keys():
            return {}
        config = parsed(attachments[CONFIG], CONFIG)
        if not isinstance(config, dict) or config.get("benchmark", "attention") != "attention":
            return {}
        records = read_records(attachments)
        return {name: json.dumps(record).encode() for name, record in records.items()}


def _in_archive(
    path: str, read: Callable[[], bytes], left: Budget, depth: int = 0
) -> Iterator[Found]:
    """The results and ``runs.csv`` files in an archive, each under the archive's path."""
    suffix = os.path.splitext(path)[1].lower()
    try:
        if suffix == REPORT:
            for name, record in records_of(read()).items():
                left.look(path)
                yield left.take(f"{path}/{name}", partial(bytes, record))
        elif suffix == ZIP:
            yield from _in_zip(path, read(), left, depth)
        else:
            raise UnsoundFileError("form.archive_unknown")
    except UnsoundFileError as problem:
        # A PDF is a report with its data, or nothing that anybody asked for.
        if suffix != REPORT or problem.code == "form.archive_damaged":
            yield path, problem


def _enter(path: str, name: str, folder: int, left: Budget, depth: int) -> Iterator[Found] | None:
    if not is_archive(name):
        return None
    return _in_archive(path, partial(read_bounded, name, folder, MAX_ARCHIVE_BYTES), left, depth)


def files_of(folder: str) -> Iterator[Found]:
    """Every result file and ``runs.csv`` of the submission in a folder or archive (`files_in`)."""
    try:
        if is_archive(folder) and not os.path.isdir(folder):
            read = partial(read_bounded, folder, None, MAX_ARCHIVE_BYTES)
            yield from _in_archive(os.path.basename(folder), read, Budget())
        else:
            yield from files_in(folder, Budget(), _enter)
    except EnoughReadError as enough:
        path, problem = enough.args
        yield path, problem


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
        folders = {name for name, is_folder in found.items() if is_folder}
        archives = {name for name in found.keys() - folders if is_archive(name)}
        # An archive beside the folder that it was unpacked to would be that folder's copy.
        submissions = folders | {name for name in archives if without_suffix(name) not in folders}
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
