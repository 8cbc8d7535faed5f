"""Two PDFs compared object by object: whatever one has and the other has not is named.

Object numbers, the order of the objects and how streams are packed make no difference. Everything
else does: pages with their boxes and resources, fonts with their programs, annotations, actions,
bookmarks, tags, attachments, metadata, and objects that nothing refers to.
"""

from __future__ import annotations

import difflib
import io
import itertools
import re
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pypdf

from flashlab_grading.strict_pdf import (
    Name,
    Reference,
    Stream,
    StrictPdf,
    UnsoundPdfError,
    Value,
    decoded,
    digest,
)

MAX_CONTENT_BYTES = 32 * 1024**2
"""Most bytes of drawing operators that are compared one by one."""

MAX_TEXT_BYTES = 2 * 1024**2
"""Most bytes of drawing operators whose text is extracted for a message."""

MAX_DIFFERENCES = 400

CONTEXT_WORDS = 3
SHOWN_CHARACTERS = 60
SHOWN_KEYS = 5
"""Most parts of an object's place that are named."""

_PACKING = frozenset({"Filter"})


class Place(NamedTuple):
    """Where an object is: the place of what holds it, and its key or position there."""

    outer: Place | None
    key: str | int

    def path(self) -> list[str | int]:
        """The keys and positions from the trailer on."""
        found: list[str | int] = []
        place: Place | None = self
        while place is not None:
            found.append(place.key)
            place = place.outer
        return found[::-1]


def _named(place: Place | None, attachments: Collection[str] = ()) -> str:
    """A place in words: ``page 3: Resources/Font/F1``."""
    if place is None:
        return "the trailer"
    path = place.path()
    area, rest = "document", path
    match path:
        case ["Root", "Pages", "Kids", int(index), *rest]:
            area = f"page {index + 1}"
        case ["Root", "Names", "EmbeddedFiles", "Names", int(index), *rest]:
            names = list(attachments)
            area = f"attachment {names[index // 2]}" if index // 2 < len(names) else "attachments"
        # The list of files in PDF/A-3's terms begins with those of the tree, in its order.
        case ["Root", "AF", int(index), *rest] if index < len(attachments):
            area = f"attachment {list(attachments)[index]}"
        case ["Root", "StructTreeRoot", *rest]:
            area = "tags"
        case ["Root", "Outlines", *rest]:
            area = "bookmarks"
        case ["Root", "Names", "Dests", *rest]:
            area = "destinations"
        case ["Root", *rest]:
            area = "document"
        case ["Info", *rest]:
            area = "properties"
    shown = [str(key) for key in rest]
    if len(shown) > SHOWN_KEYS:
        shown = ["…", *shown[-SHOWN_KEYS:]]
    return f"{area}: {'/'.join(shown)}" if shown else area


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _shown(value: Value) -> str:
    """A value in a message, shortened."""
    if isinstance(value, bytes):
        encoding = "utf-16" if value.startswith(b"\xfe\xff") else "latin-1"
        text = f'"{value.decode(encoding, errors="replace")}"'
    elif isinstance(value, Name):
        text = f"/{value}"
    elif isinstance(value, Stream):
        text = "a stream"
    elif isinstance(value, (dict, list)):
        text = "a dictionary" if isinstance(value, dict) else f"{len(value)} entries"
    elif value is None or isinstance(value, bool):
        text = {None: "nothing", True: "true", False: "false"}[value]
    else:
        text = str(value)
    return _shortened(text)


def _text_of(content: bytes, page: int) -> str:
    return pypdf.PdfReader(io.BytesIO(content)).pages[page].extract_text()


def text_differences(found: str, made: str) -> Iterator[str]:
    """The words that differ, with those before them."""
    theirs, ours = found.split(), made.split()
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            before = " ".join(theirs[max(0, a - CONTEXT_WORDS) : a])
            has, gives = " ".join(theirs[a:b]) or "nothing", " ".join(ours[c:d]) or "nothing"
            yield f'after "{before}" there is {has}, but the records give {gives}'


_LINE = re.compile(rb"[^\r\n]+")


def _operator_difference(found: bytes, made: bytes) -> str:
    """The first line of drawing operators that differs."""
    lines = itertools.zip_longest(*(_LINE.findall(content) for content in (found, made)))
    for number, pair in enumerate(lines, start=1):
        if pair[0] != pair[1]:
            texts = [_shortened(line.decode("latin-1")) if line else "nothing" for line in pair]
            return (
                f"it draws something else from operator {number} on: {texts[0]}, where the rebuilt "
                f"report has {texts[1]}"
            )
    return "it draws the same, with other line breaks"


