"""The files of somebody's folder, found within bounds and without following links.

Nothing in it is trusted: a folder may be deep, or hold more than anyone would hand in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from flashlab.course.layouts import is_table_of_results
from flashlab.course.runs_csv import RUNS_CSV
from flashlab.untrusted import FOLDER_FLAGS, UnsoundFileError, opened, read_bounded

MAX_FILES = 10_000
"""Most files of one submission that are graded."""

MAX_ENTRIES = 100_000
"""Most directory entries of one submission that are listed."""

MAX_DEPTH = 8
"""Most levels of nested folders."""

MAX_BYTES = 128 * 1024**2
"""Most bytes of one submission that are read; the lab's 36 records have 5 MiB at most."""

BEGIN = 4096
"""Bytes that are read of a file whose name is not a result's, to see if it is one."""

LEFT_BY_TOOLS = "__MACOSX"
"""A folder that macOS puts into zip files."""


Found = tuple[str, bytes | UnsoundFileError]
"""A file of a submission: its relative path, and its bytes or why they were not read."""


class EnoughReadError(Exception):
    """A submission that exceeds a limit: the path at which it does, and which limit."""


@dataclass
class Budget:
    """The entries, files and bytes that may still be read; `EnoughReadError` beyond them."""

    entries: int = MAX_ENTRIES
    files: int = MAX_FILES
    size: int = MAX_BYTES

    def look(self, path: str) -> None:
        """Count an entry of the folder or archive at `path`."""
        if self.entries == 0:
            raise EnoughReadError(path, UnsoundFileError("form.too_many", most=str(MAX_ENTRIES)))
        self.entries -= 1

    def take(self, path: str, read: Callable[[], bytes]) -> Found:
        """The file at `path`."""
        for left, code, most in (
            (self.files, "form.too_many", MAX_FILES),
            (self.size, "form.too_many_bytes", MAX_BYTES),
        ):
            if left <= 0:
                raise EnoughReadError(path, UnsoundFileError(code, most=str(most)))
        self.files -= 1
        try:
            content = read()
        except UnsoundFileError as problem:
            return path, problem
        self.size -= len(content)
        return path, content


def is_result(name: str, begin: Callable[[], bytes]) -> bool:
    """True if a file is to be read: by its name, or because it begins like the script's JSON."""
    if name.lower().endswith(".json") or name.lower() == RUNS_CSV:
        return True
    if name.lower().endswith(".ipynb"):
        return False
    try:
        content = begin()
    except Exception:  # a damaged or special file that nobody has to read
        return False
    if name.lower().endswith(".csv"):
        return is_table_of_results(content)
    return content[:64].lstrip().startswith(b"{") and b'"forward"' in content


def _begin(name: str, folder: int) -> bytes:
    """The first bytes of a regular file, whatever its size."""
    with opened(name, folder) as descriptor:
        return os.read(descriptor, BEGIN)


Enter = Callable[[str, str, int, Budget, int], Iterator[Found] | None]
"""A function that yields the files in an archive, or returns None for a file that is none. It takes
the path, the name in the open folder, that folder's descriptor, the budget and the depth."""


def _no_archives(path: str, name: str, folder: int, left: Budget, depth: int) -> None:
    return None


def files_in(
    name: str,
    left: Budget,
    enter: Enter = _no_archives,
    parent: int | None = None,
    prefix: str = "",
    depth: int = 0,
) -> Iterator[Found]:
    """Every result file and ``runs.csv`` in a folder that is no link, sorted by name.

    Results are the files whose names end in ``.json``, tables of results in CSV, and any other that
    begins like one of the script's; names that begin with a full stop are ignored. Symbolic links
    are reported and never followed. Each file is read when the iterator reaches it.

    EnoughReadError where there is more than `left`.
    """
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
                yield from files_in(name, left, enter, folder, f"{path}/", depth + 1)
            elif (inside := enter(path, name, folder, left, depth)) is not None:
                yield from inside
            elif is_result(name, partial(_begin, name, folder)):
                yield left.take(path, partial(read_bounded, name, folder))
    finally:
        os.close(folder)
