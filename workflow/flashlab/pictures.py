"""Images from outside, checked before they are printed: PNG, JPEG, and SVG that loads nothing.

Pictures are limited in bytes, pixels and SVG elements, so that no file can exhaust the memory.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from PIL import Image, ImageFile

from flashlab.telling.glyphs import legible

SUFFIXES = (".png", ".jpg", ".jpeg", ".svg")
MAX_BYTES = 5 * 1024**2
MAX_PIXELS = 20_000_000
"""Pixels of a picture; at three bytes each, within what PDF readers unpack at once."""
MAX_ELEMENTS = 200_000
"""Elements that an SVG draws, each counted as often as it is referenced."""
MAX_DEPTH = 100
"""How deep an SVG's elements are nested, references included."""

_TOO_MANY_PIXELS = f"it has more than {MAX_PIXELS:,} pixels; scale it down"

MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
    "JPEG": ("L", "RGB"),
    "MPO": ("L", "RGB"),  # a phone's JPEG, with further pictures after the first
}

SVG = "http://www.w3.org/2000/svg"
SVG_TYPE = "image/svg+xml"
XLINK = "http://www.w3.org/1999/xlink"
FORBIDDEN = ("script", "handler", "foreignObject", "iframe", "object", "embed", "audio", "video")

_EMBEDDED = re.compile(r"\s*data:image/(?:png|jpe?g);base64,(.*)", re.DOTALL)
_URL = re.compile(r"""url\(\s*+["']?+\s*+(?!#)([^)]*)""", re.IGNORECASE)
_FONT = re.compile(
    r"""(?<![\w-])font\s*:(?P<before>[^;{}]*?)(?<![\w.])(?P<size>[\d.]+(?:[a-z]+|%))(?:/\S+)?"""
    r"""\s+(?P<family>[^;{}]+)"""
)
_REFERENCE = re.compile(r"""(?:^\s*|url\(\s*["']?)#([^)"'\s]+)""", re.IGNORECASE)


class PictureError(Exception):
    """A picture that cannot be printed: what is wrong, and what to do."""


@dataclass(frozen=True)
class Picture:
    """A checked picture: the file as it is, and its media type."""

    content: bytes
    media_type: str

    def data_url(self, name: str, place: str) -> str:
        """The picture as a ``data:`` address.

        Args:
            name: identifies it in messages about the address.
            place: where it is used, for warnings about characters that the fonts lack.
        """
        shown = self.content
        if self.media_type == SVG_TYPE:
            shown = _printable_svg(shown, place)
        return f"data:{self.media_type};name={name};base64,{base64.b64encode(shown).decode()}"


def picture_of(content: bytes, suffix: str) -> Picture:
    """Check a picture file.

    Args:
        content: the file.
        suffix: of its name, one of `SUFFIXES`.

    Raises:
        PictureError: it is too large, damaged, of another format, or would load something.
    """
    if len(content) > MAX_BYTES:
        raise PictureError(
            f"it has {len(content) / 1024**2:.1f} MiB, and the most is {MAX_BYTES // 1024**2} MiB; "
            "scale it down"
        )
    if suffix == ".svg":
        _check_svg(content)
        return Picture(content, SVG_TYPE)
    return Picture(content, _raster_type(content))


@contextmanager
def _strictly_decoded() -> Iterator[None]:
    """In the block, undo WeasyPrint's process-wide setting; Pillow's warnings become errors."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _raster_type(content: bytes) -> str:
    """The media type of a PNG or JPEG that decodes whole; PictureError for anything else."""
    try:
        with (
            _strictly_decoded(),
            Image.open(io.BytesIO(content), formats=tuple(MODES)) as image,
        ):
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise PictureError(_TOO_MANY_PIXELS)
            kind = image.format or ""
            if image.mode not in MODES[kind]:
                raise PictureError(
                    f"its colours are {image.mode}; save it as 8-bit RGB or greyscale"
                )
            image.load()
    except PictureError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(_TOO_MANY_PIXELS) from error
    # A malformed file can make a decoder raise anything.
    except Exception as error:
        raise PictureError(
            f"it cannot be read as PNG or JPEG ({error}); save it again as one of them"
        ) from error
    return "image/png" if kind == "PNG" else "image/jpeg"


# SVG


def _check_structure(content: bytes) -> None:
    """PictureError if parsing the whole could take unbounded memory, or read other files."""
    depth = 0

    def enter(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise PictureError(f"its elements are nested more than {MAX_DEPTH} deep; simplify it")

    def leave(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(*_: object) -> None:
        raise PictureError("it declares entities; save it without them")

    def instruction(target: str, _data: str) -> None:
        if target == "xml-stylesheet":
            raise PictureError("it loads a style sheet; put the styles into the file")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    parser.EntityDeclHandler, parser.ProcessingInstructionHandler = entity, instruction
    parser.Parse(content, True)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _check_style(text: str) -> None:
    """PictureError if a style or an attribute's value would load something."""
    if "@import" in text.lower():
        raise PictureError("its style sheet imports another; put the styles into the file")
    if found := _URL.search(text):
        raise PictureError(f"it loads {found[1][:60]!r}; an SVG may refer to its own parts only")


