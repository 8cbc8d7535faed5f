"""A report checked against its own data: rebuilt from its attachments, and compared with that.

This proves that a report and its data belong together, not where the data came from. So the data
are checked as a submission's are, which is a second answer. Both PDFs are compared as graphs: all
that a reader can reach from the trailer, side by side. Object numbers, cross-references, object
streams, compression, /ID and what `OF_WRITER` names may differ, as in a file that another program
has saved. The file is not trusted: it is walked only as far as the one that its data give.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pikepdf
import pypdfium2
from pikepdf import Array, Dictionary, Name, Pdf, Stream, String

from flashlab.config import ConfigError
from flashlab.files import open_atomically, read_json
from flashlab.lab5.results import Folder, take
from flashlab.report.attachments import CONFIG
from flashlab.report.rebuild import (
    AttachmentError,
    attachment,
    other_software,
    parsed,
    read_records,
    rebuild,
)
from flashlab.untrusted import UnsoundFileError, read_bounded
from flashlab_grading.sheets import escaped, grouped, told
from flashlab_grading.submissions import apart, check_alone, submission_of

MAX_STREAM, MAX_ROW, MAX_XMP = 2**26, 2**20, 2**15
"""Most bytes of a stream, of a row of a picture, and of XMP that is read."""
ROUNDING = Decimal(2) ** -22
"""Largest relative difference of equal reals, which some programs keep as single precision."""
PACKED = (None, Name.FlateDecode, Array([Name.FlateDecode]))
"""The filters that are undone; what is packed otherwise must have the same bytes as it is."""
PACKING, OF_WRITER = {"/Length", "/Filter", "/DecodeParms"}, {"/ModDate", "/Producer"}
XMP, INFO = ("the document", "/Metadata"), ("the document", "/Info")
XMP_WRAPPING = rb'^<\?xpacket begin="[^"]{0,3}" id="\w+"\?>\s*|\s*<\?xpacket end="[rw]"\?>\s*$'
Place = tuple[str, ...]
"""A part, such as ``page 3``, and the keys and positions that lead to what is within."""


class UnsoundPdfError(ConfigError):
    """A file that is not a report with its data attached, or not a PDF."""


@contextmanager
def one_message(what: str) -> Iterator[None]:
    """UnsoundPdfError in place of whatever data that somebody has altered makes of reading it."""
    try:
        yield
    except (UnsoundPdfError, ModuleNotFoundError):  # a missing library is no fault of the data
        raise
    except AttachmentError as error:
        raise UnsoundPdfError(str(error)) from error
    except Exception as error:
        text = re.sub(r"(?i)\w* ?<_io\.BytesIO[^>]*>:? ?|^error: ", "", str(error))[:300]
        raise UnsoundPdfError(f"{what}: {type(error).__name__}: {text}") from error


def opened(content: bytes) -> Pdf:
    """A PDF as qpdf reads it, whose streams are bounded; a damaged one is not repaired."""
    pikepdf.settings.set_qpdf_limits(  # for the whole process
        flate_max_memory=MAX_STREAM, png_max_memory=MAX_ROW, tiff_max_memory=MAX_ROW
    )
    return pikepdf.open(io.BytesIO(content), suppress_warnings=True, attempt_recovery=False)


def _content(stream: Any, place: Place) -> tuple[str, bytes]:
    """How the bytes of a stream still are packed, and the bytes; of XMP those of its content."""
    if stream.get("/Filter") not in PACKED:
        packing = f"{stream.Filter!r} {stream.get('/DecodeParms')!r}"
        return packing, bytes(stream.read_raw_bytes())
    data = bytes(stream.read_bytes())
    is_xmp = place == XMP and len(data) < MAX_XMP and b"<!" not in data  # no entities of its own
    if is_xmp and data.startswith((b"<?xpacket", b"<x:xmpmeta")):
        data = ElementTree.canonicalize(re.sub(XMP_WRAPPING, b"", data).decode()).encode()
    return "", data


def _parts(pdf: Pdf) -> dict[Place, Any]:
    """The pages, attachments and other parts."""
    root: Any = pdf.Root
    return {
        ("the list of pages",): root.Pages,
        **{(f"page {i}",): page.obj for i, page in enumerate(pdf.pages, start=1)},
        **{(f"attachment {name}",): file.obj for name, file in pdf.attachments.items()},
        **{("the document", key): root[key] for key in root if key != "/Pages"},
        INFO: pdf.trailer.get("/Info", Dictionary()),
    }


def _walk(place: Place, part: Any, reached: dict[Any, Place]) -> Iterator[tuple[Place, Any]]:
    """The place and value of all within a part, by depth and in order.

    Of what is reached again the value is the place where it was reached first, so circles end.
    """
    waiting = [(place, part)]
    while waiting:
        place, value = waiting.pop()
        if not isinstance(value, Array | Dictionary | Stream):
            other = value if type(value) in (int, Decimal) else str(value)
            is_text = isinstance(value, String)
            yield place, f"“{value}”\0{bytes(value).hex()}" if is_text else other
        elif value.is_indirect and (first := reached.setdefault(value.objgen, place)) != place:
            yield place, " ".join(first)
        elif isinstance(value, Array):
            yield place, f"a list of {len(value)}"
            waiting += reversed([((*place, f"{i:07}"), x) for i, x in enumerate(value, start=1)])
        else:
            is_stream = isinstance(value, Stream)
            yield place, _content(value, place) if is_stream else "a dictionary"
            leave = PACKING if is_stream else OF_WRITER if place == INFO else set()
            keys = sorted(set(value.keys()) - leave, reverse=True)
            waiting += [((*place, key), value[key]) for key in keys]


def _is_same(one: Any, other: Any) -> bool:
    if {Decimal} <= {type(one), type(other)} <= {Decimal, int}:
        return bool(abs(one - other) <= ROUNDING * max(abs(one), abs(other)))
    return bool(one == other)


def _compared(found: Pdf, made: Pdf) -> Iterator[tuple[str, str]]:
    """Each part that differs, and how: what differs first in it."""
    parts = [_parts(pdf) for pdf in (found, made)]
    known = [  # so that none is taken for what is in another; of two places of one, the first
        {part.objgen: at for at, part in reversed(own.items()) if getattr(part, "is_indirect", 0)}
        for own in parts
    ]
    for start in {**parts[1], **parts[0]}:
        walks = [
            _walk(start, own[start], reached) if start in own else iter(())
            for own, reached in zip(parts, known, strict=True)
        ]
        for (place, one), (at, other) in zip_longest(*walks, fillvalue=(("~",), "")):
            if place == at and _is_same(one, other):
                continue
            says, gives = (str(value).partition("\0")[0][:80] for value in (one, other))
            said = f"it is {says}, and the data give {gives}"
            said = "its bytes differ" if isinstance(one, tuple) else said
            said = said if place == at else "it is added" if place < at else "it is missing"
            keys = min(place, at)[1:]
            shown = " ".join(key.lstrip("/0") for key in keys[:2] + keys[2:][-4:])
            yield start[0], f"{said} ({shown})" if shown else said
            break


def _differences(found: bytes, made: bytes) -> list[tuple[str, str]]:
    files = [opened(content) for content in (found, made)]
    if any(file.is_encrypted for file in files):
        raise UnsoundPdfError("it is encrypted")
    for packed in (x for x in files[0].objects if isinstance(x, Stream)):
        if packed.get("/Type") == Name.ObjStm:
            numbers = packed.read_bytes()[: int(packed.First)].split()[::2]
            if len(numbers) != len(set(numbers)):  # programs take the first, or the last
                raise UnsoundPdfError("it has an object twice")
    said = list(_compared(*files))
    for text in (text for file in files for text in file.get_warnings()):
        raise pikepdf.PdfError(str(text))
    return said


def differences(found: bytes, made: bytes) -> list[tuple[str, str]]:
    """The parts of a report's PDF that differ from the one that its data give, each with how.

    By qpdf; if none does, as PDFium reads and writes it: a file can be made that shows a page in
    readers and another one to qpdf. UnsoundPdfError for one that is encrypted, damaged, or larger
    than any report.
    """
    with one_message("it cannot be read as a PDF"):
        if said := _differences(found, made):
            return said
        written = io.BytesIO()
        pypdfium2.PdfDocument(found).save(written, flags=pypdfium2.raw.FPDF_NO_INCREMENTAL)
        # PDFium writes packed XMP as it is, but without its filter; qpdf's has been compared.
        xmp = "the document", "(Metadata)"
        again = (x for x in _differences(written.getvalue(), made) if (x[0], x[1][-10:]) != xmp)
        return [(part, f"as other programs read it, {text}") for part, text in again]


# The report


MAX_SECONDS, MAX_PDF_BYTES = 900.0, 2**25
"""Longest time for one report, and most bytes of it."""

SHOWN, MAX_CHARACTERS = 40, 120
"""Differences that are listed, and characters of a line that differs."""

BELONG, DIFFER, OTHER_SOFTWARE, OTHER_BYTES = 0, 1, 3, 4
"""Exit statuses; 2 is that of a wrong command line."""


def attachments_of(content: bytes) -> dict[str, bytes]:
    """The attached files by name."""
    with one_message("it cannot be read as a PDF"), opened(content) as pdf:
        return {name: file.get_file().read_bytes() for name, file in pdf.attachments.items()}


def _first_line(page: int, *files: bytes) -> str:
    """The first line of a page, from 1, that differs as PDFium reads it, in words."""
    texts: list[list[str]] = [[] for _ in files]
    for text, content in zip(texts, files, strict=True):
        with suppress(pypdfium2.PdfiumError):  # it is no page to PDFium
            read = pypdfium2.PdfDocument(content)[page - 1].get_textpage().get_text_range()
            text += str(read).splitlines()
    for number, lines in enumerate(zip_longest(*texts, fillvalue="nothing"), start=1):
        if lines[0] != lines[1]:
            says, gives = (line[:MAX_CHARACTERS] for line in lines)
            return f": line {number}: it says “{says}”, and its data give “{gives}”"
    return ""


def _compare(content: bytes, attachments: Mapping[str, bytes]) -> tuple[int, str, list[str], bytes]:
    """The exit status, the answer in words, the differences, and the report that the data give.

    UnsoundPdfError if they give none.
    """
    with one_message("what rendered the report cannot be read"):
        other = other_software(attachments)
    made, failure = b"", "the report cannot be rebuilt from its data"
    try:
        with tempfile.TemporaryDirectory(prefix="flashlab-") as folder, one_message(failure):
            made = rebuild(attachments, Path(folder))
    except UnsoundPdfError:
        if not other:  # else what it states may render it all the same
            raise
    if made == content:
        return BELONG, "consistent: its data give this file, byte for byte", [], b""
    if other:
        said = f"not verified here: it states other software: {', '.join(other)}; verify it by that"
        return OTHER_SOFTWARE, said, [], made
    if not (found := differences(content, made)):
        said = "saved by another program: its data give all that it shows; keep the rebuilt one"
        return OTHER_BYTES, said, [], made
    texts = {part: f"{part}: {text}" for part, text in found}
    if page := next((part for part in texts if part.startswith("page ")), ""):
        texts[page] += _first_line(int(page.partition(" ")[2]), content, made)
    return DIFFER, "inconsistent: it is not the report that its data give", [*texts.values()], made


def _faults(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """What grading's own checks fail of the attached records, the second answer."""
    found = Folder()
    for name, record in read_records(attachments).items():
        take(found, f"report.pdf/{name}", json.dumps(record).encode())
    lines = check_alone(submission_of("report", found, None)).lines
    for group in grouped((line for line in lines if line.check != "coverage"), "fail"):
        yield f"  {group[0].check}: {told(group, 'en', escaped)}"


