"""Pictures of others: which are printed, and which are refused with a reason."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image, ImageFile

from flashlab.pictures import MAX_BYTES, MAX_DEPTH, PictureError, picture_of


def raster(kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 4)) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


def svg(inside: str = "", attributes: str = "") -> bytes:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="30" height="10" {attributes}>{inside}</svg>'
    ).encode()


def huge_png(side: int) -> bytes:
    """A few bytes that claim to decode to so many pixels a side."""

    def chunk(name: bytes, data: bytes) -> bytes:
        whole = name + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "suffix", "media_type"),
    [
        *((raster("PNG", mode), ".png", "image/png") for mode in ("1", "L", "LA", "P", "RGBA")),
        (raster("JPEG"), ".jpeg", "image/jpeg"),
        (raster("JPEG", "L"), ".jpg", "image/jpeg"),
        (svg("<rect width='3' height='3'/>"), ".svg", "image/svg+xml"),
    ],
)
def test_a_sound_picture_is_kept_to_the_byte(content: bytes, suffix: str, media_type: str) -> None:
    picture = picture_of(content, suffix)
    assert (picture.content, picture.media_type) == (content, media_type)


DATA = base64.b64encode(raster()).decode()


@pytest.mark.parametrize(
    "content",
    [
        b"<?xml version='1.0'?><!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' "
        b"'http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd'>" + svg(),
        svg('<defs><g id="a"/></defs><use xlink:href="#a"/><g clip-path="url(#a)"/>'),
        svg(f'<image href="data:image/png;base64,{DATA}" width="3" height="3"/>'),
        svg('<a href="https://example.org/"><rect width="3" height="3"/></a>'),
        svg('<style>.a{fill:url("#a")}</style><rect class="a"/>'),
    ],
)
def test_an_svg_that_refers_to_itself_alone_is_taken(content: bytes) -> None:
    assert picture_of(content, ".svg").content == content


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (svg("<script>alert(1)</script>"), "holds <script>"),
        (svg("<foreignObject/>"), "holds <foreignObject>"),
        (svg("", 'onload="alert(1)"'), "holds a script"),
        (svg('<image href="file:///etc/passwd"/>'), "loads 'file:///etc/passwd'"),
        (svg('<image xlink:href="other.png"/>'), "loads 'other.png'"),
        (svg('<use href="http://127.0.0.1:9/a.svg#b"/>'), "loads 'http://127.0.0.1:9/a.svg#b'"),
        (svg('<image href="data:image/svg+xml;base64,PHN2Zy8+"/>'), "loads 'data:image/svg"),
        (svg('<image href="data:image/png;base64,AAAA"/>'), "cannot be read as PNG or JPEG"),
        (svg("<style>@import 'a.css';</style>"), "imports another"),
        (svg("<style>a{fill:u\\72l(http://a)}</style>"), "backslash"),
        (svg('<rect style="fill: URL( http://a/b )"/>'), "loads 'http://a/b"),
        (svg('<rect filter="url(other.svg#a)"/>'), "loads 'other.svg#a'"),
        (b"<?xml-stylesheet href='a.css'?>" + svg(), "style sheet"),
        (b"<!DOCTYPE svg [<!ENTITY a 'b'>]>" + svg("&a;"), "declares entities"),
        (svg('<g id="a"><use href="#a"/></g>'), "in a circle"),
        (svg("<g>" * MAX_DEPTH + "</g>" * MAX_DEPTH), "nested more than"),
        (svg(attributes='viewBox="0 0 x 1"'), "is not four numbers"),
        (b"<svg/>", "no SVG"),
        (svg()[:-3], "cannot be read as SVG"),
        (b"", "cannot be read as SVG"),
    ],
)
def test_an_svg_that_loads_runs_or_repeats_without_end_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(PictureError) as caught:
        picture_of(content, ".svg")
    assert why in str(caught.value)


def test_an_svg_whose_references_multiply_is_refused() -> None:
    levels = ['<g id="l0"><rect/></g>']
    levels += [f'<g id="l{n}">' + f'<use href="#l{n - 1}"/>' * 10 + "</g>" for n in range(1, 12)]
    with pytest.raises(PictureError, match="draws more than"):
        picture_of(svg("".join(levels)), ".svg")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (raster("GIF", "P"), "cannot be read as PNG or JPEG"),
        (b"no picture", "cannot be read as PNG or JPEG"),
        (raster(size=(200, 200))[:-40], "cannot be read as PNG or JPEG"),
        (raster("JPEG", size=(200, 200))[:-200], "cannot be read as PNG or JPEG"),
        (raster("JPEG", "CMYK"), "its colours are CMYK; save it as 8-bit RGB"),
        *((huge_png(side), "more than 20,000,000 pixels") for side in (5_000, 10_000, 100_000)),
        (b"\0" * (MAX_BYTES + 1), "5.0 MiB, and the most is 5 MiB"),
    ],
)
def test_a_raster_that_is_damaged_foreign_or_too_large_is_refused(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint sets it
    with pytest.raises(PictureError) as caught:
        picture_of(content, ".png")
    assert why in str(caught.value)
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def shown(content: bytes) -> str:
    url = picture_of(content, ".svg").data_url("remark-a-en-1.svg", "remark.md: line 1")
    head, _, data = url.partition(",")
    assert head == "data:image/svg+xml;name=remark-a-en-1.svg;base64"
    return base64.b64decode(data).decode()


def test_an_svgs_text_is_printed_with_the_reports_glyphs(caplog: Any) -> None:
    assert ">翊〓<" in shown(svg("<text>翊😀</text>"))
    assert "remark.md: line 1: the report's fonts lack 😀" in caplog.text


def test_a_font_in_shorthand_is_written_out() -> None:
    text = shown(svg("<style>.a{font:italic 3px A;x:y}</style><text style='font: bold 2em B, C'/>"))
    assert "font-size: 3px; font-family: A; font-style: italic" in text
    assert 'style="font-size: 2em; font-family: B, C; font-weight: bold"' in text
