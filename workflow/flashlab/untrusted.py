"""Files that somebody else has made: read within bounds, never followed, and parsed strictly.

A name may be a symbolic link, a FIFO or a device; a file may be huge, or change while it is read;
JSON may be nested without end, or hold keys twice, NaN, or numbers of a million digits.
"""

from __future__ import annotations

import json
import os
import stat
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

MAX_FILE_BYTES, MAX_READ_BYTES = 4 * 1024**2, 64 * 1024**2
"""Largest file of a submission (a record with all samples takes about 0.15 MiB); of any other."""

MAX_JSON_DEPTH = 16
MAX_DIGITS = 40
"""Most characters of a number; the shortest text of a double has 24 at most."""

OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER_FLAGS = OPEN_FLAGS | os.O_DIRECTORY


class UnsoundFileError(Exception):
    """A file that is refused.

    `code` is the key of its message in the labels (domain ``course``), `params` that message's
    parameters. As text it is the message in English.
    """

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code)
        self.code = code
        self.params = params

    def __str__(self) -> str:
        from flashlab.labels import message  # not needed where every file is sound

        return message("en", "course", self.code).format_map(self.params)


@contextmanager
def readable() -> Iterator[None]:
    """UnsoundFileError in place of the operating system's errors."""
    try:
        yield
    except OSError as error:
        raise UnsoundFileError("form.unreadable", reason=error.strerror or "") from error


def _refuse_special(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UnsoundFileError("form.link")
    if not stat.S_ISREG(status.st_mode):
        raise UnsoundFileError("form.special")


@contextmanager
def opened(name: str, folder: int | None = None) -> Iterator[int]:
    """The descriptor of a regular file in the open folder `folder`.

    UnsoundFileError for a symbolic link, anything that is not a regular file, and a file that
    cannot be read. Opening never blocks, not even on a FIFO.
    """
    with readable(), ExitStack() as closing:
        # Opening a device may already have an effect, so only regular files are opened.
        _refuse_special(os.stat(name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(name, OPEN_FLAGS, dir_fd=folder)
        closing.callback(os.close, descriptor)
        _refuse_special(os.fstat(descriptor))
        yield descriptor


def read_bounded(name: str, folder: int | None = None, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file of at most `most` bytes, in the open folder `folder`.

    UnsoundFileError as of `opened`, and for a file that is too large or changes meanwhile.
    """
    same = attrgetter("st_ino", "st_dev", "st_size", "st_mtime_ns", "st_ctime_ns")
    with opened(name, folder) as descriptor, open(descriptor, "rb", closefd=False) as file:
        before = os.fstat(descriptor)
        if before.st_size > most:
            raise UnsoundFileError("form.too_large", size=str(before.st_size), most=str(most))
        content = file.read(before.st_size + 1)  # one byte more shows that the file has grown
        if same(before) != same(os.fstat(descriptor)) or len(content) != before.st_size:
            raise UnsoundFileError("form.changed")
        return content


def read_file(path: Path) -> bytes:
    """The bytes of the regular file that a path leads to, also by links; as `read_bounded`."""
    return read_bounded(os.path.realpath(path), most=MAX_READ_BYTES)


def read_within(folder: Path, path: str) -> bytes:
    """The bytes of the file at the relative `path` below `folder`; `read_bounded` has the errors.

    `folder` itself may be a symbolic link; nothing below it is followed.
    """
    *parents, name = PurePosixPath(path).parts
    with readable(), ExitStack() as closing:
        inner = os.open(folder, FOLDER_FLAGS & ~os.O_NOFOLLOW)
        closing.callback(os.close, inner)
        for parent in parents:
            inner = os.open(parent, FOLDER_FLAGS, dir_fd=inner)
            closing.callback(os.close, inner)
        return read_bounded(name, inner)


def printable(text: str, keeps: Callable[[str], bool] = str.isprintable) -> str:
    """`text` with visible escapes for all that is not kept, such as what steers a terminal."""
    return "".join(c if keeps(c) else c.encode("unicode_escape").decode() for c in text)


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise UnsoundFileError("form.duplicate_key", key=twice)
    return document


def _refuse_constant(text: str) -> NoReturn:
    raise UnsoundFileError("form.not_finite", value=text)


def _parse_number(kind: Callable[[str], float], text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise UnsoundFileError("form.digits", most=str(MAX_DIGITS))
    return kind(text)


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(MAX_JSON_DEPTH + 1):
        inner = (x.values() if isinstance(x, dict) else x for x in level if type(x) in (dict, list))
        if not (level := [value for values in inner for value in values]):
            return
    raise UnsoundFileError("form.nested", most=str(MAX_JSON_DEPTH))


def decoded(content: bytes, otherwise: str = "utf-8") -> str:
    """Text in UTF-8, in UTF-16 with its mark, or `otherwise`; UnsoundFileError for any other."""
    encodings = ("utf-16",) if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else ("utf-8-sig",)
    for encoding in (*encodings, otherwise):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    raise UnsoundFileError("form.not_utf8")


def parse_json(content: bytes) -> Any:
    """The document of strict JSON, its text as of `decoded`; UnsoundFileError for anything else."""
    try:
        document = json.loads(
            decoded(content),
            object_pairs_hook=_refuse_duplicate_keys,
            parse_constant=_refuse_constant,
            parse_int=partial(_parse_number, int),
            parse_float=partial(_parse_number, float),
        )
    except RecursionError as error:
        raise UnsoundFileError("form.nested", most=str(MAX_JSON_DEPTH)) from error
    except json.JSONDecodeError as error:
        raise UnsoundFileError("form.not_json", line=str(error.lineno), reason=error.msg) from error
    _check_depth(document)
    decoded(json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass"))  # no half pair
    return document
