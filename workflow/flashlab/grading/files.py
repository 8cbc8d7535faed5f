"""The files of a submission, found within bounds and without following links.

Nothing of a submission is trusted: a folder may be deep, or hold more than anyone would hand in.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from flashlab.course import RUNS_CSV
from flashlab.untrusted import FOLDER_FLAGS, OPEN_FLAGS, UnsoundFileError, read_bounded

MAX_FILES = 10_000
"""Most files of one submission that are graded."""

MAX_ENTRIES = 100_000
"""Most directory entries of one submission that are looked at."""

MAX_DEPTH = 8
"""Most levels of nested folders."""

MAX_SUBMISSIONS = 2_000


@dataclass(frozen=True)
class Found:
    """A file of a submission: its relative path, and its bytes or why they were not read."""

    path: str
    content: bytes | None
    problem: UnsoundFileError | None = None


def _looks_like_a_result(content: bytes) -> bool:
    """Whether content begins like JSON of the course's script."""
    return content[:64].lstrip().startswith(b"{") and b'"forward"' in content[:4096]


def is_declared_name(name: str) -> bool:
    """Whether a file is read whatever is in it: results end in .json, and there is runs.csv."""
    return name.lower().endswith(".json") or name == RUNS_CSV


def _begins_like_a_result(name: str, folder: int) -> bool:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        descriptor = os.open(name, OPEN_FLAGS, dir_fd=folder)
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
        folder = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        problem = UnsoundFileError("form.unreadable", reason=error.strerror or "")
        yield Found(path, None, problem)
        return
    try:
        yield from _files_in(folder, f"{path}/", depth + 1, left)
    finally:
        os.close(folder)


def files_of(folder: str) -> Iterator[Found]:
    """Every result file and ``runs.csv`` of the submission in `folder`, sorted by name.

    Results are the files whose names end in ``.json``, and any other that begins like one; names
    that begin with a full stop are ignored. Symbolic links are reported and never followed. Each
    file is read when the iterator reaches it.
    """
    try:
        opened = os.open(folder, FOLDER_FLAGS)
    except OSError as error:
        code = "form.link" if os.path.islink(folder) else "form.unreadable"
        yield Found("", None, UnsoundFileError(code, reason=error.strerror or ""))
        return
    try:
        yield from _files_in(opened, "", 0, _Budget())
    finally:
        os.close(opened)


def loose_files_in(folder: str) -> list[str]:
    """The names of the files beside the submissions, sorted; at most `MAX_FILES`.

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
    """The names of the subfolders and of symbolic links, sorted; at most `MAX_SUBMISSIONS`.

    UnsoundFileError where the folder cannot be listed or has more.
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