def verified(pdf: Path) -> tuple[int, list[str]]:
    """The exit status, and the lines to print; UnsoundPdfError for no report with its data."""
    try:
        content = read_bounded(str(pdf), most=MAX_PDF_BYTES)
        attachments = attachments_of(content)
        status, verdict, found, made = _compare(content, attachments)
    except (UnsoundFileError, UnsoundPdfError) as error:
        raise UnsoundPdfError(f"{pdf}: {error}") from error
    with one_message("the report's data cannot be checked"):
        config = parsed(attachment(attachments, CONFIG), CONFIG)  # of other software, perhaps
        own = [f"author.{key}" for key in config.get("author", {})] + ["the experiments' titles"]
        own += [name for name in sorted(attachments) if name.startswith("remark-")]
        is_known = config.get("benchmark", "attention") == "attention"
        faults = list(_faults(attachments)) if is_known else []
    said = "not checked, because grading knows the records of attention alone"
    said = "grading's checks of the records fail nothing" if is_known else said
    lines = [f"data: {'no measurement gives these records' if faults else said}", *faults]
    lines += [f"difference: {escaped(text)}" for text in found[:SHOWN]]
    lines += [f"and {len(found) - SHOWN} more differences"] if len(found) > SHOWN else []
    try:
        if made:
            kept = pdf.with_name(f"{pdf.stem}.rebuilt.pdf")
            lines.append(f"the rebuilt report: {kept}")
            with open_atomically(kept, binary=True) as file:
                file.write(made)
    except OSError as error:
        lines[-1] = f"the rebuilt report cannot be kept: {kept}: {error.strerror}"
    lines.append(f"the author's own, not verified: {escaped(', '.join(own))}")
    doubt = f"; {'and' if status == DIFFER else 'but'} no measurement gives its data"
    lines.append(f"verdict: {escaped(verdict)}{doubt * bool(faults)}")
    lines.append("Only the report and its own data are compared: invented data agree, too.")
    return (DIFFER if faults else status), lines


def verify(pdf: Path | None, order_file: Path | None) -> int:
    """Verify a report, or that which a call's order names, and print it; the exit status.

    It is verified in a process of its own, within limits of memory and time.
    """
    path = Path(read_json(order_file)["pdf"]) if order_file else pdf
    try:
        status, lines = apart(MAX_SECONDS, verified, path)
    except UnsoundFileError as error:
        print(f"error: the report was not verified to its end: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return int(status)
