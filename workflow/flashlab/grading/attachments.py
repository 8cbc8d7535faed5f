"""A report's PDF taken apart: the data that is attached to it, its text, and its drawings.

The PDF is somebody else's: it is read as bytes within bounds, and nothing in it is followed.
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
    """A PDF that is no report with its data in it; the message says why."""


@dataclass(frozen=True)
class Page:
    """One page: its text in reading order, and hashes of what is drawn and what lies on it."""

    text: str
    drawing: str
    annotations: str


@dataclass(frozen=True)
class Opened:
    """A report's PDF: its attachments by name, its pages, and a hash of what it says of itself."""

    attachments: Mapping[str, bytes]
    pages: tuple[Page, ...]
    document: str


def _forms(resources: Any, seen: set[int]) -> list[bytes]:
    """The decoded content of all forms and images that are drawn from these resources."""
    found: list[bytes] = []
    objects = resources.get("/XObject", {}) if isinstance(resources, DictionaryObject) else {}
    for name in sorted(objects):
        drawn = objects[name].get_object()
        if id(drawn) in seen or not isinstance(drawn, StreamObject):
            continue
        if len(seen) > MAX_FORMS:
            raise UnsoundPdfError("more drawings on a page than any report has")
        seen.add(id(drawn))
        if drawn.get("/Subtype") == "/Image":
            digest = hashlib.sha256()
            _fed(digest, drawn)
            found.append(digest.digest())
            continue
        found.append(drawn.get_data())
        found += _forms(drawn.get("/Resources", DictionaryObject()), seen)
    return found


def _fed(digest: Any, value: Any, depth: int = 0) -> None:
    """Feed a PDF object to a hash, whatever its object numbers are; links to pages as such."""
    if depth > MAX_DEPTH:
        raise UnsoundPdfError("objects nested deeper than in any report")
    value = value.get_object() if hasattr(value, "get_object") else value
    if isinstance(value, DictionaryObject):
        if value.get("/Type") in ("/Page", "/StructElem"):
            digest.update(str(value["/Type"]).encode())
            return
        for key in sorted(value.keys() - {"/P", "/Parent", "/StructParent"}):
            digest.update(key.encode() + b"\0")
            _fed(digest, value.raw_get(key), depth + 1)
        if isinstance(value, StreamObject):
            digest.update(value.get_data())
    elif isinstance(value, ArrayObject):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _fed(digest, item, depth + 1)
    else:
        digest.update(repr(value).encode() + b"\0")


def _annotations(page: pypdf.PageObject) -> str:
    digest = hashlib.sha256()
    _fed(digest, page.get("/Annots", ArrayObject()))
    return digest.hexdigest()


