"""A report's attachments, read within bounds and checked: the data that it was rendered from.

The PDF is not trusted: every file, line and document in it has a limit.
"""

from __future__ import annotations

import io
import json
import statistics
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, reported_config, resolve_config
from flashlab.course import NotMeasuredError, agree, result_of
from flashlab.files import json_text
from flashlab.implementations import implementations_of
from flashlab.pictures import Picture, PictureError, picture_of, suffix_of
from flashlab.plan import protocol_of
from flashlab.records import SCHEMAS, parse_record
from flashlab.remarks import (
    Remark,
    RemarkError,
    image_addresses,
    image_names,
    remark_name,
    remark_of,
)
from flashlab.untrusted import MAX_FILE_BYTES, UnsoundFileError, parse_json, read_bounded
from flashlab_grading.declared import of_record
from flashlab_grading.model import Result
from flashlab_grading.pdf_comparison import read_attachments
from flashlab_grading.strict_pdf import MAX_PDF_BYTES, StrictPdf, UnsoundPdfError

RECORDS, FINDINGS, CONFIG = "records.jsonl.gz", "findings.json", "config.json"
CEILINGS, MANIFEST = "ceilings.json", "manifest.json"

MAX_ATTACHMENT_BYTES = 64 * 1024**2
MAX_ATTACHED_BYTES = 128 * 1024**2
MAX_RECORDS_BYTES = 64 * 1024**2
MAX_RECORDS = 5_000
MAX_NAME_BYTES = 200

_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0"
"""Without a name, a comment or a time; two bytes follow that name the level and the system."""


@dataclass(frozen=True)
class Opened:
    """A report's PDF: its bytes, its objects, and its attachments by name."""

    content: bytes
    pdf: StrictPdf
    attachments: Mapping[str, bytes]


def open_pdf(content: bytes) -> Opened:
    """A PDF with its attachments; UnsoundPdfError if it is not as FlashLab writes one."""
    try:
        pdf = StrictPdf(content)
        found = read_attachments(pdf, MAX_ATTACHMENT_BYTES, MAX_ATTACHED_BYTES)
    # What a damaged table or dictionary makes the parser raise has no better name.
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UnsoundPdfError(f"it cannot be read as a PDF: {type(error).__name__}") from error
    return Opened(content, pdf, found)


def read_pdf(path: Path) -> Opened:
    """Read a PDF from a regular file; UnsoundPdfError naming the file if that is impossible."""
    try:
        return open_pdf(read_bounded(str(path), most=MAX_PDF_BYTES))
    except UnsoundFileError as problem:
        raise UnsoundPdfError(f"{path}: {problem}") from problem
    except UnsoundPdfError as error:
        raise UnsoundPdfError(f"{path}: {error}") from error


def attached_json(attachments: Mapping[str, bytes], name: str) -> Any:
    """A JSON attachment, parsed strictly; UnsoundPdfError if it is missing or unsound."""
    if name not in attachments:
        raise UnsoundPdfError(
            f"{name} is not attached; only a report with its data attached can be verified"
        )
    return _parsed(attachments[name], name)


def _parsed(content: bytes, where: str) -> Any:
    """A JSON text, parsed strictly; UnsoundPdfError naming `where` if it is unsound."""
    if len(content) > MAX_FILE_BYTES:
        raise UnsoundPdfError(f"{where}: it has more than {MAX_FILE_BYTES} bytes")
    try:
        document = parse_json(content)
        json.dumps(document, ensure_ascii=False).encode()
    except UnsoundFileError as problem:
        raise UnsoundPdfError(f"{where}: {problem}") from problem
    except UnicodeEncodeError as error:
        raise UnsoundPdfError(f"{where}: it has half of a surrogate pair") from error
    return document


def _resolved_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    config = attached_json(attachments, CONFIG)
    if not isinstance(config, dict):
        raise UnsoundPdfError(f"{CONFIG}: it is not a configuration")
    layers = [Layer(CONFIG, config)]
    try:
        return resolve_config(layers, implementations_of(find_benchmark(named_benchmark(layers))))
    except ConfigError as error:
        raise UnsoundPdfError(f"{CONFIG}: {error}") from error


