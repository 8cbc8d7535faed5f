"""Reading files that others have made: bounded, regular, unchanged, and never followed.

Nothing of a submission is trusted: a name may be a symbolic link, a FIFO or a device, a file may
be huge or change while it is read, a folder may be deep or hold more than anyone would hand in.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

MAX_FILE_BYTES = 4 * 1024**2
"""Most bytes of a file; a record with all its samples takes about 0.15 MiB."""

MAX_FILES = 10_000
"""Most files of one submission that are graded."""

MAX_ENTRIES = 100_000
"""Most names of one submission that are looked at."""

MAX_DEPTH = 8
"""Most folders within one another."""

MAX_SUBMISSIONS = 2_000

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = _FLAGS | os.O_DIRECTORY


class UnsoundFileError(Exception):
    """A file that is not read; `code` is the message's key, `params` what is set into it."""

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params


@dataclass(frozen=True)
class Found:
    """A file of a submission: its path within, and its bytes or why they were not read."""

    path: str
    content: bytes | None
    problem: UnsoundFileError | None = None


def _unchanged(before: os.stat_result, after: os.stat_result, length: int) -> bool:
    same = ("st_ino", "st_dev", "st_size", "st_mtime_ns", "st_ctime_ns")
    return all(getattr(before, name) == getattr(after, name) for name in same) and (
        length == before.st_size
    )


def read_bounded(name: str, folder: int | None = None, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file of at most `most` bytes, in the open folder `folder`.

    UnsoundFileError for a symbolic link, anything that is no regular file, one that is too large,
    cannot be read, or changes meanwhile. Opening never waits, so that a FIFO holds nobody up.
    """
    try:
        # Opening a device may already do something, so what is no file is not opened at all.
        _refuse_special(os.stat(name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(name, _FLAGS, dir_fd=folder)
    except OSError as error:
        raise UnsoundFileError("form.unreadable", reason=error.strerror or "") from error
    try:
        before = os.fstat(descriptor)
        _refuse_special(before)
        if before.st_size > most:
            raise UnsoundFileError("form.too_large", size=str(before.st_size), most=str(most))
        content = bytearray()
        while len(content) <= before.st_size:  # one byte more tells that it has grown
            part = os.read(descriptor, before.st_size + 1 - len(content))
            if not part:
                break
            content += part
        if not _unchanged(before, os.fstat(descriptor), len(content)):
            raise UnsoundFileError("form.changed")
        return bytes(content)
    except OSError as error:
        raise UnsoundFileError("form.unreadable", reason=error.strerror or "") from error
    finally:
        os.close(descriptor)


def _refuse_special(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UnsoundFileError("form.link")
    if not stat.S_ISREG(status.st_mode):
        raise UnsoundFileError("form.special")


def _looks_like_a_result(content: bytes) -> bool:
    """Whether a file of any name holds JSON of the course's script, by how it begins."""
    return content[:64].lstrip().startswith(b"{") and b'"forward"' in content[:4096]


def is_declared_name(name: str) -> bool:
    """Whether a file is read whatever it holds: results end in .json, and there is runs.csv."""
    return name.lower().endswith(".json") or name == "runs.csv"


def _begins_like_a_result(name: str, folder: int) -> bool:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        descriptor = os.open(name, _FLAGS, dir_fd=folder)
    except OSError:
        return False
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return regular and _looks_like_a_result(os.read(descriptor, 4096))
    except OSError:
        return False
    finally:
        os.close(descriptor)


@dataclass
class _Budget:
    entries: int = MAX_ENTRIES
    files: int = MAX_FILES


def _files_in(folder: int, prefix: str, depth: int, left: _Budget) -> Iterator[Found]:
    with os.scandir(folder) as scanned:
        entries = []
        for entry in scanned:
            if left.entries == 0:
                yield Found(prefix, None, UnsoundFileError("form.too_many", most=str(MAX_ENTRIES)))
                break
            left.entries -= 1
            if not entry.name.startswith("."):  # what tools leave: ._x.json, .ipynb_checkpoints
                entries.append((entry.name, entry.is_dir(follow_symlinks=False)))
    for name, is_folder in sorted(entries):
        path = prefix + name
        if is_folder:
            yield from _folder_in(name, folder, path, depth, left)
        elif is_declared_name(name) or _begins_like_a_result(name, folder):
            if left.files == 0:
                yield Found(path, None, UnsoundFileError("form.too_many", most=str(MAX_FILES)))
                left.files -= 1
            if left.files < 0:
                return
            left.files -= 1
            try:
                yield Found(path, read_bounded(name, folder))
            except UnsoundFileError as problem:
                yield Found(path, None, problem)


def _folder_in(name: str, parent: int, path: str, depth: int, left: _Budget) -> Iterator[Found]:
    if name == "__MACOSX":
        return
    if depth == MAX_DEPTH:
        yield Found(path, None, UnsoundFileError("form.too_deep", most=str(MAX_DEPTH)))
        return
    try:
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        problem = UnsoundFileError("form.unreadable", reason=error.strerror or "")
        yield Found(path, None, problem)
        return
    try:
        yield from _files_in(folder, f"{path}/", depth + 1, left)
    finally:
        os.close(folder)


def files_of(folder: str) -> Iterator[Found]:
    """Every result file and ``runs.csv`` of the submission in `folder`, in the order of its names.

    Results are the files that end in ``.json``, and any other that begins as one; what begins with
    a full stop is passed over. Symbolic links are named and never followed. Each file is read when
    the iterator reaches it.
    """
    try:
        opened = os.open(folder, _FOLDER_FLAGS)
    except OSError as error:
        code = "form.link" if os.path.islink(folder) else "form.unreadable"
        yield Found("", None, UnsoundFileError(code, reason=error.strerror or ""))
        return
    try:
        yield from _files_in(opened, "", 0, _Budget())
    finally:
        os.close(opened)


def loose_files_in(folder: str) -> list[str]:
    """The names of the files beside the submissions, in order; at most `MAX_FILES`.

    UnsoundFileError where the folder cannot be listed.
    """
    try:
        with os.scandir(folder) as scanned:
            names = (
                entry.name
                for entry in scanned
                if not entry.name.startswith(".") and not entry.is_dir() and not entry.is_symlink()
            )
            return sorted(itertools.islice(names, MAX_FILES))
    except OSError as error:
        raise UnsoundFileError("form.unreadable", reason=error.strerror or "") from error


def submissions_in(folder: str) -> list[str]:
    """The names of the subfolders, links among them, in order; at most `MAX_SUBMISSIONS`.

    UnsoundFileError where the folder cannot be listed or holds more.
    """
    try:
        with os.scandir(folder) as scanned:
            names = sorted(
                entry.name
                for entry in scanned
                if not entry.name.startswith(".") and (entry.is_dir() or entry.is_symlink())
            )
    except OSError as error:
        raise UnsoundFileError("form.unreadable", reason=error.strerror or "") from error
    if len(names) > MAX_SUBMISSIONS:
        raise UnsoundFileError("form.too_many", most=str(MAX_SUBMISSIONS))
    return names
