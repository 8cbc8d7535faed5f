"""A report's PDF taken apart: the data attached to it, its text, and its drawings.

The PDF is not trusted: it is read within bounds, and no link or action in it is followed.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdf
from pypdf.generic import ArrayObject, DictionaryObject, StreamObject

from flashlab.config import ConfigError, Layer, resolve_config
from flashlab.course import NotMeasuredError, result_of
from flashlab.grading.declared import of_record
from flashlab.grading.model import GradingError, Result
from flashlab.implementations import find_implementations
from flashlab.pictures import Picture, PictureError, picture_of, suffix_of
from flashlab.remarks import (
    Remark,
    RemarkError,
    image_addresses,
    image_names,
    remark_name,
    remark_of,
)
from flashlab.untrusted import UnsoundFileError, parse_json, read_bounded

RECORDS, FINDINGS, CONFIG = "records.jsonl.gz", "findings.json", "config.json"
CEILINGS, MANIFEST = "ceilings.json", "manifest.json"

MAX_PDF_BYTES = 256 * 1024**2
MAX_RECORDS_BYTES = 512 * 1024**2
MAX_PAGES = 2_000
MAX_FORMS = 20_000
MAX_DEPTH = 20


class UnsoundPdfError(GradingError):
    """A PDF that is not a report with its data attached; the message gives the reason."""


@dataclass(frozen=True)
class Page:
    """One page: its text in reading order, and hashes of its drawings and its annotations."""

    text: str
    drawing: str
    annotations: str


@dataclass(frozen=True)
class Opened:
    """A report's PDF: its attachments by name, its pages, and a hash of its metadata."""

    attachments: Mapping[str, bytes]
    pages: tuple[Page, ...]
    document: str


def _forms(resources: Any, seen: set[int]) -> list[bytes]:
    """The decoded content of all forms and images in these resources."""
    found: list[bytes] = []
    objects = resources.get("/XObject", {}) if isinstance(resources, DictionaryObject) else {}
    for name in sorted(objects):
        drawn = objects[name].get_object()
        if id(drawn) in seen or not isinstance(drawn, StreamObject):
            continue
        if len(seen) > MAX_FORMS:
            raise UnsoundPdfError(f"a page has more than {MAX_FORMS} drawings, as no report has")
        seen.add(id(drawn))
        if drawn.get("/Subtype") == "/Image":
            digest = hashlib.sha256()
            _update(digest, drawn)
            found.append(digest.digest())
            continue
        found.append(drawn.get_data())
        found += _forms(drawn.get("/Resources", DictionaryObject()), seen)
    return found


def _update(digest: Any, value: Any, depth: int = 0) -> None:
    """Update a hash with a PDF object, whatever its object numbers; references to pages by type."""
    if depth > MAX_DEPTH:
        raise UnsoundPdfError(f"its objects are nested more than {MAX_DEPTH} deep, as in no report")
    value = value.get_object() if hasattr(value, "get_object") else value
    if isinstance(value, DictionaryObject):
        if value.get("/Type") in ("/Page", "/StructElem"):
            digest.update(str(value["/Type"]).encode())
            return
        for key in sorted(value.keys() - {"/P", "/Parent", "/StructParent"}):
            digest.update(key.encode() + b"\0")
            _update(digest, value.raw_get(key), depth + 1)
        if isinstance(value, StreamObject):
            digest.update(value.get_data())
    elif isinstance(value, ArrayObject):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _update(digest, item, depth + 1)
    else:
        digest.update(repr(value).encode() + b"\0")


def _annotations(page: pypdf.PageObject) -> str:
    digest = hashlib.sha256()
    _update(digest, page.get("/Annots", ArrayObject()))
    return digest.hexdigest()


def _document(reader: pypdf.PdfReader) -> str:
    """A hash of the title and other metadata, and of actions that run when the file is opened."""
    root, digest = reader.root_object, hashlib.sha256()
    for found in (reader.trailer.get("/Info"), root.get("/Metadata")):
        if found is not None:
            _update(digest, found)
    acting = root.keys() & {"/OpenAction", "/AA", "/AcroForm", "/Collection", "/URI"}
    digest.update(" ".join(sorted(acting)).encode())
    return digest.hexdigest()


def _page(page: pypdf.PageObject) -> Page:
    contents = page.get_contents()
    drawn = [contents.get_data() if contents is not None else b""]
    drawn += _forms(page.get("/Resources", DictionaryObject()), set())
    digest = hashlib.sha256()
    for part in drawn:
        digest.update(len(part).to_bytes(8) + part)
    return Page(page.extract_text(), digest.hexdigest(), _annotations(page))


def open_pdf(content: bytes) -> Opened:
    """Attachments and pages of a PDF; UnsoundPdfError if it cannot be read as one."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if len(reader.pages) > MAX_PAGES:
            raise UnsoundPdfError(f"it has more than {MAX_PAGES} pages, as no report has")
        attachments: dict[str, bytes] = {}
        for attachment in reader.attachment_list:
            if attachment.name in attachments:
                raise UnsoundPdfError(f"{attachment.name!r} is attached twice")
            attachments[attachment.name] = attachment.content
        pages = tuple(_page(page) for page in reader.pages)
        return Opened(attachments, pages, _document(reader))
    except UnsoundPdfError:
        raise
    # A malformed PDF can make the parser raise anything.
    except Exception as error:
        raise UnsoundPdfError(f"it cannot be read as a PDF: {error}") from error


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
    try:
        return parse_json(attachments[name])
    except UnsoundFileError as problem:
        raise UnsoundPdfError(f"{name}: {problem}") from problem


def checked_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached configuration, resolved, with its remarks as attached.

    UnsoundPdfError if it is not valid, a remark is not attached, or an implementation does not
    exist here.
    """
    config = attached_json(attachments, CONFIG)
    if not isinstance(config, dict):
        raise UnsoundPdfError(f"{CONFIG}: it is not a configuration")
    try:
        resolved = resolve_config([Layer(CONFIG, config)], find_implementations())
    except ConfigError as error:
        raise UnsoundPdfError(f"{CONFIG}: {error}") from error
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


def attached_records(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached records by file name; UnsoundPdfError if a line is malformed."""
    if RECORDS not in attachments:
        raise UnsoundPdfError(f"{RECORDS} is not attached")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        lines = unpacker.decompress(attachments[RECORDS], MAX_RECORDS_BYTES)
    except zlib.error as error:
        raise UnsoundPdfError(f"{RECORDS}: {error}") from error
    if not unpacker.eof:
        raise UnsoundPdfError(
            f"{RECORDS}: it is truncated, or has more than {MAX_RECORDS_BYTES} bytes uncompressed"
        )
    records: dict[str, Any] = {}
    for number, line in enumerate(lines.splitlines(), start=1):
        where = f"{RECORDS}: line {number}"
        try:
            entry = parse_json(line)
        except UnsoundFileError as problem:
            raise UnsoundPdfError(f"{where}: {problem}") from problem
        if not isinstance(entry, dict) or entry.keys() != {"file", "record"}:
            raise UnsoundPdfError(f"{where}: it must be an object with the keys file and record")
        name = entry["file"]
        if not isinstance(name, str) or Path(name).name != name or name in records:
            raise UnsoundPdfError(f"{where}: {name!r} is not a file name, or occurs twice")
        records[name] = entry["record"]
    return records
