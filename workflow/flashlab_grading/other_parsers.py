"""Whether pikepdf and pypdf read the same objects in a PDF as we do: one file, one document."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pikepdf
import pypdf
from pypdf import generic

from flashlab_grading.strict_pdf import Name, Reference, Stream, StrictPdf, Value

Reader = Callable[[int], Value]
"""Gives the object of a number; 0 stands for the trailer."""


def _without_length(keys: dict[Name, Value]) -> dict[str, Value]:
    return {key: value for key, value in keys.items() if key != "Length"}


def _from_pikepdf(value: Any, inner: bool = True) -> Value:
    if inner and isinstance(value, pikepdf.Object) and value.is_indirect:
        return Reference(value.objgen[0])
    if isinstance(value, pikepdf.Stream):
        keys = {Name(key[1:]): _from_pikepdf(part) for key, part in value.items()}
        return Stream(_without_length(keys), value.read_raw_bytes())
    if isinstance(value, pikepdf.Dictionary):
        return {Name(key[1:]): _from_pikepdf(part) for key, part in value.items()}
    if isinstance(value, pikepdf.Array):
        return [_from_pikepdf(part) for part in value]
    if isinstance(value, pikepdf.Name):
        return Name(str(value)[1:])
    if isinstance(value, pikepdf.String):
        return bytes(value)
    return float(value) if isinstance(value, Decimal) else value


def _from_pypdf(value: Any) -> Value:
    if isinstance(value, generic.IndirectObject):
        return Reference(value.idnum)
    if isinstance(value, generic.DictionaryObject):
        keys = {Name(str(key)[1:]): _from_pypdf(value.raw_get(key)) for key in value}
        if isinstance(value, generic.StreamObject):
            return Stream(_without_length(keys), value._data)
        return keys
    if isinstance(value, generic.ArrayObject):
        return [_from_pypdf(part) for part in list.__iter__(value)]
    if isinstance(value, generic.NameObject):
        return Name(str(value)[1:])
    if isinstance(value, generic.TextStringObject):
        return value.original_bytes
    if isinstance(value, generic.ByteStringObject):
        return bytes(value)
    if isinstance(value, generic.BooleanObject):
        return bool(value.value)
    if isinstance(value, generic.NullObject):
        return None
    if isinstance(value, generic.NumberObject):
        return int(value)
    return float(value) if isinstance(value, generic.FloatObject) else value


def _pikepdf_reader(content: bytes) -> Reader:
    pdf = pikepdf.open(io.BytesIO(content), attempt_recovery=False)

    def read(number: int) -> Value:
        found = pdf.get_object(number, 0) if number else pdf.trailer
        return _from_pikepdf(found, inner=False)

    return read


def _pypdf_reader(content: bytes) -> Reader:
    reader = pypdf.PdfReader(io.BytesIO(content), strict=False)

    def read(number: int) -> Value:
        if not number:
            return _from_pypdf(reader.trailer)
        return _from_pypdf(generic.IndirectObject(number, 0, reader).get_object())

    return read


def _same(ours: Value, theirs: Value) -> bool:
    """Whether two parsers read the same value, with their types."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        ours = {key: value for key, value in ours.items() if value is not None}
        theirs = {key: value for key, value in theirs.items() if value is not None}
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(ours, Stream) and isinstance(theirs, Stream):
        return _same(ours.keys, theirs.keys) and ours.raw == theirs.raw
    numbers = (int, float)
    if type(ours) in numbers and type(theirs) in numbers:
        return bool(ours == theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def disagreements(pdf: StrictPdf, content: bytes) -> Iterator[str]:
    """For each of the two parsers, the first object that it reads in another way."""
    # What they have to say about a file, they say in what they read.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    for name, reader_of in (("pikepdf", _pikepdf_reader), ("pypdf", _pypdf_reader)):
        number = 0
        try:
            read = reader_of(content)
            trailer = read(0)
            if not all(_same(value, trailer.get(key)) for key, value in pdf.trailer.items()):
                yield f"{name} reads another trailer in this file: programs show it differently"
                continue
            for number in pdf.numbers:
                if not _same(pdf.object(number), read(number)):
                    yield (
                        f"{name} reads another object {number} in this file: programs show it "
                        "differently"
                    )
                    break
        # What a lenient parser raises on a hostile file is not listed anywhere.
        except Exception as error:
            yield f"{name} cannot read its object {number}: {type(error).__name__}: {error}"
