"""The files of a submission, found within bounds and without following links.

Nothing of a submission is trusted: a folder may be deep, or hold more than anyone would hand in.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
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
from flashlab.untrusted import UnsoundFileError, read_bounded, readable
from flashlab_grading.archives import (
    MAX_ARCHIVE_BYTES,
    REPORT,
    is_archive,
    members_of,
    read_member,
    without_suffix,
)
from flashlab_grading.model import GradingError

MAX_SUBMISSIONS = 2_000


def _files_in_archive(
    path: str, read: Callable[[], bytes], left: Budget, depth: int
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
            elif is_result(name, partial(member.read, BEGIN)):
                yield left.take(inner, partial(read_member, member))
    except UnsoundFileError as problem:
        # A PDF is a report with its data, or nothing that anybody asked for.
        if not path.lower().endswith(REPORT) or problem.code == "form.archive_damaged":
            yield path, problem


def _enter(path: str, name: str, folder: int, left: Budget, depth: int) -> Iterator[Found] | None:
    if not is_archive(name):
        return None
    read = partial(read_bounded, name, folder, MAX_ARCHIVE_BYTES)
    return _files_in_archive(path, read, left, depth)


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
            yield from _files_in_archive(os.path.basename(folder), read, Budget(), 0)
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
