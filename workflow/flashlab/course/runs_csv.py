"""``runs.csv``, which declares the runs of result files."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.words import CAUSAL, IMPLEMENTATIONS, MAX_SIZE, SIZES, column_of
from flashlab.untrusted import UnsoundFileError, decoded

RUNS_CSV = "runs.csv"
RUNS_CSV_COLUMNS = ("file", "impl", *SIZES, "causal")
MAX_ROWS = 20_000
MAX_COLUMNS = 100

SPREADSHEETS = "cp950"
"""Big5, the encoding of spreadsheets in Taiwan that do not write UTF-8."""

OWN_COLUMNS = {"record", "sha256"}
"""Columns of the pipeline's own table of runs, which has the same name and declares nothing."""

OPEN = "?"
"""The mark of a cell that is yet to be filled in."""

OUT_OF_MEMORY = "oom"
"""The word in the column of files for a run that ran out of memory, and so has no file."""


@dataclass(frozen=True)
class DeclaredRun:
    """A row of ``runs.csv``: the run of a file, as far as it is declared.

    None stands for an empty cell; `device_name` is empty where none is given. A run that
    ran out of memory has `OUT_OF_MEMORY` in place of a file.
    """

    line: int
    file: str
    implementation: str | None
    batch_size: int | None
    seq_len: int | None
    num_heads: int | None
    emb_dim: int | None
    causal: bool | None
    device_name: str

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None if a part of it is left out."""
        declared = {name: getattr(self, name) for name in (*SIZES, "causal")}
        return None if None in declared.values() else Shape.of(declared)


@dataclass(frozen=True)
class DeclaredRuns:
    """The rows of ``runs.csv``, the problems of those that are unsound, and the codes of notes."""

    rows: list[DeclaredRun] = field(default_factory=list)
    problems: list[UnsoundFileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _read_size(text: str, column: str) -> int | None:
    """A size, None where the cell is empty; ``16.0`` is 16, as spreadsheets write it."""
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,8}(\.0{1,6})?", text) and 0 < int(text.split(".")[0]) <= MAX_SIZE:
        return int(text.split(".")[0])
    raise UnsoundFileError("form.row_size", column=column, value=text[:40], most=str(MAX_SIZE))


def _read_path(text: str) -> str:
    """A path below the folder, with slashes; parts that begin with a full stop are refused."""
    path = PurePosixPath(text.replace("\\", "/"))
    hidden = any(part.startswith(".") for part in path.parts)
    if path.is_absolute() or hidden or not path.parts:
        raise UnsoundFileError("form.row_file", value=text[:200])
    return str(path)


def read_row(line: int, cells: Mapping[str, str]) -> DeclaredRun:
    """The run in the cells of a row, by their columns; UnsoundFileError for one that is unsound."""
    sizes = {column: _read_size(cells.get(column, ""), column) for column in SIZES}
    mask = cells.get("causal", "")
    causal = CAUSAL.get(mask.lower())
    if causal is None and mask:
        raise UnsoundFileError("form.row_causal", value=mask[:40])
    heads, emb_dim = sizes["num_heads"], sizes["emb_dim"]
    if heads and emb_dim and emb_dim % heads:
        raise UnsoundFileError("form.row_shape", num_heads=str(heads), emb_dim=str(emb_dim))
    name = cells.get("impl", "")
    return DeclaredRun(
        line=line,
        file=_read_path(cells["file"]) if line else "",
        implementation=IMPLEMENTATIONS.get(name.lower(), name) or None,
        causal=causal,
        device_name=cells.get("device", ""),
        **sizes,
    )


def delimiter_of(header: str) -> str:
    """The delimiter of the cells: a comma, semicolon or tab.

    Raises:
        UnsoundFileError: there are more columns than any table of runs has.
    """
    delimiter = next((character for character in ",;\t" if character in header), ",")
    if header.count(delimiter) >= MAX_COLUMNS:
        raise UnsoundFileError("form.csv_columns", most=str(MAX_COLUMNS))
    return delimiter


def _read_header(cells: Sequence[str]) -> list[str]:
    header = [column_of(name) for name in cells]
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if "file" not in header:
        raise UnsoundFileError("form.csv_lacking", columns="file")
    if not {*RUNS_CSV_COLUMNS[1:], "device"} & {*header}:
        raise UnsoundFileError("form.csv_lacking", columns=", ".join(RUNS_CSV_COLUMNS[1:]))
    if twice:
        raise UnsoundFileError("form.csv_twice", columns=", ".join(twice)[:200])
    return header


def read_runs_csv(content: bytes) -> DeclaredRuns:
    """The declarations in ``runs.csv``; spaces around cells and empty rows do not count.

    Columns: file, and any of impl, batch_size, seq_len, num_heads, emb_dim, causal and device (the
    GPU's name); an empty cell, or one with `OPEN`, declares nothing. A row that is unsound is a
    problem, whose ``line`` parameter is its line. Semicolons, tabs, capitals, ``16.0``, UTF-16 and
    Big5 are understood, with a note.

    UnsoundFileError where the whole file cannot be read, or lacks a column.
    """
    text = decoded(content, SPREADSHEETS)
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="it contains a NUL character")
    delimiter = delimiter_of(text.lstrip().partition("\n")[0])
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    table = DeclaredRuns()
    notes: set[str] = {"form.csv_delimiter"} if delimiter != "," else set()
    if text.encode() != content.removeprefix(BOM_UTF8):
        notes.add("form.csv_encoding")
    try:
        first = next(rows, [])
        if {*first} >= OWN_COLUMNS:
            return DeclaredRuns(notes=["form.not_a_result"])
        header = _read_header(first)
        if header != [name.strip() for name in first]:
            notes.add("form.csv_header")
        for row in rows:
            cells = [cell.strip() for cell in row]
            cells = ["" if cell == OPEN else cell for cell in cells]
            if not any(cells):
                continue
            if rows.line_num > MAX_ROWS:
                raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
            by_column = dict(zip(header, cells, strict=False))
            try:
                if len(cells) != len(header):
                    raise UnsoundFileError("form.row_fields")
                table.rows.append(read_row(rows.line_num, by_column))
            except UnsoundFileError as problem:
                line = str(rows.line_num)
                table.problems.append(UnsoundFileError(problem.code, line=line, **problem.params))
                continue
            if any("." in by_column.get(column, "") for column in SIZES):
                notes.add("form.csv_decimals")
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    table.notes.extend(sorted(notes))
    return table
