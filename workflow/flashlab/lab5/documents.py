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
from pathlib import Path, PurePosixPath
from typing import Any

from flashlab.lab5.words import MEMORY, PASSES, number_of, pass_of
from flashlab.untrusted import UnsoundFileError, decoded, opened, parse_json

RUNS_CSV = "runs.csv"

MAX_ENTRIES, MAX_FILES, MAX_DEPTH, MAX_BYTES = 100_000, 10_000, 8, 128 * 1024**2
"""Most directory entries that are listed, files that are read, nested folders, and bytes in all."""

MAX_ROWS, MAX_COLUMNS, SEEN = 20_000, 100, 10
"""Most rows and columns of a table, and most keys that a message lists."""

BEGIN = 4096
"""Bytes that are read of a file whose name is not a result's, to see if it is one."""

SPREADSHEETS = "cp950"
"""Big5, the encoding of spreadsheets in Taiwan that do not write UTF-8."""


def _is_result(folder: Path, path: str) -> bool:
    """True if a file is to be read: by its name, or because it begins like the script's JSON."""
    kind = PurePosixPath(path).suffix.lower()
    if kind in (".json", ".jsonl", ".ndjson", ".csv", ".tsv") or kind == ".ipynb":
        return kind != ".ipynb"
    with suppress(UnsoundFileError, OSError), opened(str(folder / path)) as descriptor:
        content = os.read(descriptor, BEGIN)
        return content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and any(
            f'"{name}'.encode() in content for name in PASSES
        )
    return False  # a damaged or special file that nobody has to read


def paths_in(folder: Path) -> Iterator[str]:
    """The files that may be results, and each ``runs.csv``, by name; no link is followed.

    UnsoundFileError where there are more entries or levels than anyone hands in.
    """
    entries = 0
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
                yield path


# The numbers of a document


def numbers_in(document: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, Any, str]]:
    """The key, the value and the factor of each number, by its pass (or ``""``) and its kind."""
    found: dict[tuple[str, str], tuple[str, Any, str]] = {}
    for key, value in document.items():
        inner = pass_of(key) if isinstance(value, dict) else None
        for name, each in value.items() if inner else [(key, value)]:
            if (number := number_of(name)) and not (inner and number[0]):
                which = inner or number[0]
                found.setdefault((which, number[1]), (f"{inner}.{name}" if inner else name, each,
                                                     number[2]))  # fmt: skip
    return found


def is_like_a_result(document: Mapping[str, Any]) -> bool:
    """True if a document has any key of a result."""
    exact = {*PASSES, MEMORY, "record"} & document.keys()
    return bool(exact) or any(which for which, _ in numbers_in(document))


def keys_of(document: Any) -> str:
    """The keys of a document, for a message; of a pass those inside it too."""
    if not isinstance(document, dict):
        return {list: "a list"}.get(type(document), type(document).__name__)
    inside = [f"{key}.{k}" for key in PASSES if isinstance(v := document.get(key), dict) for k in v]
    keys = [str(key)[:40] for key in (*(k for k in document if k not in PASSES), *inside)]
    more = f" and {len(keys) - SEEN} more" if len(keys) > SEEN else ""
    return ", ".join(keys[:SEEN]) + more or "nothing"


# JSON


def _beside(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of an object, and those of the objects in it that hold nothing else."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if not isinstance(value, (dict, list)):
            found[key] = value
        elif isinstance(value, dict) and not any(
            isinstance(v, (dict, list)) for v in value.values()
        ):
            found |= {} if is_like_a_result(value) else value
    return found


def _results_within(
    path: str, document: Any, above: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The results in a list or an object, each with what the objects above it say of it."""
    parts: dict[str, Any] = {}
    if isinstance(document, list):
        parts = {str(i): part for i, part in enumerate(document, start=1)}
    elif isinstance(document, dict):
        if is_like_a_result(document):
            yield path, {**above, **document} if above else document
            return
        parts, above = document, {**above, **_beside(document)}
    for key, part in parts.items():
        yield from _results_within(f"{path}/{key}", part, above)


def _read_json(path: str, content: bytes) -> dict[str, Any]:
    try:
        document = parse_json(content)
    except UnsoundFileError as problem:
        lines = decoded(content).splitlines() if problem.code == "form.not_json" else []
        if (
            sum(line.lstrip().startswith("{") for line in lines) < 2
            or problem.params["line"] != "2"
        ):
            raise
        if len(lines) > MAX_ROWS:
            raise UnsoundFileError("form.too_many", most=str(MAX_ROWS)) from None
        return {  # one document a line
            name: part
            for i, line in enumerate(lines, start=1)
            if line.strip()
            for name, part in _read_json(f"{path}/{i}", line.encode()).items()
        }
    if isinstance(document, dict) and is_like_a_result(document):
        return {path: document}
    return dict(_results_within(path, document, {})) or {path: document}


# Tables


def table_rows(content: bytes) -> tuple[str, list[str], list[tuple[int, list[str]]]]:
    """The delimiter, the headings, and the rows of CSV with their lines, without empty ones."""
    text = decoded(content, SPREADSHEETS)
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="it contains a NUL character")
    first = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    if first.count(delimiter) >= MAX_COLUMNS:
        raise UnsoundFileError("form.csv_columns", most=str(MAX_COLUMNS))
    rows: list[tuple[int, list[str]]] = []
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in table:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((table.line_num, cells))
            if len(rows) > MAX_ROWS:
                raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    return delimiter, rows[0][1] if rows else [], rows[1:]


def _number(text: str, has_commas: bool) -> Any:
    """A cell's number, in which a comma may stand for the point; its text where it is none."""
    with suppress(ValueError):
        return float(text.replace(",", ".") if has_commas else text)
    return text


def _row(header: Sequence[str], cells: Sequence[str], has_commas: bool) -> dict[str, Any]:
    named = zip(header, cells, strict=False)
    return {
        heading: _number(cell, has_commas) if number_of(heading) else cell
        for heading, cell in named
        if heading and cell  # pandas writes its index under no heading
    }


def is_table_of_results(content: bytes) -> bool:
    """True if the first line of a CSV file has columns of results."""
    with suppress(UnsoundFileError):
        found = numbers_in(dict.fromkeys(table_rows(content[:BEGIN])[1], ""))
        return {"forward", "backward"} <= {which for which, _ in found}
    return False


def documents_in(path: str, content: bytes) -> dict[str, Any]:
    """The documents in a file by their paths: ``path``, or ``path/KEY`` for one of several.

    UnsoundFileError where the file cannot be read.
    """
    if PurePosixPath(path).suffix.lower() not in (".csv", ".tsv"):
        return _read_json(path, content)
    delimiter, header, rows = table_rows(content)
    if not is_like_a_result(dict.fromkeys(header, "")):
        return {path: dict.fromkeys(header, "")}
    for line, cells in rows:
        if len(cells) > len(header):
            raise UnsoundFileError("form.row_fields", line=str(line))
    return {f"{path}/{line}": _row(header, cells, delimiter == ";") for line, cells in rows}
