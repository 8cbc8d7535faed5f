"""A report's PDF, which is not trusted: its attachments, what it hides, and its pages compared.

pikepdf reads the objects and PDFium the pages; both are called in processes with bounds on time
and memory.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashlab.untrusted import UnsoundFileError, read_bounded
from flashlab_grading.model import GradingError

if TYPE_CHECKING:
    import pypdfium2

MAX_PDF_BYTES = 32 * 1024**2
MAX_ATTACHMENT_BYTES = 64 * 1024**2
MAX_ATTACHED_BYTES = 128 * 1024**2
MAX_ATTACHED = 5_000
MAX_PAGES = 500

MAX_SIDE = 1_200
"""Most pixels of a page's longer side; an A4 page is drawn at 72 dpi."""

SHOWN = 40
"""Characters that are shown of a text that differs."""

HIDING = (
    *("/JS", "/AA", "/OpenAction", "/AcroForm", "/XFA", "/OC", "/OCProperties", "/Collection"),
    *("/RichMediaContent", "/PieceInfo", "/UserUnit"),
)
"""Keys of what acts or hides: scripts, actions, forms, layers, and a page's unit, by which it is
larger than it is drawn. FlashLab writes none of them."""

ACTIONS = (
    *("/JavaScript", "/Launch", "/ImportData", "/SubmitForm", "/ResetForm", "/GoToR", "/GoToE"),
    *("/Hide", "/Named", "/Rendition", "/Sound", "/Movie", "/SetOCGState", "/RichMediaExecute"),
)


class UnsoundPdfError(GradingError):
    """A file that is not a report with its data attached, or not a PDF."""


def read_pdf(path: Path) -> bytes:
    """The bytes of a regular file; UnsoundPdfError if that is impossible."""
    try:
        return read_bounded(str(path), most=MAX_PDF_BYTES)
    except UnsoundFileError as problem:
        raise UnsoundPdfError(str(problem)) from problem


@contextmanager
def _opened(content: bytes) -> Iterator[Any]:
    """The PDF's objects; UnsoundPdfError for whatever a damaged or hostile one makes of reading."""
    import pikepdf

    try:
        with pikepdf.open(io.BytesIO(content), suppress_warnings=True) as pdf:
            yield pdf
    except UnsoundPdfError:
        raise
    except Exception as error:
        said = re.sub(r"^.*?<_io\.BytesIO[^>]*>: |^error: ", "", str(error), flags=re.IGNORECASE)
        raise UnsoundPdfError(f"it cannot be read as a PDF: {said[:200]}") from error


def _attached(pdf: Any) -> Iterator[tuple[str, Any]]:
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
    found: dict[str, bytes] = {}
    left = MAX_ATTACHED_BYTES
    with _opened(content) as pdf:
        for name, specification in _attached(pdf):
            if name in found or len(found) == MAX_ATTACHED:
                raise UnsoundPdfError(f"{name} is attached twice, or too many files are")
            found[name] = _unpacked(specification.EF.F, min(left, MAX_ATTACHMENT_BYTES))
            left -= len(found[name])
    return found


def _dictionaries(pdf: Any) -> Iterator[Any]:
    """Every dictionary of the file, those inside others too."""
    import pikepdf

    kinds = (pikepdf.Dictionary, pikepdf.Stream, pikepdf.Array)
    waiting = [found for found in pdf.objects if isinstance(found, kinds)]
    while waiting:
        found = waiting.pop()
        is_array = isinstance(found, pikepdf.Array)
        if not is_array:
            yield found
        inner = list(found) if is_array else [value for _, value in found.items()]
        # What is written elsewhere is among the objects itself.
        waiting += [value for value in inner if isinstance(value, kinds) and not value.is_indirect]


def hidden_parts(content: bytes) -> list[str]:
    """What no page shows and no report of FlashLab has, such as scripts and layers, each once."""
    found: dict[str, None] = {}
    with _opened(content) as pdf:
        listed = {specification.EF.F.objgen for _, specification in _attached(pdf)}
        for inside in _dictionaries(pdf):
            keys = set(inside.keys())
            found |= dict.fromkeys(f"it has {key}" for key in HIDING if key in keys)
            if str(inside.get("/S", "")) in ACTIONS:
                found[f"it has an action {inside.S}"] = None
            if "/EF" in keys and {file.objgen for _, file in inside.EF.items()} - listed:
                found["a file is attached outside the list of attachments"] = None
        for number, page in enumerate(pdf.pages, start=1):
            for annotation in page.obj.get("/Annots", []):
                if annotation.get("/Subtype") != "/Link":
                    kind = annotation.get("/Subtype")
                    found[f"page {number} has an annotation {kind}"] = None
    return list(found)


def _text(page: pypdfium2.PdfPage) -> str:
    return str(page.get_textpage().get_text_range()).replace("\r\n", "\n")


def _picture(page: pypdfium2.PdfPage) -> bytes:
    """The page as it is drawn, and its size."""
    width, height = page.get_size()
    drawn = page.render(scale=min(1.0, MAX_SIDE / max(width, height, 1.0)))
    return f"{width} {height} ".encode() + bytes(drawn.buffer)


def same_until(found: Sequence[Any], made: Sequence[Any]) -> int:
    """How many characters or bytes two texts begin with alike."""
    pairs = enumerate(zip(found, made, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(found), len(made)))


def _difference(found: str, made: str) -> str:
    at = same_until(found, made)
    before, there, wanted = (
        " ".join(text.split()) or "nothing"
        for text in (found[max(0, at - SHOWN) : at], found[at : at + SHOWN], made[at : at + SHOWN])
    )
    return f"after “{before}” it says “{there}”, and its data give “{wanted}”"


def page_differences(found: bytes, made: bytes) -> Iterator[str]:
    """The pages that say or show something else than those of the PDF that its data give."""
    import pypdfium2

    try:
        one, other = pypdfium2.PdfDocument(found), pypdfium2.PdfDocument(made)
        if len(one) > MAX_PAGES:
            raise UnsoundPdfError(f"it has more than {MAX_PAGES} pages")
        if len(one) != len(other):
            yield f"it has {len(one)} pages, and its data give {len(other)}"
        for number in range(min(len(one), len(other))):
            own, wanted = one[number], other[number]
            texts = _text(own), _text(wanted)
            if texts[0] != texts[1]:
                yield f"page {number + 1}: {_difference(*texts)}"
            elif _picture(own) != _picture(wanted):
                yield f"page {number + 1}: its words are right, but it looks otherwise"
    except pypdfium2.PdfiumError as error:
        raise UnsoundPdfError(f"its pages cannot be drawn: {error}") from error