def config_differences(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """Whether the configuration is written otherwise than FlashLab writes it."""
    written = json_text(reported_config(_resolved_config(attachments))).encode()
    if written != attachments[CONFIG]:
        yield f"{CONFIG}: it is not as FlashLab writes it: a key too many, their order, or spacing"


def checked_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached configuration, resolved, with its remarks as attached.

    UnsoundPdfError if it is not valid, a remark is not attached, or an implementation does not
    exist here.
    """
    resolved = _resolved_config(attachments)
    # The configuration has their paths on the author's machine, which are not used.
    resolved["remarks"] = {
        experiment: {language: remark_name(experiment, language) for language in by_language}
        for experiment, by_language in resolved["remarks"].items()
    }
    for name in (name for names in resolved["remarks"].values() for name in names.values()):
        if name not in attachments:
            raise UnsoundPdfError(f"{name} is not attached")
    return resolved


def attached_remarks(attachments: Mapping[str, bytes], config: Mapping[str, Any]) -> list[Remark]:
    """The attached remarks with their images; UnsoundPdfError if one is missing or unsound."""
    found = []
    for experiment, by_language in config["remarks"].items():
        for language, file in by_language.items():
            content = attachments[file]
            addresses = image_addresses(content.decode("utf-8-sig", errors="replace"))
            names = image_names(experiment, language, addresses)

            def picture(address: str, names: Mapping[str, str] = names) -> Picture:
                name = names[address]
                if name not in attachments:
                    raise PictureError(f"{name} is not attached")
                return picture_of(attachments[name], suffix_of(name))

            try:
                found.append(remark_of(experiment, language, file, content, picture))
            except RemarkError as error:
                raise UnsoundPdfError(str(error)) from error
    return found


def results_of(attachments: Mapping[str, bytes]) -> list[Result]:
    """The attached records that have numbers, as results declared by their own runs."""
    results = []
    for name, record in attached_records(attachments).items():
        try:
            result = result_of(record)
        except NotMeasuredError:
            continue
        except UnsoundFileError as problem:
            raise UnsoundPdfError(f"{name}: {problem}") from problem
        if result.claim is None:
            raise UnsoundPdfError(f"{name}: it is not a record")
        results.append(Result(name, result.numbers, of_record(result.claim)))
    return results


def _is_file_name(name: Any) -> bool:
    """Whether this can name a record's file, here and on any other machine."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and name.endswith(".json")
        and not name.startswith(".")
        and not {"/", "\\"} & set(name)
        and len(name.encode()) <= MAX_NAME_BYTES
    )


def unpacked_records(attachments: Mapping[str, bytes]) -> bytes:
    """The lines of the attached records; UnsoundPdfError unless they are packed once and alone."""
    if RECORDS not in attachments:
        raise UnsoundPdfError(f"{RECORDS} is not attached")
    packed = attachments[RECORDS]
    if not packed.startswith(_GZIP_HEADER):
        raise UnsoundPdfError(f"{RECORDS}: it is not packed as FlashLab does, with a bare header")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        lines = unpacker.decompress(packed, MAX_RECORDS_BYTES)
    except zlib.error as error:
        raise UnsoundPdfError(f"{RECORDS}: {error}") from error
    if not unpacker.eof:
        raise UnsoundPdfError(
            f"{RECORDS}: it is truncated, or has more than {MAX_RECORDS_BYTES} bytes uncompressed"
        )
    if unpacker.unused_data:
        raise UnsoundPdfError(f"{RECORDS}: something follows the packed records")
    return lines


