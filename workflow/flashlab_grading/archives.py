"""Archives that were handed in unopened: their members, within bounds, without writing any.

An archive may be a bomb, name files outside its folder, or hold links; its members are read into
memory one at a time and never extracted. A report's PDF is an archive of the attached records.
"""

from __future__ import annotations

import io
import json
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from flashlab.course.runs_csv import SPREADSHEETS
from flashlab.report.attached import CONFIG, RECORDS, parsed, read_records
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError
from flashlab_grading.report_pdf import UnsoundPdfError, attachments_of

MAX_ARCHIVE_BYTES = 32 * 1024**2
"""Largest archive that is opened."""

MAX_MEMBERS = 20_000

NAMES = ("utf-8", SPREADSHEETS)
"""What programs write the names in a zip file in, in Taiwan, and do not say so."""

REPORT = ".pdf"
OPENED = (".zip", REPORT)
UNKNOWN = (".7z", ".rar", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""What others unpack: a submission like that is named, not looked into."""


@dataclass(frozen=True)
class Member:
    """A file in an archive: its path, how to read its first bytes, and the size that it states.

    `problem` is why it is refused, if it is.
    """

    path: str
    read: Callable[[int], bytes]
    size: int
    problem: UnsoundFileError | None = None


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive, of a kind that can be opened or not."""
    return name.lower().endswith((*OPENED, *UNKNOWN))


def without_suffix(name: str) -> str:
    """An archive's name without what makes it one: ``ann.tar.gz`` is ann."""
    return re.sub(r"(\.tar)?\.[a-z0-9]+\Z", "", name, flags=re.IGNORECASE)


def _member(name: str, is_link: bool, read: Callable[[int], bytes], size: int) -> Member:
    path = PurePosixPath(name.replace("\\", "/"))
    drive = path.parts and re.match("[A-Za-z]:", path.parts[0])
    if path.is_absolute() or ".." in path.parts or drive or not path.parts:
        problem = UnsoundFileError("form.archive_path", value=name[:200])
        return Member(name, read, size, problem)
    return Member(str(path), read, size, UnsoundFileError("form.link") if is_link else None)


def _too_large(most: int) -> UnsoundFileError:
    return UnsoundFileError("form.too_large", size=f"> {most}", most=str(most))


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    if info.flag_bits & 0x1:
        raise UnsoundFileError("form.unreadable", reason="encrypted")
    with archive.open(info) as file:
        return file.read(most)


def _opened_zip(content: bytes) -> zipfile.ZipFile:
    """The archive, its names decoded as the first of `NAMES` that all of them can be.

    Where they say themselves that they are UTF-8, they are that.
    """
    for encoding in NAMES:
        with suppress(UnicodeDecodeError):
            return zipfile.ZipFile(io.BytesIO(content), metadata_encoding=encoding)
    return zipfile.ZipFile(io.BytesIO(content))


def _zip_members(content: bytes) -> Iterator[Member]:
    with _opened_zip(content) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                is_link = stat.S_ISLNK(info.external_attr >> 16)
                read = partial(_read_zipped, archive, info)
                yield _member(info.filename, is_link, read, info.file_size)


def _report_members(content: bytes) -> Iterator[Member]:
    """The records of a report on attention; none of any other PDF, which is no fault."""
    try:
        attachments = attachments_of(content)
    except UnsoundPdfError:
        return
    if not {CONFIG, RECORDS} <= attachments.keys():
        return
    config = parsed(attachments[CONFIG], CONFIG)
    if isinstance(config, dict) and config.get("benchmark", "attention") == "attention":
        for name, record in read_records(attachments).items():
            text = json.dumps(record).encode()
            yield _member(name, False, io.BytesIO(text).read, len(text))


def members_of(name: str, content: bytes) -> Iterator[Member]:
    """The files in an archive, in its own order; at most `MAX_MEMBERS`.

    UnsoundFileError where it is of an unknown kind, damaged, or expands beyond bounds.
    """
    lower = name.lower()
    if not lower.endswith(OPENED):
        raise UnsoundFileError("form.archive_unknown")
    members = _report_members if lower.endswith(REPORT) else _zip_members
    with _damage():
        for count, member in enumerate(members(content)):
            if count == MAX_MEMBERS:
                raise UnsoundFileError("form.too_many", most=str(MAX_MEMBERS))
            yield member


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


def read_member(member: Member) -> bytes:
    """The bytes of a member; UnsoundFileError where it is too large or cannot be read.

    One that states its size is refused unread.
    """
    if not 0 <= member.size <= MAX_FILE_BYTES:
        raise _too_large(MAX_FILE_BYTES)
    with _damage():
        content = member.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(MAX_FILE_BYTES)
    return content
