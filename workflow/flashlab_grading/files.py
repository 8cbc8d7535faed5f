"""The files of a submission, found within bounds and without following links.

Nothing of a submission is trusted: a folder may be deep, or hold more than anyone would hand in.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from flashlab.course import RUNS_CSV
from flashlab.untrusted import FOLDER_FLAGS, UnsoundFileError, opened, read_bounded, readable
from flashlab_grading.archives import (
    MAX_ARCHIVE_BYTES,
    REPORT,
    is_archive,
    members_of,
    read_member,
    without_suffix,
)
from flashlab_grading.model import GradingError

MAX_FILES = 10_000
"""Most files of one submission that are graded."""

MAX_ENTRIES = 100_000
"""Most directory entries of one submission that are looked at."""

MAX_DEPTH = 8
"""Most levels of nested folders."""

MAX_BYTES = 128 * 1024**2
"""Most bytes of one submission that are read; the lab's 36 records have 5 MiB at most."""

MAX_SUBMISSIONS = 2_000

BEGIN = 4096
"""Bytes by which a file that is not named like one shows that it is a result."""

LEFT_BY_TOOLS = "__MACOSX"
"""A folder that macOS puts into zip files."""


Found = tuple[str, bytes | UnsoundFileError]
"""A file of a submission: its relative path, and its bytes or why they were not read."""


class _Enough(Exception):
    """A submission is read no further: the path of what was too much, and why."""


@dataclass
class _Budget:
    """What is left to read of a submission; `_Enough` where it does not suffice."""

    entries: int = MAX_ENTRIES
    files: int = MAX_FILES
    size: int = MAX_BYTES

    def look(self, path: str) -> None:
        """Count an entry of the folder or archive at `path`."""
        if self.entries == 0:
            raise _Enough(path, UnsoundFileError("form.too_many", most=str(MAX_ENTRIES)))
        self.entries -= 1

    def take(self, path: str, read: Callable[[], bytes]) -> Found:
        """The file at `path`."""
        for left, code, most in (
            (self.files, "form.too_many", MAX_FILES),
            (self.size, "form.too_many_bytes", MAX_BYTES),
        ):
            if left <= 0:
                raise _Enough(path, UnsoundFileError(code, most=str(most)))
        self.files -= 1
        try:
            content = read()
        except UnsoundFileError as problem:
            return path, problem
        self.size -= len(content)
        return path, content


def _is_result(name: str, begin: Callable[[], bytes]) -> bool:
    """Whether a file is read: by its name, or because it begins like JSON of the script."""
    if name.lower().endswith(".json") or name.lower() == RUNS_CSV:
        return True
    if name.lower().endswith(".ipynb"):
        return False
    try:
        content = begin()
    except Exception:  # a damaged or special file that nobody has to read
        return False
    return content[:64].lstrip().startswith(b"{") and b'"forward"' in content


def _begin(name: str, folder: int) -> bytes:
    """The first bytes of a regular file, whatever its size."""
    with opened(name, folder) as descriptor:
        return os.read(descriptor, BEGIN)


def _files_in_archive(
    path: str, read: Callable[[], bytes], left: _Budget, depth: int
) -> Iterator[Found]:
    """The results and ``runs.csv`` files in an archive, each under the archive's path."""
    try:
        for member in members_of(path, read()):
            parts = PurePosixPath(member.path).parts
            inner, name = f"{path}/{member.path}", parts[-1] if parts else ""
            hidden = LEFT_BY_TOOLS in parts or any(part.startswith(".") for part in parts)
            problem = member.problem
            if hidden and problem is None:
                continue
            left.look(path)
            if problem is None and len(parts) + depth > MAX_DEPTH:
                problem = UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
            elif problem is None and is_archive(name) and not name.lower().endswith(REPORT):
                problem = UnsoundFileError("form.archive_nested")
            if problem is not None:
                yield inner, problem
            elif _is_result(name, partial(member.read, BEGIN)):
                yield left.take(inner, partial(read_member, member))
    except UnsoundFileError as problem:
        # A PDF is a report with its data, or nothing that anybody asked for.
        if not path.lower().endswith(REPORT) or problem.code == "form.archive_damaged":
            yield path, problem


def _files_in(
    name: str, parent: int | None, prefix: str, depth: int, left: _Budget
) -> Iterator[Found]:
    """The same in a folder, which is opened and is no link."""
    try:
        folder = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        code = "form.link" if parent is None and os.path.islink(name) else "form.unreadable"
        reason = error.strerror or ""
        yield prefix.removesuffix("/"), UnsoundFileError(code, reason=reason)
        return
    try:
        entries = []
        with os.scandir(folder) as scanned:
            for entry in scanned:
                left.look(prefix)
                if not entry.name.startswith("."):  # what tools leave: ._x.json
                    entries.append((entry.name, entry.is_dir(follow_symlinks=False)))
        for name, is_folder in sorted(entries):
            path = prefix + name
            if is_folder and depth == MAX_DEPTH:
                yield path, UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
            elif is_folder and name != LEFT_BY_TOOLS:
                yield from _files_in(name, folder, f"{path}/", depth + 1, left)
            elif is_archive(name):
                read = partial(read_bounded, name, folder, MAX_ARCHIVE_BYTES)
                yield from _files_in_archive(path, read, left, depth)
            elif _is_result(name, partial(_begin, name, folder)):
                yield left.take(path, partial(read_bounded, name, folder))
    finally:
        os.close(folder)


def files_of(folder: str) -> Iterator[Found]:
    """Every result file and ``runs.csv`` of the submission in `folder`, sorted by name.

    `folder` may be an archive; archives in a folder are looked into as well.

    Results are the files whose names end in ``.json``, and any other that begins like one; names
    that begin with a full stop are ignored. Symbolic links are reported and never followed. Each
    file is read when the iterator reaches it.
    """
    try:
        if is_archive(folder) and not os.path.isdir(folder):
            read = partial(read_bounded, folder, None, MAX_ARCHIVE_BYTES)
            yield from _files_in_archive(os.path.basename(folder), read, _Budget(), 0)
        else:
            yield from _files_in(folder, None, "", 0, _Budget())
    except _Enough as enough:
        path, problem = enough.args
        yield path, problem


def find_submissions(folder: str) -> tuple[list[str], list[str]]:
    """The submissions in a class's folder and the loose files beside them, sorted.

    A submission is a subfolder, a symbolic link (which is reported and not followed), or an archive
    where no folder has its name. Of loose files at most `MAX_FILES` are named.

    GradingError where the folder cannot be listed, or has none, or more than `MAX_SUBMISSIONS`.
    """
    folders: list[str] = []
    archives: list[str] = []
    loose: list[str] = []
    try:
        with readable(), os.scandir(folder) as scanned:
            for entry in itertools.islice(scanned, MAX_ENTRIES):
                if entry.name.startswith(".") or entry.name == LEFT_BY_TOOLS:
                    continue
                if entry.is_dir() or entry.is_symlink():
                    folders.append(entry.name)
                else:
                    (archives if is_archive(entry.name) else loose).append(entry.name)
        # An archive beside the folder that it was unpacked to would be that folder's copy.
        beside = {name for name in archives if without_suffix(name) in folders}
        submissions = [*folders, *(name for name in archives if name not in beside)]
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
    return sorted(submissions), sorted([*loose, *beside])[:MAX_FILES]
