"""What is said of a file's run: by a row of ``runs.csv``, by its own record, or by its name.

A statement is a mapping from `ATTRIBUTES` to values; what is not said is not in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from flashlab.lab5 import words
from flashlab.lab5.documents import numbers_in, table_rows
from flashlab.lab5.words import HEAD_DIM, SIZES
from flashlab.untrusted import UnsoundFileError

ATTRIBUTES = ("implementation", *SIZES, "causal")
RUNS_CSV_COLUMNS = ("file", "impl", *SIZES, "causal", "device")
Said = Mapping[str, Any]


def described(said: Said) -> str:
    """A statement in one line: ``Flash2 B16 N1024 full``."""
    sizes = [
        f"{symbol}{said[name]}" for symbol, name in zip("BNHE", SIZES, strict=True) if name in said
    ]
    mask = ["causal" if said["causal"] else "full"] if "causal" in said else []
    names = [said[name] for name in ("implementation", "device") if name in said]
    return " ".join([*names[:1], *sizes, *mask, *names[1:]])


def _cell(column: str, text: str) -> Any:
    """The value in a cell; UnsoundFileError for none of its column."""
    if column == "causal":
        if text.lower() not in words.CAUSAL:
            raise UnsoundFileError("form.row_causal", value=text[:40])
        return words.CAUSAL[text.lower()]
    if column not in (*SIZES, HEAD_DIM):
        return words.IMPLEMENTATIONS.get(text.lower(), text) if column == "impl" else text
    is_size = re.fullmatch(r"[0-9]{1,8}(\.0+)?", text)  # spreadsheets write 16.0
    if not is_size or not 0 < (size := int(text.partition(".")[0])) <= words.MAX_SIZE:
        wanted = {"column": column, "most": str(words.MAX_SIZE)}
        raise UnsoundFileError("form.row_size", value=text[:40], **wanted)
    return size


def said_in_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    """The statement in cells by their columns' headings; an empty one, or ``?``, says nothing."""
    named = {words.column_of(heading): text.strip() for heading, text in cells.items() if heading}
    kept = (*RUNS_CSV_COLUMNS, HEAD_DIM)
    said = {c: _cell(c, t) for c, t in named.items() if c in kept and t not in ("", "?")}
    if {HEAD_DIM, "num_heads"} <= said.keys():
        said.setdefault("emb_dim", said["num_heads"] * said[HEAD_DIM])
    if said.get("emb_dim", 0) % said.get("num_heads", 1):
        sizes = {name: str(said[name]) for name in ("num_heads", "emb_dim")}
        raise UnsoundFileError("form.row_shape", **sizes)
    return {"implementation" if c == "impl" else c: value for c, value in said.items()}


def _path(text: str) -> str:
    """A path below the folder, with slashes, or `words.OUT_OF_MEMORY` for words that say so."""
    path = PurePosixPath(text.replace("\\", "/"))
    if path.is_absolute() or not path.parts or any(part[0] == "." for part in path.parts):
        raise UnsoundFileError("form.row_file", value=text[:200])
    return words.OUT_OF_MEMORY if words.IS_OUT_OF_MEMORY.fullmatch(text) else str(path)


def read_runs_csv(content: bytes) -> tuple[list[tuple[int, str, Said]], list[str]] | None:
    """The line, the file and the statement of each row, and the problems of the others.

    None for a table of results. UnsoundFileError where the whole file cannot be read.
    """
    _, header, rows = table_rows(content)
    if {"forward", "backward"} <= {which for which, _ in numbers_in(dict.fromkeys(header, ""))}:
        return None
    columns = [words.column_of(name) for name in header]
    if {"record", "sha256"} <= {*columns}:  # the pipeline's own table of runs
        return [], []
    lacking = [name for name in RUNS_CSV_COLUMNS[:-1] if name not in columns]
    if "file" in lacking or (len(lacking) == len(ATTRIBUTES) and "device" not in columns):
        raise UnsoundFileError("form.csv_lacking", columns=", ".join(lacking))
    if twice := {name for name in columns if name and columns.count(name) > 1}:
        raise UnsoundFileError("form.csv_twice", columns=", ".join(sorted(twice))[:200])
    found, problems = list[tuple[int, str, Said]](), list[str]()
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                raise UnsoundFileError("form.row_fields")
            said = said_in_cells(dict(zip(header, cells, strict=True)))
            found.append((line, _path(str(said.pop("file", ""))), said))
        except UnsoundFileError as problem:
            problems.append(f"Line {line}: {problem}")
    return found, problems


