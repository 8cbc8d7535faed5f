"""A report's attachments, read within bounds: the file is not trusted."""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, resolve_config
from flashlab.pictures import Picture, PictureError, picture_of
from flashlab.remarks import Remark, RemarkError, remark_name, remark_of
from flashlab.report.software import is_software
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, parse_json

RECORDS, CONFIG, MANIFEST = "records.jsonl.gz", "config.json", "manifest.json"
CEILINGS = "ceilings.json"

MAX_RECORDS_BYTES = 64 * 1024**2
MAX_RECORDS = 5_000
MAX_NAME_BYTES = 200
FILE_NAME = re.compile(r"(?!\.)[\w.+-]+\.json")
"""What a record's file can be called, here and on any other machine."""


class AttachmentError(Exception):
    """A report's attachments are missing, malformed, or do not belong together."""


def parsed(content: bytes, where: str) -> Any:
    """A JSON text, parsed strictly; AttachmentError naming `where` if it is unsound."""
    if len(content) > MAX_FILE_BYTES:
        raise AttachmentError(f"{where}: it has more than {MAX_FILE_BYTES} bytes")
    try:
        document = parse_json(content)
        json.dumps(document, ensure_ascii=False).encode()
    except UnsoundFileError as problem:
        raise AttachmentError(f"{where}: {problem}") from problem
    except UnicodeEncodeError as error:
        raise AttachmentError(f"{where}: it has half of a surrogate pair") from error
    return document


def attachment(attachments: Mapping[str, bytes], name: str) -> bytes:
    """An attachment; AttachmentError if it is not there."""
    if name not in attachments:
        raise AttachmentError(
            f"{name} is not attached; only a report with its data attached can be verified"
        )
    return attachments[name]


def read_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached configuration, resolved, with its remarks as attached.

    AttachmentError if it is not valid, a remark is not attached, or an implementation is not here.
    """
    config = parsed(attachment(attachments, CONFIG), CONFIG)
    if not isinstance(config, dict):
        raise AttachmentError(f"{CONFIG}: it is not a configuration")
    layers = [Layer(CONFIG, config)]
    try:
        known = implementations_of(find_benchmark(named_benchmark(layers)))
        resolved = resolve_config(layers, known)
    except ConfigError as error:
        raise AttachmentError(
            f"{CONFIG}: {error}. A report with kernels or settings that are not here cannot be "
            "rebuilt here"
        ) from error
    # The configuration has their paths on the author's machine, which are not used.
    resolved["remarks"] = {
        experiment: {language: remark_name(experiment, language) for language in by_language}
        for experiment, by_language in resolved["remarks"].items()
    }
    for name in (name for names in resolved["remarks"].values() for name in names.values()):
        attachment(attachments, name)
    return resolved


def read_remarks(attachments: Mapping[str, bytes], config: Mapping[str, Any]) -> list[Remark]:
    """The attached remarks with their images; AttachmentError if one is missing or unsound."""

    def picture(_: str, name: str) -> Picture:
        if name not in attachments:
            raise PictureError(f"{name} is not attached")
        return picture_of(attachments[name])

    try:
        return [
            remark_of(experiment, language, file, attachments[file], picture)
            for experiment, by_language in config["remarks"].items()
            for language, file in by_language.items()
        ]
    except RemarkError as error:
        raise AttachmentError(str(error)) from error


def stated_software(attachments: Mapping[str, bytes]) -> Mapping[str, Any] | None:
    """The software that the manifest says rendered the report; None where it does not say so."""
    manifest = parsed(attachments.get(MANIFEST, b"null"), MANIFEST)
    stated = manifest.get("software") if isinstance(manifest, dict) else None
    return stated if is_software(stated) else None


def read_records(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached records by file name; AttachmentError if they are packed in another form."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        lines = unpacker.decompress(attachment(attachments, RECORDS), MAX_RECORDS_BYTES)
    except zlib.error as error:
        raise AttachmentError(f"{RECORDS}: {error}") from error
    if not unpacker.eof:
        raise AttachmentError(
            f"{RECORDS}: it is truncated, or has more than {MAX_RECORDS_BYTES} bytes uncompressed"
        )
    if unpacker.unused_data:
        raise AttachmentError(f"{RECORDS}: something follows the packed records")
    records: dict[str, Any] = {}
    for number, line in enumerate(io.BytesIO(lines), start=1):
        where = f"{RECORDS}: line {number}"
        if number > MAX_RECORDS:
            raise AttachmentError(f"{where}: there are more than {MAX_RECORDS} lines")
        entry = parsed(line, where)
        if not isinstance(entry, dict) or entry.keys() != {"file", "record"}:
            raise AttachmentError(f"{where}: it must be an object with the keys file and record")
        name = entry["file"]
        is_name = isinstance(name, str) and FILE_NAME.fullmatch(name)
        if not is_name or len(name.encode()) > MAX_NAME_BYTES or name in records:
            raise AttachmentError(f"{where}: {name!r} is not a file name, or occurs twice")
        records[name] = entry["record"]
    return records