class _Comparison:
    """The comparison of a PDF with the one that it must be."""

    def __init__(
        self, found: StrictPdf, made: StrictPdf, known: Collection[str], attachments: list[str]
    ) -> None:
        self.found, self.made = found, made
        self._known = known
        self._attachments = attachments
        self._visited: set[int] = set()
        self._partner: dict[int, int] = {}
        self._partner_of_made: dict[int, int] = {}
        self._waiting: deque[tuple[Value, Value, Place | None]] = deque()
        self.drawn: list[tuple[Place, Stream, Stream]] = []
        """Streams of drawing operators that differ."""

    def differences(self) -> Iterator[str]:
        """Every difference in what the trailers lead to, nearest first."""
        if self.found.version != self.made.version:
            yield f"document: it is PDF {self.found.version}, not {self.made.version}"
        trailers = []
        for pdf in (self.found, self.made):
            trailer: dict[str, Value] = dict(pdf.trailer)
            # A program that writes the file again gives it the second of two identifiers.
            identifiers = trailer.pop("ID", None)
            first = identifiers[0] if isinstance(identifiers, list) and identifiers else None
            trailers.append({**trailer, "ID": first})
        orders = [_page_contents(pdf) for pdf in (self.found, self.made)]
        if orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]):
            yield "document: its pages are in another order"
            return
        yield from self._compare_dictionaries(trailers[0], trailers[1], None)
        while self._waiting:
            a, b, place = self._waiting.popleft()
            if isinstance(a, Reference) and isinstance(b, Reference):
                partner = self._partner.setdefault(a.number, b.number)
                of_made = self._partner_of_made.setdefault(b.number, a.number)
                if (partner, of_made) != (b.number, a.number):
                    yield f"{self._at(place)}: it refers to another object than the rebuilt report"
                    continue
                if a.number in self._visited:
                    continue
                self._visited.add(a.number)
            yield from self._compare(self.found.resolved(a), self.made.resolved(b), place)

    def _at(self, place: Place | None) -> str:
        return _named(place, self._attachments)

    def _compare(self, a: Value, b: Value, place: Place | None) -> Iterator[str]:
        if isinstance(a, Stream) and isinstance(b, Stream):
            yield from self._compare_streams(a, b, place)
        elif isinstance(a, dict) and isinstance(b, dict):
            yield from self._compare_dictionaries(a, b, place)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                yield (
                    f"{self._at(place)}: it has {len(a)} entries, but the rebuilt report has "
                    f"{len(b)}"
                )
                return
            for index, (x, y) in enumerate(zip(a, b, strict=True)):
                self._waiting.append((x, y, Place(place, index)))
        elif type(a) is not type(b) or a != b:
            yield (f"{self._at(place)}: it is {_shown(a)}, but the rebuilt report has {_shown(b)}")

    def _compare_dictionaries(
        self, a: dict[str, Value], b: dict[str, Value], place: Place | None
    ) -> Iterator[str]:
        for key in sorted(a.keys() - b.keys()):
            yield f"{self._at(place)}: /{key} is not in the rebuilt report"
        for key in sorted(b.keys() - a.keys()):
            yield f"{self._at(place)}: /{key} of the rebuilt report is missing"
        # The order of the rebuilt report, which decides by which way an object is reached first.
        for key in b:
            if key in a:
                self._waiting.append((a[key], b[key], Place(place, key)))

    def _compare_streams(self, a: Stream, b: Stream, place: Place | None) -> Iterator[str]:
        embedded = b.keys.get("Type") == "EmbeddedFile"
        if embedded and place and self._at(place).split(": ")[0] in self._known:
            return  # what differs in it is stated elsewhere
        keys = [
            {key: value for key, value in stream.keys.items() if key not in _PACKING}
            for stream in (a, b)
        ]
        yield from self._compare_dictionaries(keys[0], keys[1], place)
        same_filter = a.keys.get("Filter") == b.keys.get("Filter")
        if same_filter and a.raw == b.raw:
            return
        kinds = [stream.keys.get("Filter") for stream in (a, b)]
        if not all(kind in (None, "FlateDecode", ["FlateDecode"]) for kind in kinds):
            yield f"{self._at(place)}: its content is not that of the rebuilt report"
        elif digest(a) != digest(b):
            if place and (b.keys.get("Subtype") == "Form" or place.key == "Contents"):
                self.drawn.append((place, a, b))
            else:
                yield f"{self._at(place)}: its content is not that of the rebuilt report"

    def drawing_differences(self, found: bytes, made: bytes) -> Iterator[str]:
        """What differs on the pages whose drawing operators differ: words, or else operators."""
        for place, a, b in self.drawn:
            path = place.path()
            where = self._at(place)
            if path[:3] == ["Root", "Pages", "Kids"] and path[4:] == ["Contents"]:
                page = int(path[3])
                where = f"page {page + 1}"
                if max(len(a.raw), len(b.raw)) <= MAX_TEXT_BYTES:
                    words = list(_words(found, made, page))
                    if words:
                        yield from (f"{where}: {text}" for text in words)
                        continue
            contents = [decoded(stream, MAX_CONTENT_BYTES) for stream in (a, b)]
            yield f"{where}: {_operator_difference(*contents)}"


