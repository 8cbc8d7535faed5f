"""A report's PDF, which is not trusted: its attachments, by pikepdf, and a page's text, by PDFium.

Both are called in processes with bounds on memory and time.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from flashlab.report.attached import AttachmentError
from flashlab.untrusted import UnsoundFileError, read_bounded
from flashlab_grading.model import GradingError

MAX_PDF_BYTES, MAX_ATTACHMENT_BYTES, MAX_ATTACHED_BYTES = 2**25, 2**26, 2**27
MAX_ATTACHED, MAX_LISTED = 5_000, 20_000
MAX_SHOWN = 120  # characters of a line that differs


class UnsoundPdfError(GradingError):
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
        text = re.sub(r"(?i)^.*?<_io\.BytesIO[^>]*>:? ?|^error: ", "", str(error))[:300]
        raise UnsoundPdfError(f"{what}: {type(error).__name__}: {text}") from error


def read_pdf(path: Path) -> bytes:
    """The bytes of a regular file; UnsoundPdfError if that is impossible."""
    try:
        return read_bounded(str(path), most=MAX_PDF_BYTES)
    except UnsoundFileError as problem:
        raise UnsoundPdfError(str(problem)) from problem


def leaves(tree: Any, own: str) -> Iterator[tuple[Any, Any]]:
    """The names and values of a tree of names, under `own`; with "", the leaves of one of pages."""
    waiting = [tree]
    for _ in range(MAX_LISTED):
        if not waiting:
            return
        node = waiting.pop()
        waiting += reversed(list(node.get("/Kids", ())))
        listed = list(node.get(own, ())) if own else [] if "/Kids" in node else [None, node]
        yield from zip(listed[::2], listed[1::2], strict=True)
    raise UnsoundPdfError("its pages or attachments are too many, or listed in a circle")


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
    with (
        one_message("it cannot be read as a PDF"),
        pikepdf.open(io.BytesIO(content), suppress_warnings=True) as pdf,
    ):
        root: Any = pdf.Root
        tree = root.get("/Names", {}).get("/EmbeddedFiles", {})
        for name, specification in leaves(tree, "/Names"):
            if (name := str(name)) in found or len(found) == MAX_ATTACHED:
                raise UnsoundPdfError(f"{name} is attached twice, or too many files are")
            found[name] = _unpacked(specification.EF.F, min(left, MAX_ATTACHMENT_BYTES))
            left -= len(found[name])
    return found


def page_text(content: bytes, number: int) -> list[str]:
    """The lines of a page, from 1, as PDFium reads them; none where it is no page to PDFium."""
    import pypdfium2

    with suppress(pypdfium2.PdfiumError):
        page = pypdfium2.PdfDocument(content)[number - 1]
        return str(page.get_textpage().get_text_range()).splitlines()
    return []


def first_difference(found: Sequence[str], made: Sequence[str]) -> tuple[int, str, str] | None:
    """The number of the first line that differs, and both lines from near there; else None."""
    for number, (one, other) in enumerate(zip_longest(found, made, fillvalue="nothing"), start=1):
        if one != other:
            pairs = enumerate(zip(one, other, strict=False))
            at = max(0, next((i for i, (a, b) in pairs if a != b), 0) - MAX_SHOWN // 2)
            return number, one[at : at + MAX_SHOWN], other[at : at + MAX_SHOWN]
    return None
