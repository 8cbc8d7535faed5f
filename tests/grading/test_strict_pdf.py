"""A PDF that programs could read in two ways is refused; so is one that takes too much."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from flashlab_grading import strict_pdf
from flashlab_grading.pdf_comparison import document_differences
from flashlab_grading.strict_pdf import Name, Reference, Stream, StrictPdf, UnsoundPdfError

HEADER = b"%PDF-1.7\n%\xf0\x9f\x96\xa4\n"
OBJECTS = {
    1: b"<</Type /Catalog/Pages 2 0 R/Lang (en)>>",
    2: b"<</Type /Pages/Kids [3 0 R]/Count 1>>",
    3: b"<</Type /Page/Parent 2 0 R/MediaBox [0 0 100 200.5]/Contents 4 0 R>>",
    4: b"<</Length 9>>\nstream\n0 0 m 1 l\nendstream",
}
TRAILER = b"<</Size 5/Root 1 0 R>>"


def written(objects: dict[int, bytes], trailer: bytes = TRAILER, between: bytes = b"") -> bytes:
    """A PDF of these objects with a plain table."""
    content, offsets = HEADER, {}
    for number, body in objects.items():
        offsets[number] = len(content)
        content += b"%d 0 obj\n%b\nendobj\n%b" % (number, body, between)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    table += b"".join(b"%010d 00000 n \n" % offsets[number] for number in sorted(objects))
    end = b"trailer\n%b\nstartxref\n%d\n%%%%EOF\n" % (trailer, len(content))
    return content + table + end


PLAIN = written(OBJECTS)


def with_object(number: int, body: bytes) -> bytes:
    return written({**OBJECTS, number: body})


def test_every_kind_of_value_is_read() -> None:
    body = rb"<</A [1 -2 +3.5 .5 true false null]/B#20c (a\(b\)\n\101(c)\\)/C <48 6>/D /E/F 2 0 R>>"
    found = StrictPdf(with_object(1, body)).object(1)
    assert found == {
        "A": [1, -2, 3.5, 0.5, True, False, None],
        "B c": b"a(b)\nA(c)\\",
        "C": b"H`",
        "D": Name("E"),
        "F": Reference(2),
    }
    stream = StrictPdf(PLAIN).object(4)
    assert isinstance(stream, Stream)
    assert stream.raw == b"0 0 m 1 l"


def packed(objects: dict[int, bytes], data: bytes | None = None, more: bytes = b"") -> bytes:
    """A PDF of these objects, all in one object stream, with a packed table."""
    heads, bodies = [], b""
    for number, body in objects.items():
        heads.append(b"%d %d" % (number, len(bodies)))
        bodies += body + b"\n"
    first = b" ".join(heads) + b"\n"
    content = data or first + bodies
    stream = zlib.compress(content)
    count, size = len(objects), len(objects) + 3
    body = HEADER + b"%d 0 obj\n<</Type /ObjStm/N %d/First %d/Filter /FlateDecode%b" % (
        *(count + 1, count, len(first), more),
    )
    body += b"/Length %d>>\nstream\n%b\nendstream\nendobj\n" % (len(stream), stream)
    rows = [(0, 0, 0), *((2, count + 1, index) for index in range(count))]
    rows += [(1, len(HEADER), 0), (1, len(body), 0)]
    table = b"".join(
        kind.to_bytes(1) + place.to_bytes(4) + index.to_bytes(2) for kind, place, index in rows
    )
    position = len(body)
    body += b"%d 0 obj\n<</Type /XRef/W [1 4 2]/Size %d/Root 1 0 R/Length %d>>\nstream\n" % (
        *(count + 2, size, len(table)),
    )
    return body + table + b"\nendstream\nendobj\nstartxref\n%d\n%%%%EOF" % position


SMALL = {number: body for number, body in OBJECTS.items() if number != 4}
SMALL[3] = b"<</Type /Page/Parent 2 0 R>>"


def test_packed_objects_are_read() -> None:
    pdf = StrictPdf(packed(SMALL))
    assert pdf.numbers == [1, 2, 3]
    assert pdf.object(3) == {"Type": "Page", "Parent": Reference(2)}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (with_object(1, b"<</Type /Catalog/Lang (a)/Lang (b)>>"), "a key twice"),
        (with_object(1, b"<</Type /Catalog/Lan#67 (a)/Lang (b)>>"), "a key twice"),
        (with_object(1, b"<</Type /Catalog % hidden\n>>"), "no object"),
        (written(OBJECTS, between=b"% hidden\n"), "table"),
        (written(OBJECTS, between=b"hidden\n"), "table"),
        (PLAIN.replace(b"xref\n0 5", b"xref\n1 5", 1), "not one list from 0"),
        (PLAIN.replace(b" 00000 n", b" 00001 n", 1), "generation"),
        (PLAIN.replace(b"\n3 0 obj", b"\n7 0 obj", 1), "does not list the objects"),
        (PLAIN.replace(b"\n3 0 obj", b"\n2 0 obj", 1), "occurs twice"),
        (written(OBJECTS, b"<</Size 5/Root 1 0 R/Prev 9>>"), "the trailer has Prev"),
        (written(OBJECTS, b"<</Size 5/Root 1 0 R/Encrypt 4 0 R>>"), "the trailer has Encrypt"),
        (written(OBJECTS, b"<</Size 5/Root 1 0 R/Hidden 4 0 R>>"), "the trailer has Hidden"),
        (PLAIN[:-6], "something follows the objects"),
        (PLAIN + b"\n%%EOF\n", "something follows the objects"),
        (PLAIN + b"\0" * 5000, "something follows the objects"),
        (b"\n" + PLAIN, "does not begin like one"),
        (with_object(4, b"<</Length 8>>\nstream\n0 0 m 1 l\nendstream"), "does not end where"),
        (with_object(4, b"<</Length 5 0 R>>\nstream\n0\nendstream"), "is not stated"),
        (with_object(2, b"[" * 40 + b"]" * 40), "nested more than 32 deep"),
        (with_object(2, b"<</A 99999999999999999999>>"), "there is"),
        (with_object(2, b"(never ends"), "does not end"),
        (with_object(2, b"<</A>>"), "not pairs"),
        (packed(SMALL, more=b"/Extends 9 0 R"), "goes on in another"),
        (packed({**SMALL, 3: b"null <</Hidden 1>>"}), "goes on after its value"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UnsoundPdfError, match=re.escape(reason)):
        read_whole(content)


def read_whole(content: bytes) -> list[Any]:
    pdf = StrictPdf(content)
    return [pdf.object(number) for number in pdf.numbers]


def test_work_and_memory_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_pdf, "MAX_PACKED_BYTES", 1000)
    with pytest.raises(UnsoundPdfError, match="more than 1000 bytes"):
        read_whole(packed(SMALL, b"1 0 2 4 3 8\n" + b" " * 2000))
    monkeypatch.setattr(strict_pdf, "MAX_TOKENS", 50)
    with pytest.raises(UnsoundPdfError, match="more parts than any"):
        read_whole(with_object(2, b"[" + b"1 " * 100 + b"]"))
    monkeypatch.setattr(strict_pdf, "MAX_TOKENS", 1000)
    monkeypatch.setattr(strict_pdf, "MAX_OBJECTS", 2)
    with pytest.raises(UnsoundPdfError, match="more than 2 objects"):
        read_whole(PLAIN)
    monkeypatch.setattr(strict_pdf, "MAX_STREAM_BYTES", 1000)
    stream = Stream({"Filter": "FlateDecode"}, zlib.compress(b"\0" * 2_000_000))
    with pytest.raises(UnsoundPdfError, match="more than 1000 bytes"):
        strict_pdf.digest(stream)


def compared(content: bytes, made: bytes = PLAIN) -> list[str]:
    return list(document_differences(content, made, StrictPdf(content), ()))


def test_the_same_objects_in_another_file_are_the_same_document() -> None:
    assert compared(PLAIN) == []
    order = {number: OBJECTS[number] for number in (3, 1, 4, 2)}
    assert compared(written(order)) == []
    data = zlib.compress(b"0 0 m 1 l")
    repacked = b"<</Filter /FlateDecode/Length %d>>\nstream\n%b\nendstream" % (len(data), data)
    assert compared(with_object(4, repacked)) == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            written({**OBJECTS, 5: b"<</Secret (x)>>"}),
            "document: nothing refers to object 5: a dictionary",
        ),
        (
            with_object(3, OBJECTS[3].replace(b"200.5", b"200")),
            "page 1: MediaBox/3: it is 200, but the rebuilt report has 200.5",
        ),
        (
            with_object(1, OBJECTS[1].replace(b"(en)", b"/en")),
            'document: Lang: it is /en, but the rebuilt report has "en"',
        ),
        (
            with_object(2, OBJECTS[2].replace(b"[3 0 R]", b"[3 0 R 3 0 R]")),
            "document: Pages/Kids: it has 2 entries, but the rebuilt report has 1",
        ),
        (PLAIN.replace(b"%PDF-1.7", b"%PDF-1.4"), "document: it is PDF 1.4, not 1.7"),
    ],
)
def test_a_difference_is_one_line_that_says_where(content: bytes, line: str) -> None:
    assert compared(content) == [line]


def test_one_object_in_place_of_two_alike_is_a_difference() -> None:
    """An annotation that changes in one place then changes in the other, too."""
    two = {**OBJECTS, 3: b"<</A 5 0 R/B 6 0 R>>", 5: b"<</C 1>>", 6: b"<</C 1>>"}
    one = {**two, 3: b"<</A 5 0 R/B 5 0 R>>"}
    made = written(two, b"<</Size 7/Root 1 0 R>>")
    assert compared(written(one, b"<</Size 7/Root 1 0 R>>"), made) == [
        "page 1: B: it refers to another object than the rebuilt report",
        "document: nothing refers to object 6: a dictionary",
    ]


def test_objects_that_refer_to_one_another_many_times_are_each_compared_once() -> None:
    """40 arrays, each of the next one twice: 2⁴⁰ ways lead to the last."""
    chain = {number: b"[%d 0 R %d 0 R]" % (number + 1, number + 1) for number in range(5, 45)}
    nested = {**OBJECTS, 3: b"<</Annots 5 0 R>>", **chain, 45: b"null"}
    made, altered = written(nested), written({**nested, 45: b"1"})
    assert compared(made, made) == []
    (line,) = compared(altered, made)
    assert line.startswith("page 1: ")
    assert "it is 1, but the rebuilt report has nothing" in line


Mutation = Callable[[bytearray, random.Random], None]


def flip(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def cut(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    del content[start : start + chance.randrange(1, 40)]


def repeat(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    content[start:start] = content[start : start + chance.randrange(1, 200)]


@pytest.mark.parametrize("made", [PLAIN, packed(SMALL)], ids=["plain", "packed"])
@pytest.mark.parametrize("mutate", [flip, cut, repeat])
def test_damaged_files_are_refused_or_differ_and_nothing_else_is_raised(
    made: bytes, mutate: Mutation
) -> None:
    chance = random.Random(3)
    for _ in range(100):
        content = bytearray(made)
        mutate(content, chance)
        with suppress(UnsoundPdfError):
            compared(bytes(content), made)
