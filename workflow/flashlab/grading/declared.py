"""What a file is said to be: by a row of ``runs.csv``, by its record, or by its name.

A row of ``runs.csv`` counts most and a name least. A name is read with caution, because a wrong
reading would fail a sound file: words count alone, single letters (b16, n512, h32, e2048) only
where three of the four stand together.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from flashlab.datasets import RUNS_CSV_COLUMNS
from flashlab.grading.files import UnsoundFileError
from flashlab.grading.form import Claim, shape_bounds
from flashlab.grading.model import Declaration

NAIVE, FLASH2 = "Pytorch", "Flash2"
MAX_ROWS = 20_000
COURSE_DTYPE = "float16"
FLASH_ATTN = "flash-attn"

_IMPLEMENTATIONS = {
    **dict.fromkeys(("pytorch", "torch", "py", "pt", "naive"), NAIVE),
    **dict.fromkeys(
        (
            *("flash2", "flash", "fl2", "fl", "fa2", "fa", "flashattention", "flashattention2"),
            "flashattn",
        ),
        FLASH2,
    ),
}
_SIZES = {
    **dict.fromkeys(("bs", "batch", "batchsize"), "batch_size"),
    **dict.fromkeys(("sl", "seq", "seqlen", "sequence", "seqlength"), "seq_len"),
    **dict.fromkeys(("nh", "head", "heads", "numheads"), "num_heads"),
    **dict.fromkeys(("ed", "emb", "embdim", "embedding"), "emb_dim"),
}
_LETTERS = {"b": "batch_size", "n": "seq_len", "h": "num_heads", "e": "emb_dim"}
_JOINED = {
    **dict.fromkeys((("batch", "size"), ("num", "heads")), None),
    **dict.fromkeys((("seq", "len"), ("emb", "dim"), ("seq", "length")), None),
    **dict.fromkeys((("flash", "attention"), ("flash", "attn")), None),
}
_CAUSAL = {"causal": True, "full": False, "noncausal": False, "nocausal": False}


@dataclass(frozen=True)
class DeclaredRuns:
    """What ``runs.csv`` says: declarations by the path of the file, and what is wrong with rows.

    `problems` are (line number, UnsoundFileError).
    """

    by_file: dict[str, list[Declaration]] = field(default_factory=dict)
    problems: list[tuple[int, UnsoundFileError]] = field(default_factory=list)


def _whole(text: str, column: str) -> int:
    if not re.fullmatch("[0-9]{1,8}", text.strip()):
        raise UnsoundFileError("form.row_size", column=column, value=text[:40])
    return int(text)


def device_is_gpu(name: str) -> bool:
    """Whether a device's name is a GPU's; only a CPU is told by its name."""
    return not re.search(r"\bcpus?\b", name, re.IGNORECASE)


def _row_path(text: str) -> str:
    """The path of a row's file as `files.files_of` gives it: within the folder, with slashes."""
    path = PurePosixPath(text.strip().replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in text or not path.parts:
        raise UnsoundFileError("form.row_outside", value=text[:200])
    return str(path)


def _row(cells: dict[str, str]) -> tuple[str, Declaration]:
    sizes = {
        column: _whole(cells[column], column)
        for column in ("batch_size", "seq_len", "num_heads", "emb_dim")
    }
    causal = {"true": True, "1": True, "false": False, "0": False}.get(
        cells["causal"].strip().lower()
    )
    if causal is None:
        raise UnsoundFileError("form.row_causal", value=cells["causal"][:40])
    implementation = cells["impl"].strip()
    if not implementation:
        raise UnsoundFileError("form.row_impl")
    device = (cells.get("device") or "").strip()[:200]
    declaration = Declaration(
        "runs.csv",
        _IMPLEMENTATIONS.get(implementation.lower(), implementation[:80]),
        causal=causal,
        device_name=device or None,
        gpu=device_is_gpu(device),
        **sizes,
    )
    shape = declaration.shape
    if shape is None or not shape_bounds(shape):
        raise UnsoundFileError("form.row_shape", value=declaration.said())
    return _row_path(cells["file"]), declaration


def read_runs_csv(content: bytes) -> DeclaredRuns:
    """What ``runs.csv`` declares; a row that is unsound is a problem, and the others count.

    UnsoundFileError where the whole file cannot be read or lacks a column.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnsoundFileError("form.not_utf8") from error
    if "\0" in text:
        raise UnsoundFileError("form.csv", reason="NUL")
    rows = csv.reader(io.StringIO(text, newline=""))
    found = DeclaredRuns()
    try:
        header = [name.strip() for name in next(rows, [])]
        lacking = [name for name in RUNS_CSV_COLUMNS if name not in header]
        if lacking or len(set(header)) != len(header):
            raise UnsoundFileError("form.csv_columns", columns=", ".join(lacking or header)[:200])
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if rows.line_num > MAX_ROWS:
                raise UnsoundFileError("form.too_many", most=str(MAX_ROWS))
            try:
                if len(cells) != len(header):
                    raise UnsoundFileError("form.row_fields")
                path, declaration = _row(dict(zip(header, cells, strict=True)))
            except UnsoundFileError as problem:
                found.problems.append((rows.line_num, problem))
            else:
                found.by_file.setdefault(path, []).append(declaration)
    except csv.Error as error:
        raise UnsoundFileError("form.csv", reason=str(error)) from error
    return found


def of_record(claim: Claim) -> Declaration:
    """What a record's own run says; it is a claim like any other.

    Where flash-attn was not installed, ``Flash2`` ran another kernel, whose memory is another.
    """
    run, shape = claim.run, claim.run.shape
    substituted = run.implementation == FLASH2 and not (claim.provider or FLASH_ATTN).startswith(
        FLASH_ATTN
    )
    return Declaration(
        "record",
        run.implementation,
        shape.batch_size,
        shape.seq_len,
        shape.num_heads,
        shape.emb_dim,
        shape.causal,
        claim.device_name,
        gpu=run.device == "cuda" and run.dtype == COURSE_DTYPE and not substituted,
    )


def _words(name: str) -> Iterator[tuple[str, str]]:
    """The words of a name, each with the number behind it or ``""``; ``batch_size`` is one."""
    parts = re.findall("[a-z]+[0-9]*|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    i = 0
    while i < len(parts):
        if i + 1 < len(parts):
            second = re.match("[a-z]*", parts[i + 1])
            if second and (parts[i], second.group()) in _JOINED:
                parts[i : i + 2] = [parts[i] + parts[i + 1]]
        match = re.fullmatch("([a-z]+)([0-9]*)", parts[i])
        if match is None:
            i += 1
            continue
        word, number = match.groups()
        following = parts[i + 1] if i + 1 < len(parts) else ""
        if not number and word in _SIZES and following.isdigit():
            number = following
        yield word, number
        i += 1


def _masks(words: Sequence[str]) -> Iterator[bool]:
    """What the words say of the mask: ``causal``, ``no causal``, ``causal false``, ``full``."""
    for i, word in enumerate(words):
        if word in _CAUSAL:
            before, after = words[i - 1 : i], words[i + 1 : i + 2]
            negated = before in (["no"], ["non"], ["not"], ["without"]) or after == ["false"]
            yield _CAUSAL[word] and not (word == "causal" and negated)


def _read_part(name: str, is_file: bool) -> dict[str, set[Any]]:
    """What a part of a path says: values by attribute, several where it contradicts itself."""
    said: dict[str, set[Any]] = {}
    letters: dict[str, set[Any]] = {}
    words = list(_words(name))
    for word, number in words:
        implementation = _IMPLEMENTATIONS.get(word + number)
        if implementation:
            said.setdefault("implementation", set()).add(implementation)
        elif 0 < len(number) <= 8 and int(number) and word in _SIZES:
            said.setdefault(_SIZES[word], set()).add(int(number))
        elif 0 < len(number) <= 8 and int(number) and word in _LETTERS:
            letters.setdefault(_LETTERS[word], set()).add(int(number))
    if len(letters) >= 3:
        said = {**letters, **said}
    masks = set(_masks([word for word, number in words if not number]))
    # A folder named causal is the experiment, and holds both masks.
    return {**said, "causal": masks} if masks and is_file else said


def of_name(path: str) -> Declaration:
    """What the name of a file says, and where it says nothing, the folders that it lies in.

    ``exp3/batch_size/flash_bs16.json``: Flash2 and batch_size 16. What is said twice differently
    counts as not said.
    """
    found: dict[str, Any] = {}
    for depth, part in enumerate(reversed(PurePosixPath(path).parts)):
        stem = re.sub(r"\.json\Z", "", part, flags=re.IGNORECASE)
        for attribute, values in _read_part(stem, is_file=depth == 0).items():
            # A name that says two things says neither, and nor does the folder above it.
            found.setdefault(attribute, values.pop() if len(values) == 1 else None)
    return Declaration("name", **found)
