"""A report's PDF, which is not trusted: its attachments, and its pages compared with others.

pikepdf reads the objects and PDFium the pages; both are called in processes with bounds on time
and memory.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashlab.untrusted import UnsoundFileError, read_bounded
from flashlab_grading.model import GradingError

if TYPE_CHECKING:
    import pypdfium2

MAX_PDF_BYTES, MAX_ATTACHMENT_BYTES, MAX_ATTACHED_BYTES = 2**25, 2**26, 2**27
MAX_ATTACHED, MAX_PAGES = 5_000, 500

MAX_SHOWN, MAX_SIDE = 120, 1_200
"""Most characters that are shown of a line that differs, and pixels of a page's longer side; an A4
page is drawn at 72 dpi."""


class UnsoundPdfError(GradingError):
    """A file that is not a report with its data attached, or not a PDF."""


def read_pdf(path: Path) -> bytes:
    """The bytes of a regular file; UnsoundPdfError if that is impossible."""
    try:
        return read_bounded(str(path), most=MAX_PDF_BYTES)
    except UnsoundFileError as problem:
        raise UnsoundPdfError(str(problem)) from problem


def _listed(pdf: Any) -> Iterator[tuple[str, Any]]:
    """The names and specifications in the list of attachments, in its order."""
    waiting = [pdf.Root.get("/Names", {}).get("/EmbeddedFiles", {})]
    for _ in range(MAX_ATTACHED):
        if not waiting:
            return
        node = waiting.pop(0)
        waiting += list(node.get("/Kids", []))
        names = list(node.get("/Names", []))
        yield from zip(map(str, names[::2]), names[1::2], strict=True)
    raise UnsoundPdfError(f"its attachments are listed in more than {MAX_ATTACHED} parts")


def _unpacked(stream: Any, most: int) -> bytes:
    """A stream's bytes; UnsoundPdfError if there are more than `most`."""
    if "/Filter" not in stream:
        return bytes(stream.read_raw_bytes())
    if stream.Filter != "/FlateDecode" or "/DecodeParms" in stream:
        raise UnsoundPdfError("an attachment is packed otherwise than FlashLab does")
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(stream.read_raw_bytes(), most)
    if not unpacker.eof:
        raise UnsoundPdfError(f"an attachment is truncated, or has more than {most} bytes")
    return content


def attachments_of(content: bytes) -> dict[str, bytes]:
    """The attached files by name; UnsoundPdfError if one is too large or a name occurs twice."""
    import pikepdf

    found: dict[str, bytes] = {}
    left = MAX_ATTACHED_BYTES
    try:
        with pikepdf.open(io.BytesIO(content), suppress_warnings=True) as pdf:
            for name, specification in _listed(pdf):
                if name in found or len(found) == MAX_ATTACHED:
                    raise UnsoundPdfError(f"{name} is attached twice, or too many files are")
                found[name] = _unpacked(specification.EF.F, min(left, MAX_ATTACHMENT_BYTES))
                left -= len(found[name])
    except UnsoundPdfError:
        raise
    except Exception as error:  # whatever a damaged or hostile file makes of reading
        said = re.sub(r"^.*?<_io\.BytesIO[^>]*>: |^error: ", "", str(error), flags=re.IGNORECASE)
        raise UnsoundPdfError(f"it cannot be read as a PDF: {said[:200]}") from error
    return found


def _text(page: pypdfium2.PdfPage) -> list[str]:
    return str(page.get_textpage().get_text_range()).splitlines()


def _picture(page: pypdfium2.PdfPage) -> tuple[Any, ...]:
    """The page as it is drawn, and its size."""
    drawn = page.render(scale=min(1.0, MAX_SIDE / max(*page.get_size(), 1.0)))
    return *page.get_size(), bytes(drawn.buffer)


def first_difference(found: Sequence[str], made: Sequence[str]) -> tuple[int, str, str] | None:
    """The number of the first line that differs, and both lines from near there; else None."""
    for number, (one, other) in enumerate(zip_longest(found, made, fillvalue="nothing"), start=1):
        if one != other:
            pairs = enumerate(zip(one, other, strict=False))
            at = max(0, next((i for i, (a, b) in pairs if a != b), 0) - MAX_SHOWN // 2)
            return number, one[at : at + MAX_SHOWN], other[at : at + MAX_SHOWN]
    return None


def page_differences(found: bytes, made: bytes) -> Iterator[str]:
    """The pages that say or show something else than those of the PDF that its data give."""
    import pypdfium2

    try:
        one, other = pypdfium2.PdfDocument(found), pypdfium2.PdfDocument(made)
        if len(one) > MAX_PAGES:
            raise UnsoundPdfError(f"it has more than {MAX_PAGES} pages")
        if len(one) != len(other):
            yield f"it has {len(one)} pages, and its data give {len(other)}"
        for number, (own, wanted) in enumerate(zip(one, other, strict=False), start=1):
            if difference := first_difference(_text(own), _text(wanted)):
                says, gives = difference[1:]
                yield f"page {number}: it says “{says}”, and its data give “{gives}”"
            elif _picture(own) != _picture(wanted):
                yield f"page {number}: its words are right, but it looks otherwise"
    except pypdfium2.PdfiumError as error:
        raise UnsoundPdfError(f"its pages cannot be drawn: {error}") from error