def _check_attribute(element: str, name: str, value: str) -> None:
    if name.startswith("on"):
        raise PictureError(f"it holds a script ({name}); remove it")
    if name in ("href", "src") and element != "a" and not value.strip().startswith("#"):
        embedded = _EMBEDDED.fullmatch(value)
        if embedded is None:
            raise PictureError(f"it loads {value[:60]!r}; embed it, or leave it out")
        try:
            _raster_type(base64.b64decode("".join(embedded[1].split()), validate=True))
        except binascii.Error as error:
            raise PictureError(f"a picture embedded in it is not base64: {error}") from error
        return
    if name == "style" and "\\" in value:
        raise PictureError("its style has a backslash; write the character itself")
    _check_style(value)


def _check_drawn(root: ElementTree.Element) -> None:
    """PictureError if references make the elements endless or too many."""
    by_id = {element.get("id"): element for element in root.iter()}
    known: dict[ElementTree.Element, int] = {}

    def drawn(element: ElementTree.Element, above: tuple[ElementTree.Element, ...]) -> int:
        if element in known:
            return known[element]
        if element in above:
            raise PictureError("its elements refer to one another in a circle; simplify it")
        if len(above) > MAX_DEPTH:
            raise PictureError(f"its references are more than {MAX_DEPTH} deep; simplify it")
        names = [name for value in element.attrib.values() for name in _REFERENCE.findall(value)]
        parts = [*element, *(by_id[name] for name in names if name in by_id)]
        known[element] = 1 + sum(drawn(part, (*above, element)) for part in parts)
        if known[element] > MAX_ELEMENTS:
            raise PictureError(f"it draws more than {MAX_ELEMENTS:,} elements; save it as PNG")
        return known[element]

    drawn(root, ())


def _is_view_box(value: str) -> bool:
    try:
        numbers = [float(part) for part in re.split(r"[\s,]+", value.strip())]
    except ValueError:
        return False
    return len(numbers) == 4 and all(map(math.isfinite, numbers))


def _check_svg(content: bytes) -> None:
    """PictureError unless it is a bounded SVG that loads and runs nothing."""
    try:
        _check_structure(content)
        root = ElementTree.fromstring(content)
    except (expat.ExpatError, ElementTree.ParseError, LookupError, ValueError) as error:
        raise PictureError(f"it cannot be read as SVG ({error}); save it again") from error
    if root.tag != f"{{{SVG}}}svg":
        raise PictureError(f'it is no SVG: its root must be <svg xmlns="{SVG}">')
    for element in root.iter():
        name = _local(element.tag)
        if name in FORBIDDEN:
            raise PictureError(f"it holds <{name}>; remove it")
        for attribute, value in element.attrib.items():
            _check_attribute(name, _local(attribute), value)
        if name == "style":
            text = "".join(element.itertext())
            if "\\" in text:
                raise PictureError("its style has a backslash; write the character itself")
            _check_style(text)
        if not _is_view_box(element.get("viewBox", "0 0 1 1")):
            raise PictureError(f"its viewBox {element.get('viewBox')!r} is not four numbers")
    _check_drawn(root)


def _in_longhand(font: re.Match[str]) -> str:
    """``font: bold 12px Arial`` as three properties: WeasyPrint takes the first word for a size."""
    words = font["before"].split()
    found = [f"font-size: {font['size']}", f"font-family: {font['family'].strip()}"]
    found += [f"font-style: {word}" for word in words if word in ("italic", "oblique")]
    found += [f"font-weight: {word}" for word in words if word == "bold" or word.isdigit()]
    return "; ".join(found)


def _printable_svg(content: bytes, place: str) -> bytes:
    """A checked SVG as WeasyPrint can draw it, with no character that the report's fonts lack."""
    root = ElementTree.fromstring(content)
    for element in root.iter():
        element.text = element.text and legible(element.text, place)
        element.tail = element.tail and legible(element.tail, place)
        if style := element.get("style"):
            element.set("style", _FONT.sub(_in_longhand, style))
        if element.text and _local(element.tag) == "style":
            element.text = _FONT.sub(_in_longhand, element.text)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return bytes(ElementTree.tostring(root, encoding="utf-8"))


def suffix_of(name: str) -> str:
    """The suffix of a picture file's name, in lower case."""
    return Path(name).suffix.lower()
