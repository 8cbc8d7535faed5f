"""Files written atomically, and JSON in one form."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def open_atomically(path: Path, binary: bool = False, durable: bool = True) -> Iterator[IO[Any]]:
    """Open a file for writing, text or bytes, that replaces `path` only once it is complete.

    The content goes to a temporary file beside `path`, is flushed to disk (fsync), and is renamed,
    so that a reader, a full disk or a kill never meets half of it. Without `durable` it is not
    flushed: half of it may be left where the machine itself goes down.
    """
    path = Path(os.path.realpath(path))  # a link goes on leading to it
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        encoding, newline = (None, None) if binary else ("utf-8", "\n")
        mode = "wb" if binary else "w"
        with os.fdopen(descriptor, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_text(document: Any) -> str:
    """A JSON document as it is written; ValueError for NaN and infinity."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """The JSON document in a file; OSError or ValueError where there is none."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document atomically; NaN and infinity are refused (ValueError)."""
    text = json_text(document)
    with open_atomically(path) as file:
        file.write(text)


LONGEST_ADDRESS = 100
"""Bytes of a socket's path; Linux takes 107, macOS 103."""


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """The address of a Unix socket at a path, which on Linux may be of any length."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
