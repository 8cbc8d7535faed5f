"""The files of somebody's folder, found within bounds, and the documents in them.

Nothing in a folder is trusted: it may be deep, hold more than anyone would hand in, or links. A
file may hold several results: as a list or an object in JSON, as lines of JSON, or as a table.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any

from flashlab.lab5 import words
from flashlab.lab5.words import MEMORY, PASSES, Said, number_of, pass_of
from flashlab.untrusted import UnsoundFileError, decoded, opened, parse_json

RUNS_CSV, TABLES = "runs.csv", (".csv", ".tsv")


class FolderError(Exception):
    """A folder whose files cannot be assigned to runs: the reason and the remedy."""


class OpenRunsError(FolderError):
    """Files that can be several runs: `table` is the ``runs.csv`` at `path` to fill in."""

    def __init__(self, message: str, path: Path, table: str | None) -> None:
        super().__init__(message)
        self.path, self.table = path, table


MAX_ENTRIES, MAX_FILES, MAX_DEPTH, MAX_BYTES = 100_000, 10_000, 8, 128 * 1024**2
"""Most directory entries that are listed, files that are read, nested folders, and bytes in all."""

MAX_ROWS, MAX_COLUMNS = 20_000, 100
"""Most rows and columns of a table."""

BEGIN = 4096
"""Bytes that are read of a file whose name is not a result's, to see if it is one."""

SPREADSHEETS = "cp950"
"""Big5, the encoding of spreadsheets in Taiwan that do not write UTF-8."""


def listed(texts: Sequence[str], sep: str = ", ", more: str = " and {} more", most: int = 5) -> str:
    """The first texts, and how many more there are."""
    left = more.format(len(texts) - most) if len(texts) > most else ""
    return sep.join(texts[:most]) + left


def _is_result(folder: Path, path: str) -> bool:
    """True if a file is to be read: by its name, or because it begins like the script's JSON."""
    if (kind := PurePosixPath(path).suffix.lower()) in (*TABLES, ".json", ".jsonl", ".ndjson"):
        return True
    with suppress(UnsoundFileError, OSError), opened(str(folder / path)) as descriptor:
        content = os.read(descriptor, BEGIN)
        is_json = content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
        return kind != ".ipynb" and is_json and any(f'"{x}'.encode() in content for x in PASSES)
    return False  # a damaged or special file that nobody has to read


def paths_in(folder: Path) -> Iterator[str]:
    """The files that may be results, and each ``runs.csv``, by name; no link is followed.

    UnsoundFileError where there are more entries, files or levels than anyone hands in.
    """
    entries = files = 0
    for here, inner, names in os.walk(folder):
        below = Path(here).relative_to(folder)
        entries += len(inner) + len(names)
        inner[:] = sorted(name for name in inner if name[0] != "." and name != "__MACOSX")
        if entries > MAX_ENTRIES:
            raise UnsoundFileError("form.too_many", most=str(MAX_ENTRIES))
        if inner and len(below.parts) == MAX_DEPTH:
            raise UnsoundFileError("form.too_deep", most=str(MAX_DEPTH))
        for name in sorted(names):
            if name[0] != "." and _is_result(folder, path := (below / name).as_posix()):
                if (files := files + 1) > MAX_FILES:
                    raise UnsoundFileError("form.too_many", most=str(MAX_FILES))
                yield path


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of an object by their keys, those of a pass by ``PASS.KEY``.

    Those of other objects in it that hold nothing else are by their own keys, where it has none.
    """
    found: dict[str, Any] = {}
    for key, value in document.items():
        if not isinstance(value, (dict, list)):
            found[key] = value
        elif isinstance(value, dict) and pass_of(key):
            found |= {f"{key}.{k}": v for k, v in value.items()}
        elif isinstance(value, dict) and _is_plain(value) and not is_like_a_result(value):
            found = {**value, **found}
    return found


def _is_plain(document: Mapping[str, Any]) -> bool:
    return not any(isinstance(value, (dict, list)) for value in document.values())


def numbers_in(values: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, Any, str]]:
    """The key, the value and the factor of each number, by its pass (or ``""``) and its kind."""
    found: dict[tuple[str, str], tuple[str, Any, str]] = {}
    for key, value in values.items():
        if number := number_of(key):
            found.setdefault(number[:2], (key, value, number[2]))
    return found


def says_out_of_memory(values: Mapping[str, Any]) -> bool:
    """True if a document without numbers says, in any text, that it ran out of memory."""
    numbers = (value for _, value, _ in numbers_in(values).values())
    has_any = any(type(value) in (int, float) and isfinite(value) for value in numbers)
    texts = [value for value in values.values() if isinstance(value, str)]
    return not has_any and any(map(words.IS_OUT_OF_MEMORY.search, texts))


def is_like_a_result(document: Mapping[str, Any]) -> bool:
    """True if a document has any key of a result."""
    exact = {*PASSES, MEMORY, "record"} & document.keys()
    return bool(exact) or any(which for which, _ in numbers_in(document))


def keys_of(document: Any) -> str:
    """The keys of a document, for a message, and of objects in it."""
    if not isinstance(document, dict):
        return {list: "a list"}.get(type(document), type(document).__name__)
    keys = dict.fromkeys([*document, *flat(document)])
    return listed([key[:40] for key in keys], most=10) or "nothing"


def _results_within(path: str, document: Any, above: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The results in a list or an object, each with what the objects above it say of it."""
    parts: dict[str, Any] = {}
    if isinstance(document, list):
        parts = {str(i): part for i, part in enumerate(document, start=1)}
    elif isinstance(document, dict):
        plain = flat(document)
        if is_like_a_result(document) or (_is_plain(document) and says_out_of_memory(plain)):
            yield path, {**above, **document}
            return
        parts, above = document, {**above, **plain}
    for key, part in parts.items():
        yield from _results_within(f"{path}/{key}", part, above)


