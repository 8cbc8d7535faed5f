"""The files of somebody's folder, found within bounds and without following links.

Nothing in it is trusted: a folder may be deep, or hold more than anyone would hand in. A file may
hold several results: a list or an object in JSON, or a table in CSV.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flashlab.course.results import MEMORY, is_like_a_result, kind_and_factor
from flashlab.course.runs_csv import MAX_ROWS, RUNS_CSV, SPREADSHEETS, delimiter_of
from flashlab.untrusted import (
    FOLDER_FLAGS,
    UnsoundFileError,
    decoded,
    opened,
    parse_json,
    read_bounded,
)

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


def documents_in(path: str, content: bytes) -> dict[str, Any]:
    """The documents in a file, each a result or refused by `result_of`, by their paths.

    A list or an object of several results is like a folder: its parts are ``path/1`` or
    ``path/KEY``. So is a table of results in CSV. UnsoundFileError where the file cannot be read.
    """
    if path.lower().endswith(".csv"):
        return {f"{path}/{line}": row for line, row in _table_rows(content)}
    document = parse_json(content)
    parts: dict[str, Any] = {}
    if isinstance(document, list):
        parts = {str(i): part for i, part in enumerate(document, start=1)}
    elif isinstance(document, dict) and not is_like_a_result(document):
        parts = document
    several = parts and all(isinstance(p, dict) and is_like_a_result(p) for p in parts.values())
    return {f"{path}/{key}": part for key, part in parts.items()} if several else {path: document}


_OF_PASS = {
    "forward_backward": r"forward[\s_+]*backward|fwd[\s_+]*bwd|total|前向[\s_+]*反向|合計|總",
    "forward": r"forward|fwd|前向|正向",
    "backward": r"backward|bwd|反向|後向",
}
"""Patterns of a pass's names in the heading of a column; the first that matches counts."""


def _number_of(heading: str) -> tuple[str, str] | None:
    """The pass (empty for memory) and the key of the number that a column holds."""
    for name, words in _OF_PASS.items():
        key = re.sub(words, "", heading, count=1, flags=re.IGNORECASE).strip(" \t_.-")
        if key != heading.strip() and (number := kind_and_factor(key)) and number[0] != MEMORY:
            return name, key
    number = kind_and_factor(heading)
    return ("", heading.strip()) if number and number[0] == MEMORY else None


def is_table_of_results(content: bytes) -> bool:
    """True if the first line of a CSV file has the columns of results."""
    try:
        header = decoded(content.partition(b"\n")[0], SPREADSHEETS)
    except UnsoundFileError:
        return False
    passes = {number[0] for cell in re.split("[,;\t]", header) if (number := _number_of(cell))}
    return {"forward", "backward"} <= passes


def _table_rows(content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table of results by their lines, as documents."""
    text = decoded(content, SPREADSHEETS)
    first = text.lstrip().partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(first))
    try:
        header = next(rows, [])
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if rows.line_num > MAX_ROWS:
                raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
            yield rows.line_num, _row_document(header, row)
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error


def _row_document(header: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for heading, cell in zip(header, map(str.strip, row), strict=False):
        column = _number_of(heading)
        if column is None:
            document[heading] = cell
            continue
        try:
            number: Any = float(cell)
        except ValueError:
            number = cell
        name, key = column
        (document.setdefault(name, {}) if name else document)[key] = number
    return document