_SIZES = {word: name for word, name in words.COLUMNS.items() if name in (*SIZES, HEAD_DIM)}
_LETTERS = {"b": "batch_size", "n": "seq_len", "s": "seq_len", "h": "num_heads", "e": "emb_dim"}
_MASKS = {"causal": True, "full": False, "noncausal": False, "nocausal": False}
_TWO_WORDS = re.compile(
    r"(batch|num|seq|emb|head|flash)[^a-z0-9]+(size|heads|len(?:gth)?|dim|att(?:entio)?n)(?![a-z])"
)


def _said_in_part(part: str, is_file: bool) -> tuple[dict[str, set[Any]], list[int], set[str]]:
    """The values of each attribute in a part of a path; its other numbers; sizes without one."""
    text = _TWO_WORDS.sub(r"\1\2", re.sub("([a-z])([A-Z])", r"\1_\2", part).lower())
    pairs: list[tuple[str, str]] = re.findall(r"(?=[a-z0-9])([a-z]*)[^a-z0-9]*([0-9]*)", text)
    values, letters = defaultdict[str, set[Any]](set), defaultdict[str, set[Any]](set)
    bare, left = set[str](), list[int]()
    for i, (word, digits) in enumerate(pairs):
        kind, number = _SIZES.get(word), int(digits) if 0 < len(digits) <= 8 else None
        if who := words.IMPLEMENTATIONS.get(word + digits) or words.IMPLEMENTATIONS.get(word):
            values["implementation"].add(who)
            number = None if word + digits in words.IMPLEMENTATIONS else number
        elif kind and not digits:
            bare.add(kind)
        elif number and (kind or word in _LETTERS):
            (values if kind else letters)[kind or _LETTERS[word]].add(number)
            number = None
        elif word in _MASKS and digits in ("", "0", "1"):
            near = {w for w, _ in pairs[max(i - 1, 0) : i]} & {"no", "non", "not", "without"}
            after = digits or next((w + n for w, n in pairs[i + 1 : i + 2]), "")
            if is_file:  # a folder named causal is the experiment, which has both masks
                values["causal"].add(_MASKS[word] and not near and words.CAUSAL.get(after, True))
            number = None
        left += [] if number is None else [number]
    # The script's only flag without a number, alone in a name: Flash2_16_512_32_2048_true.
    if is_file and "causal" not in values and (flag := {w for w, _ in pairs} & {"true", "false"}):
        values["causal"] = {words.CAUSAL[word] for word in flag}
    return ({**letters, **values} if len(letters) >= 3 else values), left, bare


def _parts_of(path: str) -> list[tuple[dict[str, set[Any]], list[int], set[str]]]:
    """What a file's name says, and then its folders'."""
    parts = [re.sub(r"\.\w{1,6}\Z", "", part) for part in reversed(PurePosixPath(path).parts)]
    return [_said_in_part(part, is_file=depth == 0) for depth, part in enumerate(parts)]


def numbers_in_name(path: str) -> list[int]:
    """The numbers of a file's name that belong to no word of ours, in their order."""
    return _parts_of(path)[0][1] if path else []


def said_in_name(path: str) -> dict[str, Any]:
    """What a file's name seems to say and, where it is silent, its folders': hints, no more.

    Single letters count only if three of the four are there, and a number by itself only if the
    path names just one parameter without one (``seq_len/128.json``). Two values count as none.
    """
    said: dict[str, Any] = {}
    parts = _parts_of(path)
    for values, _, _ in parts:
        for name, those in values.items():
            said.setdefault(name, those.pop() if len(those) == 1 else None)
    bare = {name for *_, names in parts for name in names} - said.keys()
    if parts and len(bare) == len(parts[0][1]) == 1 and parts[0][1][0]:
        said[bare.pop()] = parts[0][1][0]
    return {name: value for name, value in said.items() if value is not None}