def _parsed(content: bytes) -> Any:
    """A document, or the list of one on each line."""
    try:
        return parse_json(content)
    except UnsoundFileError as problem:
        lines = [line for line in decoded(content).splitlines() if line.strip()]
        are_objects = len(lines) > 1 and all(line.lstrip()[0] == "{" for line in lines[:2])
        if problem.code != "form.not_json" or not are_objects:
            raise
    if len(lines) > MAX_ROWS:
        raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
    return [parse_json(line.encode()) for line in lines]


def table_rows(content: bytes) -> tuple[str, list[str], list[tuple[int, list[str]]]]:
    """The delimiter, the headings, and the rows of CSV with their lines, without empty ones."""
    text = decoded(content, SPREADSHEETS)
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="it contains a NUL character")
    first = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    if first.count(delimiter) >= MAX_COLUMNS:
        raise UnsoundFileError("form.csv_columns", most=str(MAX_COLUMNS))
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        found = [
            (table.line_num, [cell.strip() for cell in row]) for row in islice(table, MAX_ROWS + 2)
        ]
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    if len(found) > MAX_ROWS + 1:
        raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
    (_, header), *rows = [row for row in found if any(row[1])] or [(0, [])]
    return delimiter, header, rows


def documents_in(path: str, content: bytes) -> dict[str, Any]:
    """The documents in a file by their paths: ``path``, or ``path/KEY`` for one of several.

    UnsoundFileError where the file cannot be read.
    """
    if PurePosixPath(path).suffix.lower() not in TABLES:
        document = _parsed(content)
        return dict(_results_within(path, document, {})) or {path: document}
    delimiter, header, rows = table_rows(content)
    found, numbers = dict[str, Any](), {*filter(number_of, header)}
    if not is_like_a_result(dict.fromkeys(header, "")):
        return {path: dict.fromkeys(header, "")}
    for line, cells in rows:
        if len(cells) > len(header):
            raise UnsoundFileError("form.csv", reason=f"line {line} has more than the header")
        # pandas writes its index under no heading
        row: dict[str, Any] = {h: c for h, c in zip(header, cells, strict=False) if h and c}
        for name in numbers & row.keys():
            with suppress(ValueError):  # between semicolons a comma may stand for the point
                row[name] = float(row[name].replace(",", "." if delimiter == ";" else ","))
        found[f"{path}/{line}"] = row
    return found


def read_runs_csv(content: bytes) -> tuple[list[tuple[int, str, Said]], list[str]] | None:
    """The line, the file and the statement of each row, and the problems of the others.

    A file is a path below the folder, with slashes, or `OUT_OF_MEMORY` for words that say so. None
    for a table of results. UnsoundFileError where the whole file cannot be read.
    """
    _, header, rows = table_rows(content)
    if {"forward", "backward"} <= {which for which, _ in numbers_in(dict.fromkeys(header, ""))}:
        return None
    columns = [words.column_of(name) for name in header]
    if {"record", "sha256"} <= {*columns}:  # the pipeline's own table of runs
        return [], []
    lacking = [name for name in words.RUNS_CSV_COLUMNS[:-1] if name not in columns]
    if "file" in lacking or (len(lacking) == len(words.ATTRIBUTES) and "device" not in columns):
        raise UnsoundFileError("form.csv_lacking", columns=", ".join(lacking))
    if twice := {name for name in columns if name and columns.count(name) > 1}:
        raise UnsoundFileError("form.csv_twice", columns=", ".join(sorted(twice))[:200])
    found, problems = list[tuple[int, str, Said]](), list[str]()
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                raise UnsoundFileError("form.row_fields")
            said = words.said_in_cells(dict(zip(header, cells, strict=True)))
            text = str(said.pop("file", ""))
            path = PurePosixPath(text.replace("\\", "/"))
            if path.is_absolute() or not path.parts or any(part[0] == "." for part in path.parts):
                raise UnsoundFileError("form.row_file", value=text[:200])
            is_gone = words.IS_OUT_OF_MEMORY.fullmatch(text)
            found.append((line, words.OUT_OF_MEMORY if is_gone else str(path), said))
        except UnsoundFileError as problem:
            problems.append(f"Line {line}: {problem}")
    return found, problems
