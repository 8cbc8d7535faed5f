"""Several results in one file: a list or an object in JSON, or a table in CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.course.results import MEMORY, is_like_a_result, kind_and_factor
from flashlab.course.runs_csv import MAX_ROWS, SPREADSHEETS, delimiter_of
from flashlab.untrusted import UnsoundFileError, decoded, parse_json


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
