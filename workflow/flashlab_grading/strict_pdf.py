"""A PDF read strictly: every byte belongs to one object, and every object is listed once.

Lenient readers repair a file, each in its own way, so that one file can be two documents. A file
that is accepted here leaves nothing to repair: one header, objects without a gap between them, one
table that lists exactly these objects at their places, one end. Work and memory are bounded.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from flashlab_grading.model import GradingError

MAX_PDF_BYTES = 128 * 1024**2
MAX_OBJECTS = 300_000
MAX_TOKENS = 6_000_000
"""Most tokens of the objects together; the largest report that was made has 0.9 million."""
MAX_DEPTH = 32
MAX_PACKED_BYTES = 64 * 1024**2
"""Most bytes of all object streams, unpacked."""
MAX_STREAM_BYTES = 512 * 1024**2
"""Most bytes of one stream, unpacked; these are only hashed, in parts."""
PART_BYTES = 1024**2
WHITE = b"\0\t\n\f\r "

_HEADER = re.compile(rb"%PDF-(1\.[0-7])\n%[\x80-\xff]{1,16}\n")
_OBJECT = re.compile(rb"[\0\t\n\f\r ]*(\d{1,8}) 0 obj(?=[\0\t\n\f\r <\[(/])")
_AFTER_VALUE = re.compile(rb"[\0\t\n\f\r ]*(stream\r?\n|endobj)")
_AFTER_STREAM = re.compile(rb"\r?\n?endstream[\0\t\n\f\r ]+endobj")
_TABLE = re.compile(rb"[\0\t\n\f\r ]*xref\r?\n0 (\d{1,8})[ \r\n]{1,2}")
_TABLE_ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])(?: \n| \r|\r\n)")
_TRAILER = re.compile(rb"[\0\t\n\f\r ]*trailer(?=[\0\t\n\f\r <])")
_END = re.compile(rb"[\0\t\n\f\r ]*startxref\r?\n(\d{1,10})\r?\n%%EOF\r?\n?")
_TOKEN = re.compile(
    rb"""[\0\t\n\f\r ]*(?:
      (?P<word>[^\0\t\n\f\r ()<>\[\]{}/%]+)
    | /(?P<name>[^\0\t\n\f\r ()<>\[\]{}/%]*)
    | (?P<open><<|\[)
    | (?P<close>>>|\])
    | <(?P<hex>[0-9A-Fa-f\0\t\n\f\r ]*)>
    | \((?P<plain>[^()\\\r]*)\)
    | (?P<literal>\()
    )""",
    re.VERBOSE,
)
_INTEGER = re.compile(rb"[+-]?\d{1,15}")
_REAL = re.compile(rb"[+-]?(?:\d{1,30}\.\d{0,30}|\.\d{1,30})")
_NAME_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")
_LITERAL = re.compile(rb"[^()\\\r]+|\\[0-7]{1,3}|\\\r\n|\\.|\r\n?|[()]", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_WORDS = {b"true": True, b"false": False, b"null": None}


class UnsoundPdfError(GradingError):
    """A PDF that is not a report with its data attached; the message gives the reason."""


class Name(str):
    """A name, without its solidus."""

    __slots__ = ()


class Reference(NamedTuple):
    """A reference to an object by its number."""

    number: int


@dataclass(frozen=True)
class Stream:
    """A stream: its dictionary without the length, and its bytes as they are in the file."""

    keys: Mapping[str, Any]
    raw: bytes


Value = Any
"""None, bool, int, float, bytes (a string), Name, Reference, list, dict by names, or Stream."""


def _refuse(reason: str, position: int) -> NoReturn:
    raise UnsoundPdfError(f"it is not as FlashLab writes a PDF: {reason} at byte {position}")


def _name(escaped: bytes, position: int) -> Name:
    unescaped = _NAME_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), escaped)
    try:
        return Name(unescaped.decode("utf-8"))
    except UnicodeDecodeError:
        _refuse("a name is not UTF-8", position)


def _word(word: bytes, position: int) -> Value:
    if _INTEGER.fullmatch(word):
        return int(word)
    if word in _WORDS:
        return _WORDS[word]
    if _REAL.fullmatch(word):
        return float(word)
    _refuse(f"there is {word[:20]!r}", position)


def _literal(data: bytes, position: int) -> tuple[bytes, int]:
    """A string in parentheses that has escapes or further parentheses; where it ends."""
    depth, parts = 1, list[bytes]()
    while True:
        found = _LITERAL.match(data, position)
        if found is None:
            _refuse("a string does not end", position)
        part, position = found[0], found.end()
        if part == b"(":
            depth += 1
        elif part == b")":
            depth -= 1
            if depth == 0:
                return b"".join(parts), position
        elif part.startswith(b"\\"):
            kind = part[1:]
            if kind[:1].isdigit() and kind[:1] < b"8":
                part = bytes([int(kind, 8) & 255])
            else:
                part = b"" if kind in (b"\n", b"\r", b"\r\n") else _ESCAPES.get(kind, kind)
        elif part.startswith(b"\r"):
            part = b"\n"
        parts.append(part)


def _dictionary(items: list[Value], position: int) -> dict[str, Value]:
    keys = items[::2]
    if len(items) % 2 or not all(isinstance(key, Name) for key in keys):
        _refuse("a dictionary is not pairs of a name and a value", position)
    found = dict(zip(keys, items[1::2], strict=True))
    if len(found) != len(keys):
        _refuse("a dictionary has a key twice", position)
    return found


def inflated(raw: bytes, most: int) -> bytes:
    """Flate data unpacked; UnsoundPdfError if it is damaged or has more than `most` bytes."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(raw, most + 1)
    except zlib.error as error:
        raise UnsoundPdfError(f"a stream cannot be unpacked: {error}") from error
    if not unpacker.eof or len(content) > most:
        raise UnsoundPdfError(f"a stream is truncated, or has more than {most} bytes unpacked")
    if unpacker.unused_data.strip(WHITE):
        raise UnsoundPdfError("a stream goes on after its packed data")
    return content


def _is_flate(stream: Stream) -> bool:
    kind = stream.keys.get("Filter")
    return (kind[0] if isinstance(kind, list) and len(kind) == 1 else kind) == "FlateDecode"


def decoded(stream: Stream, most: int) -> bytes:
    """A stream's bytes, unpacked where it is packed by Flate alone, without its predictor."""
    packed = _is_flate(stream) and stream.raw  # an empty page's content is not even packed
    return inflated(stream.raw, most) if packed else bytes(stream.raw)


def digest(stream: Stream) -> bytes:
    """A hash of a stream's bytes as `decoded` gives them, in bounded memory."""
    if not _is_flate(stream) or not stream.raw:
        return hashlib.sha256(stream.raw).digest()
    unpacker, total, found = zlib.decompressobj(), 0, hashlib.sha256()
    waiting = bytes(stream.raw)
    try:
        while not unpacker.eof:
            part = unpacker.decompress(waiting, PART_BYTES)
            waiting = unpacker.unconsumed_tail
            total += len(part)
            if total > MAX_STREAM_BYTES or (not part and not waiting and not unpacker.eof):
                raise UnsoundPdfError(
                    f"a stream is truncated, or has more than {MAX_STREAM_BYTES} bytes unpacked"
                )
            found.update(part)
    except zlib.error as error:
        raise UnsoundPdfError(f"a stream cannot be unpacked: {error}") from error
    return found.digest()


class StrictPdf:
    """The objects of a PDF, parsed when they are asked for.

    Attributes:
        version: of the PDF format, as in the header.
        trailer: the trailer's entries `Root`, `Info` and `ID`.
        numbers: of all objects but those that only hold or list others.

    Raises:
        UnsoundPdfError: any byte of the file is not where it must be; methods raise it as well.
    """

    def __init__(self, content: bytes) -> None:
        if len(content) > MAX_PDF_BYTES:
            raise UnsoundPdfError(f"it has more than {MAX_PDF_BYTES} bytes, as no report has")
        self._content = content
        self._tokens = 0
        self._plain: dict[int, Value] = {}
        self._packed: dict[int, tuple[bytes, int, int]] = {}
        header = _HEADER.match(content)
        if header is None:
            raise UnsoundPdfError("it cannot be read as a PDF: it does not begin like one")
        self.version = header[1].decode()
        offsets, position = self._scan(header.end())
        self._read_table(offsets, position)
        if len(self._plain) + len(self._packed) > MAX_OBJECTS:
            raise UnsoundPdfError(f"it has more than {MAX_OBJECTS} objects, as no report has")
        self.numbers = sorted(self._plain.keys() | self._packed.keys())

    def object(self, number: int) -> Value:
        """The object of this number, None (null) if there is none."""
        if number in self._packed:
            data, start, end = self._packed[number]
            value, position = self._parse(data, start, end)
            if data[position:end].strip(WHITE):
                _refuse(f"object {number} goes on after its value", position)
            return value
        return self._plain.get(number)

    def resolved(self, value: Value) -> Value:
        """The value itself, or the object that it refers to."""
        if isinstance(value, Reference):
            value = self.object(value.number)
            if isinstance(value, Reference):
                raise UnsoundPdfError("a reference leads to a reference, as in no report")
        return value

    def _parse(self, data: bytes, position: int, end: int) -> tuple[Value, int]:
        """The value at a position, and where it ends."""
        stack: list[tuple[bytes, list[Value]]] = []
        items: list[Value] = []
        match = _TOKEN.match
        while True:
            found = match(data, position, end)
            if found is None:
                _refuse("there is no object, or it does not end", position)
            kind, position = found.lastgroup, found.end()
            text = found[kind or 0]
            self._tokens += 1
            if kind == "word":
                if text == b"R" and stack:
                    if len(items) < 2 or items.pop() != 0 or type(items[-1]) is not int:
                        _refuse("a reference is malformed", position)
                    items.append(Reference(items.pop()))
                else:
                    items.append(_word(text, position))
            elif kind == "name":
                items.append(_name(text, position))
            elif kind == "open":
                if len(stack) >= MAX_DEPTH:
                    _refuse(f"objects are nested more than {MAX_DEPTH} deep", position)
                stack.append((text, items))
                items = []
            elif kind == "close":
                if not stack or stack[-1][0] != (b"<<" if text == b">>" else b"["):
                    _refuse("a bracket closes nothing", position)
                _, outer = stack.pop()
                outer.append(_dictionary(items, position) if text == b">>" else items)
                items = outer
            elif kind == "hex":
                digits = bytes(text).translate(None, WHITE).decode()
                items.append(bytes.fromhex(digits + "0" * (len(digits) % 2)))
            elif kind == "plain":
                items.append(bytes(text))
            else:
                string, position = _literal(data, position)
                items.append(string)
            if not stack:
                if self._tokens > MAX_TOKENS:
                    raise UnsoundPdfError("its objects have more parts than any report's")
                return items[0], position

    def _scan(self, position: int) -> tuple[dict[int, int], int]:
        """Read the objects of the file's body; the place of each, and where the body ends."""
        content, offsets = self._content, {}
        while found := _OBJECT.match(content, position):
            number = int(found[1])
            if number in offsets or not number:
                _refuse(f"object {number} occurs twice, or has no number", found.start(1))
            offsets[number] = found.start(1)
            value, position = self._parse(content, found.end(), len(content))
            after = _AFTER_VALUE.match(content, position)
            if after is None:
                _refuse(f"object {number} does not end", position)
            position = after.end()
            if after[1] != b"endobj":
                value, position = self._stream(number, value, position)
            self._plain[number] = value
            if len(offsets) > MAX_OBJECTS:
                raise UnsoundPdfError(f"it has more than {MAX_OBJECTS} objects, as no report has")
        return offsets, position

    def _stream(self, number: int, keys: Value, position: int) -> tuple[Stream, int]:
        length = keys.get("Length") if isinstance(keys, dict) else None
        if not isinstance(length, int) or not 0 <= length <= len(self._content) - position:
            _refuse(f"the length of the stream {number} is not stated", position)
        end = _AFTER_STREAM.match(self._content, position + length)
        if end is None:
            _refuse(f"the stream {number} does not end where it must", position + length)
        del keys["Length"]
        return Stream(keys, self._content[position : position + length]), end.end()

    def _read_table(self, offsets: dict[int, int], position: int) -> None:
        """Compare the table of objects with those that are there, and read the trailer."""
        if self._content[position:].lstrip(WHITE).startswith(b"xref"):
            keys, position, start = self._plain_table(offsets, position)
        else:
            start = max(offsets.values(), default=0)
            number = next((n for n, offset in offsets.items() if offset == start), 0)
            keys = self._packed_table(offsets, number)
        end = _END.match(self._content, position)
        if end is None or int(end[1]) != start or end.end() != len(self._content):
            _refuse("something follows the objects, or the end does not name their table", position)
        if known := keys.keys() & {"Prev", "XRefStm", "Encrypt"}:
            _refuse(f"the trailer has {', '.join(sorted(known))}", position)
        self.trailer: dict[str, Value] = {
            key: keys[key] for key in ("Root", "Info", "ID") if key in keys
        }
        own = {"Size", "Type", "W", "Index", "Filter", "DecodeParms"}
        if foreign := keys.keys() - self.trailer.keys() - own:
            _refuse(f"the trailer has {', '.join(sorted(foreign))}", position)

    def _plain_table(
        self, offsets: dict[int, int], position: int
    ) -> tuple[dict[str, Value], int, int]:
        """The trailer's entries, where it ends, and where the table begins."""
        table = _TABLE.match(self._content, position)
        if table is None:
            _refuse("the table of objects is not one list from 0", position)
        start = self._content.index(b"xref", position)
        position, listed = table.end(), {}
        for number in range(int(table[1])):
            entry = _TABLE_ENTRY.match(self._content, position)
            if entry is None:
                _refuse("the table of objects is malformed", position)
            if entry[3] == b"n":
                listed[number] = int(entry[1])
                if entry[2] != b"00000":
                    _refuse(f"object {number} has a generation", position)
            position = entry.end()
        if listed != offsets:
            _refuse("the table does not list the objects that are there", position)
        trailer = _TRAILER.match(self._content, position)
        if trailer is None:
            _refuse("there is no trailer", position)
        keys, position = self._parse(self._content, trailer.end(), len(self._content))
        if not isinstance(keys, dict):
            _refuse("the trailer is no dictionary", position)
        return keys, position, start

    def _packed_table(self, offsets: dict[int, int], number: int) -> dict[str, Value]:
        """The entries of the stream that is the table, with all packed objects noted."""
        position = offsets.get(number, 0)
        table = self._plain.pop(number, None)
        if not isinstance(table, Stream) or table.keys.get("Type") != "XRef":
            _refuse("there is no table of objects", position)
        packs = {
            n: value
            for n, value in self._plain.items()
            if isinstance(value, Stream) and value.keys.get("Type") in ("ObjStm", "XRef")
        }
        places = self._unpack(packs)
        for n in packs:
            del self._plain[n]
        wanted = {n: (1, offset, 0) for n, offset in offsets.items()}
        if twice := wanted.keys() & places.keys():
            _refuse(f"object {min(twice)} is there twice", position)
        wanted |= {n: (2, *place) for n, place in places.items()}
        # Some writers leave out the entry of the table itself.
        listed = _entries(table, position) | {number: wanted[number]}
        if listed != wanted:
            _refuse("the table does not list the objects that are there", position)
        return dict(table.keys)

    def _unpack(self, packs: Mapping[int, Stream]) -> dict[int, tuple[int, int]]:
        """Note the objects in these object streams; each one's stream and place in it."""
        places: dict[int, tuple[int, int]] = {}
        left = MAX_PACKED_BYTES
        for holder, stream in packs.items():
            count, first = stream.keys.get("N"), stream.keys.get("First")
            if stream.keys.get("Type") != "ObjStm" or "Extends" in stream.keys:
                _refuse(f"object {holder} is a second table, or goes on in another", 0)
            data = decoded(stream, left)
            left -= len(data)
            if not isinstance(first, int) or not 0 <= first <= len(data):
                _refuse(f"the object stream {holder} is malformed", 0)
            try:
                heads = [int(word) for word in data[:first].split()]
            except ValueError:
                _refuse(f"the object stream {holder} is malformed", 0)
            numbers, starts = heads[::2], [first + start for start in heads[1::2]]
            if len(numbers) != count or len(starts) != count or starts != sorted(starts):
                _refuse(f"the object stream {holder} is malformed", 0)
            for index, (number, start, end) in enumerate(
                zip(numbers, starts, [*starts[1:], len(data)], strict=True)
            ):
                if number in places:
                    _refuse(f"object {number} is there twice", 0)
                places[number] = (holder, index)
                self._packed[number] = (data, start, end)
        return places


def _entries(table: Stream, position: int) -> dict[int, tuple[int, int, int]]:
    """What a table of objects lists, without those that are free: kind, and two fields each."""
    data, widths = decoded(table, MAX_PACKED_BYTES), table.keys.get("W")
    size = table.keys.get("Size")
    if (
        not isinstance(widths, list)
        or len(widths) != 3
        or not all(type(width) is int and 0 <= width <= 8 for width in widths)
        or type(size) is not int
        or not 0 < sum(widths) <= 24
    ):
        _refuse("the table of objects is malformed", position)
    if table.keys.get("Index", [0, size]) not in ([0, size], [0, size + 1]):
        _refuse("the table of objects is not one list from 0", position)
    row = sum(widths)
    if "DecodeParms" in table.keys:
        data = _without_predictor(data, row, table.keys["DecodeParms"], position)
    if len(data) % row or len(data) // row > MAX_OBJECTS:
        _refuse("the table of objects is malformed", position)
    found = {}
    for number, at in enumerate(range(0, len(data), row)):
        fields = []
        for width in widths:
            fields.append(int.from_bytes(data[at : at + width]))
            at += width
        kind = fields[0] if widths[0] else 1
        if kind:
            found[number] = (kind, fields[1], fields[2])
    return found


def _without_predictor(data: bytes, row: int, parameters: Value, position: int) -> bytes:
    """The rows of a table that are written as differences from the row above (PNG's up)."""
    if parameters != {"Columns": row, "Predictor": 12}:
        _refuse("the table of objects is packed in another way", position)
    above, found = bytes(row), []
    for at in range(0, len(data), row + 1):
        if data[at] != 2 or at + row + 1 > len(data):
            _refuse("the table of objects is packed in another way", position)
        differences = data[at + 1 : at + 1 + row]
        above = bytes((a + b) & 255 for a, b in zip(above, differences, strict=True))
        found.append(above)
    return b"".join(found)