def attached_records(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached records by file name; UnsoundPdfError if a line is malformed."""
    records: dict[str, Any] = {}
    for number, line in enumerate(io.BytesIO(unpacked_records(attachments)), start=1):
        where = f"{RECORDS}: line {number}"
        if number > MAX_RECORDS:
            raise UnsoundPdfError(f"{where}: there are more than {MAX_RECORDS} lines")
        entry = _parsed(line, where)
        if not isinstance(entry, dict) or entry.keys() != {"file", "record"}:
            raise UnsoundPdfError(f"{where}: it must be an object with the keys file and record")
        name = entry["file"]
        if not _is_file_name(name) or name in records:
            raise UnsoundPdfError(f"{where}: {name!r} is not a file name, or occurs twice")
        records[name] = entry["record"]
    return records


def record_differences(name: str, document: Any) -> Iterator[str]:
    """Where a record's own summary does not follow from its samples and its shape.

    RecordError if it is no record.
    """
    record = parse_record(document, name)
    yield from _date_differences(name, record.started)
    if record.status != "ok":
        return
    for metric, measured in record.metrics.items():
        if measured.samples and not agree(measured.value, statistics.median(measured.samples)):
            yield f"{name}: {metric}: the value is not the median of its samples"
    for key, value in record.top_level_keys().items():
        yield from _number_differences(f"{name}: {key}", document.get(key), value)


def _date_differences(name: str, started: str) -> Iterator[str]:
    try:
        dated = datetime.fromisoformat(started).tzinfo is not None
    except ValueError:
        dated = False
    if not dated:
        yield f"{name}: started: {started[:40]!r} is not a date and time with its zone"


def _number_differences(where: str, stated: Any, follows: Any) -> Iterator[str]:
    """Where a number, or a mapping of numbers, is not what follows from the metrics."""
    if isinstance(follows, Mapping) and isinstance(stated, Mapping):
        for key, value in follows.items():
            yield from _number_differences(f"{where}: {key}", stated.get(key), value)
        for key in sorted(stated.keys() - follows.keys()):
            yield f"{where}: {key} does not belong in a record"
    elif not isinstance(stated, (int, float)) or not agree(stated, follows):
        yield f"{where}: it says {stated}, and the run's metrics give {follows:.9g}"


def setting_differences(config: Mapping[str, Any], records: Mapping[str, Any]) -> Iterator[str]:
    """Where the configuration states settings that measured none of the records."""
    inner = [document["record"] for document in records.values()]
    name = config["measure"]["protocol"]
    stated = [record["protocol"] for record in inner if record["protocol"]["name"] == name]
    if inner and not stated:
        yield f"{CONFIG}: measure.protocol: no record was measured by {name}"
    for device in sorted({record["run"]["device"] for record in inner}):
        for key, value in protocol_of(config, device).items():
            values = [protocol[key] for protocol in stated if key in protocol]
            if values and value not in values:
                where = key if key == "timeout_s" else f"{name}.{key}"
                yield f"{CONFIG}: measure.{where}: it says {value}, and the records {values[0]}"


@cache
def _ceilings_validator() -> jsonschema.Draft202012Validator:
    path = SCHEMAS / "ceilings.schema.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def ceiling_differences(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """Where the attached ceilings do not follow from their samples.

    UnsoundPdfError if they are malformed.
    """
    if CEILINGS not in attachments:
        return
    document = attached_json(attachments, CEILINGS)
    error = jsonschema.exceptions.best_match(_ceilings_validator().iter_errors(document))
    if error is not None:
        key = ".".join(map(str, error.absolute_path)) or "the document"
        raise UnsoundPdfError(f"{CEILINGS}: {key}: {error.message[:200]}")
    if json_text(document).encode() != attachments[CEILINGS]:
        yield f"{CEILINGS}: it is not as FlashLab writes it: a value, or its spacing"
    yield from _date_differences(CEILINGS, document["started"])
    measured = {f"matrix_product.{key}": m for key, m in document["matrix_product"].items()}
    for name, own in {**measured, "copy": document["copy"]}.items():
        seconds = own["time(s)"]
        if own["samples"] and not agree(seconds, statistics.median(own["samples"])):
            yield f"{CEILINGS}: {name}: time(s) is not the median of the samples"
        if name == "copy":
            key, follows = "bandwidth(GB/s)", 2 * own["bytes"] / seconds / 1e9
        else:
            key, follows = "rate(TFLOPs/s)", 2 * own["size"] ** 3 / seconds / 1e12
        if not agree(own[key], follows):
            yield f"{CEILINGS}: {name}: {key}: it says {own[key]}, and the time gives {follows:.9g}"