def _document(reader: pypdf.PdfReader) -> str:
    """A hash of the title and its like, and of what would act when the file is opened."""
    root, digest = reader.root_object, hashlib.sha256()
    for found in (reader.trailer.get("/Info"), root.get("/Metadata")):
        if found is not None:
            _fed(digest, found)
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
    """Attachments and pages of a PDF; UnsoundPdfError where it cannot be read as one."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if len(reader.pages) > MAX_PAGES:
            raise UnsoundPdfError(f"more than {MAX_PAGES} pages")
        attachments: dict[str, bytes] = {}
        for attachment in reader.attachment_list:
            if attachment.name in attachments:
                raise UnsoundPdfError(f"the attachment {attachment.name!r} is there twice")
            attachments[attachment.name] = attachment.content
        pages = tuple(_page(page) for page in reader.pages)
        return Opened(attachments, pages, _document(reader))
    except UnsoundPdfError:
        raise
    # What a malformed PDF can make a parser raise is not to be foreseen.
    except Exception as error:
        raise UnsoundPdfError(f"it cannot be read as a PDF: {error}") from error


def read_pdf(path: Path) -> Opened:
    """Read a PDF from a regular file; UnsoundPdfError naming it where that cannot be done."""
    try:
        return open_pdf(read_bounded(str(path), most=MAX_PDF_BYTES))
    except UnsoundFileError as problem:
        raise UnsoundPdfError(f"{path}: {problem}") from problem
    except UnsoundPdfError as error:
        raise UnsoundPdfError(f"{path}: {error}") from error


def attached_json(attachments: Mapping[str, bytes], name: str) -> Any:
    """A JSON attachment, read strictly; UnsoundPdfError where it is missing or unsound."""
    if name not in attachments:
        raise UnsoundPdfError(
            f"nothing named {name} is attached; only reports with their data in them can be "
            "verified"
        )
    try:
        return parse_json(attachments[name])
    except UnsoundFileError as problem:
        raise UnsoundPdfError(f"{name}: {problem}") from problem


def checked_config(attachments: Mapping[str, bytes]) -> dict[str, Any]:
    """The attached configuration, valid, with its remarks as they are attached.

    UnsoundPdfError where it is not valid, lacks a remark, or asks for an implementation that is
    not here.
    """
    config = attached_json(attachments, CONFIG)
    if not isinstance(config, dict):
        raise UnsoundPdfError(f"{CONFIG}: it is no configuration")
    try:
        resolved = resolve_config([Layer(CONFIG, config)], find_implementations())
    except ConfigError as error:
        raise UnsoundPdfError(str(error)) from error
    # The configuration says where they lay on the author's machine, which is not looked at.
    resolved["remarks"] = {
        experiment: {language: remark_name(experiment, language) for language in by_language}
        for experiment, by_language in resolved["remarks"].items()
    }
    for name in (name for names in resolved["remarks"].values() for name in names.values()):
        if name not in attachments:
            raise UnsoundPdfError(f"nothing named {name} is attached")
    return resolved


def attached_remarks(attachments: Mapping[str, bytes], config: Mapping[str, Any]) -> list[Remark]:
    """The attached remarks with their images; UnsoundPdfError where one is missing or unsound."""
    found = []
    for experiment, by_language in config["remarks"].items():
        for language, file in by_language.items():
            content = attachments[file]
            addresses = image_addresses(content.decode("utf-8-sig", errors="replace"))
            names = image_names(experiment, language, addresses)

            def picture(address: str, names: Mapping[str, str] = names) -> Picture:
                name = names[address]
                if name not in attachments:
                    raise PictureError(f"nothing named {name} is attached")
                return picture_of(attachments[name], suffix_of(name))

            try:
                found.append(remark_of(experiment, language, file, content, picture))
            except RemarkError as error:
                raise UnsoundPdfError(str(error)) from error
    return found


def results_of(attachments: Mapping[str, bytes]) -> list[Result]:
    """The attached records that have numbers, as results that are declared by their own runs."""
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
    """The attached records by file name; UnsoundPdfError where a line is not what it should be."""
    if RECORDS not in attachments:
        raise UnsoundPdfError(f"nothing named {RECORDS} is attached")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        lines = unpacker.decompress(attachments[RECORDS], MAX_RECORDS_BYTES)
    except zlib.error as error:
        raise UnsoundPdfError(f"{RECORDS}: {error}") from error
    if not unpacker.eof:
        raise UnsoundPdfError(f"{RECORDS}: it is cut off or unpacks to too much")
    records: dict[str, Any] = {}
    for number, line in enumerate(lines.splitlines(), start=1):
        where = f"{RECORDS}: line {number}"
        try:
            entry = parse_json(line)
        except UnsoundFileError as problem:
            raise UnsoundPdfError(f"{where}: {problem}") from problem
        if not isinstance(entry, dict) or entry.keys() != {"file", "record"}:
            raise UnsoundPdfError(f"{where}: it is not a record with its file's name")
        name = entry["file"]
        if not isinstance(name, str) or Path(name).name != name or name in records:
            raise UnsoundPdfError(f"{where}: {name!r} is no name of a file, or is there twice")
        records[name] = entry["record"]
    return records
