"""The record of one run: its types, its JSON form, and how it is written and read.

A record keeps the four keys of the course's script at the top and everything of ours under
``record``, so that any reader of that script's JSON reads ours. It is written whole or not at
all, and never changed afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO, Any

import jsonschema

VERSION = 1
"""Version of the JSON format; raised when a reader of the old one would misread the new one."""

PASSES = ("forward", "backward", "forward_backward")
STATUSES = ("ok", "oom", "unsupported", "incorrect", "error")
SHAPE_PARAMETERS = ("batch_size", "seq_len", "num_heads", "emb_dim", "causal")

SCHEMA = Path(__file__).parents[1] / "schemas" / "record.schema.json"

REMEDY = "./run report measures this run again"


class RecordError(Exception):
    """A record that is missing, malformed, or not the one that was asked for."""


@dataclass(frozen=True, order=True)
class Shape:
    """The size of one attention problem: B batch_size, N seq_len, H num_heads, E emb_dim."""

    batch_size: int
    seq_len: int
    num_heads: int
    emb_dim: int
    causal: bool

    @property
    def head_dim(self) -> int:
        """D = E / H, the size of one head."""
        return self.emb_dim // self.num_heads


@dataclass(frozen=True, order=True)
class Run:
    """One implementation at one shape, dtype and kind of device (``cuda`` or ``cpu``)."""

    implementation: str
    shape: Shape
    dtype: str
    device: str

    def to_json(self) -> dict[str, Any]:
        """The flat mapping that stands in a record under ``record.run``."""
        return {
            "implementation": self.implementation,
            **asdict(self.shape),
            "dtype": self.dtype,
            "device": self.device,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Run:
        """Inverse of `to_json`; KeyError for a key that is missing."""
        shape = Shape(**{field.name: document[field.name] for field in fields(Shape)})
        return cls(document["implementation"], shape, document["dtype"], document["device"])

    def __str__(self) -> str:
        """The run in one line: ``Flash2 B16 N1024 H32 E2048 full float16 cuda``."""
        s = self.shape
        return (
            f"{self.implementation} B{s.batch_size} N{s.seq_len} H{s.num_heads} E{s.emb_dim} "
            f"{'causal' if s.causal else 'full'} {self.dtype} {self.device}"
        )

    @property
    def slug(self) -> str:
        """The run as part of a file name: ``flash2-b16-n1024-h32-e2048-full-float16-cuda``."""
        return str(self).lower().replace(" ", "-")


def time_out_message(timeout_s: float) -> str:
    """The message of a record whose run was ended by its time limit."""
    return f"timed out after {timeout_s:g} s"


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def written_whole(path: Path, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file, of text or of bytes, that appears under `path` whole, or not at all.

    The content goes to a temporary file beside `path`, reaches the disk (fsync), and is renamed,
    so that a reader, a full disk or a kill never meets half of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        encoding, newline = (None, None) if binary else ("utf-8", "\n")
        mode = "wb" if binary else "w"
        with os.fdopen(descriptor, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_text(document: Any) -> str:
    """A JSON document as it is written; ValueError for NaN and infinity."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document whole or not at all; NaN and infinity are refused (ValueError)."""
    text = json_text(document)
    with written_whole(path) as file:
        file.write(text)


def write_json_if_changed(path: Path, document: Any) -> None:
    """Write a JSON document only where `path` holds another, so that its mtime means a change."""
    try:
        if path.read_text(encoding="utf-8") == json_text(document):
            return
    except FileNotFoundError:
        pass
    write_json(path, document)


@cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def check_record(document: Any, where: str) -> dict[str, Any]:
    """Return `document` if it is a record by the schema; RecordError naming `where` if not."""
    error = jsonschema.exceptions.best_match(_validator().iter_errors(document))
    if error is not None:
        key = ".".join(str(part) for part in error.absolute_path) or "the document"
        raise RecordError(f"{where}: {key}: {error.message}")
    checked: dict[str, Any] = document
    return checked


def write_record(path: Path, document: dict[str, Any]) -> None:
    """Check a record against its schema and write it whole or not at all."""
    write_json(path, check_record(document, str(path)))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def read_record(path: Path, expected: Run, sha256: str | None = None) -> dict[str, Any]:
    """Read the record of the run `expected`.

    RecordError where the file is missing, is no record, belongs to another run, or (where
    `sha256` is given, from a dataset's manifest) has changed since it was recorded.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{path}: the record of {expected} cannot be read ({error.strerror}); {REMEDY}"
        ) from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise RecordError(
            f"{path}: the file differs from its dataset's manifest (sha256). "
            "Restore it, or record the dataset again."
        )
    try:
        document = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON ({error}); {REMEDY}") from error
    record = check_record(document, str(path))
    found = Run.from_json(record["record"]["run"])
    if found != expected:
        raise RecordError(f"{path}: holds the run {found}, but {expected} was asked for")
    return record