def _page_contents(pdf: StrictPdf) -> list[bytes]:
    """A hash of each page's drawing operators, in order; none for a tree that branches."""
    found = []
    kids: Value = pdf.trailer.get("Root")
    for key in ("Pages", "Kids"):
        kids = pdf.resolved(kids)
        kids = kids.get(key) if isinstance(kids, dict) else None
    for page in pdf.resolved(kids) or ():
        own = pdf.resolved(page)
        contents = pdf.resolved(own.get("Contents")) if isinstance(own, dict) else None
        found.append(digest(contents) if isinstance(contents, Stream) else b"")
    return found


def _words(found: bytes, made: bytes, page: int) -> Iterator[str]:
    try:
        texts = [_text_of(content, page) for content in (found, made)]
    # The text only serves the message; a hostile page can make its extraction raise anything.
    except Exception:
        return
    yield from text_differences(*texts)


def _reachable(pdf: StrictPdf) -> set[int]:
    """The numbers of all objects that the trailer leads to."""
    found: set[int] = set()
    waiting: list[Value] = list(pdf.trailer.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, Reference):
            if value.number not in found:
                found.add(value.number)
                waiting.append(pdf.object(value.number))
        elif isinstance(value, Stream):
            waiting.extend(value.keys.values())
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return found


def _unused(pdf: StrictPdf) -> dict[int, Value]:
    reachable = _reachable(pdf)
    return {number: pdf.object(number) for number in pdf.numbers if number not in reachable}


def document_differences(
    found: bytes, made: bytes, opened: StrictPdf, known: Collection[str]
) -> Iterator[str]:
    """The differences of a PDF from the one that it must be, a line each.

    Args:
        found: the PDF.
        made: the PDF that it must be.
        opened: `found`, read strictly.
        known: attachments whose content is known to differ, which is not stated again.
    """
    rebuilt = StrictPdf(made)
    names = embedded_names(rebuilt)
    comparison = _Comparison(opened, rebuilt, [f"attachment {name}" for name in known], names)
    structural: list[str] = []
    for text in comparison.differences():
        if len(structural) < MAX_DIFFERENCES:
            structural.append(text)
    # What a reader sees comes first.
    yield from comparison.drawing_differences(found, made)
    yield from structural
    own = list(_unused(rebuilt).values())
    for number, value in _unused(opened).items():
        if value is not None and value not in own:
            yield f"document: nothing refers to object {number}: {_shown(value)}"


# Attachments


def embedded_names(pdf: StrictPdf) -> list[str]:
    """The names in the tree of attachments, in its order; empty if it has none."""
    return [name for name, _ in _embedded(pdf)]


def _embedded(pdf: StrictPdf) -> list[tuple[str, Value]]:
    node: Any = pdf.trailer.get("Root")
    for key in ("Names", "EmbeddedFiles", "Names"):
        node = pdf.resolved(node)
        node = node.get(key) if isinstance(node, dict) else None
    entries = pdf.resolved(node)
    if not isinstance(entries, list) or len(entries) % 2:
        return []
    found = []
    for name, specification in zip(entries[::2], entries[1::2], strict=True):
        own = pdf.resolved(specification)
        name = own.get("UF", name) if isinstance(own, dict) else name
        if not isinstance(name, bytes):
            raise UnsoundPdfError("an attachment has no name")
        encoding = "utf-16" if name.startswith(b"\xfe\xff") else "latin-1"
        found.append((name.decode(encoding, errors="replace"), own))
    return found


def read_attachments(pdf: StrictPdf, most: int, in_all: int) -> dict[str, bytes]:
    """The attached files by name.

    Args:
        pdf: the PDF.
        most: most bytes of a file.
        in_all: most bytes of all files.

    Raises:
        UnsoundPdfError: a name occurs twice, a file is not there, or there is too much of them.
    """
    found: dict[str, bytes] = {}
    left = in_all
    for name, specification in _embedded(pdf):
        if name in found:
            raise UnsoundPdfError(f"{name!r} is attached twice")
        files = pdf.resolved(specification.get("EF")) if isinstance(specification, dict) else None
        stream = pdf.resolved(files.get("F")) if isinstance(files, dict) else None
        if not isinstance(stream, Stream):
            raise UnsoundPdfError(f"{name!r} is attached without a file")
        found[name] = decoded(stream, min(most, left))
        left -= len(found[name])
        if left < 0:
            raise UnsoundPdfError(f"its attachments have more than {in_all} bytes")
    return found
