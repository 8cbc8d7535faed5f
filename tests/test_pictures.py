"""Pictures of others: which are printed, and which are refused with a reason."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image, ImageFile

from flashlab.remarks import MAX_BYTES, PictureError, picture_of


def raster(kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 4)) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


def huge_png(side: int) -> bytes:
    """A few bytes that claim to decode to so many pixels a side."""

    def chunk(name: bytes, data: bytes) -> bytes:
        whole = name + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        *((raster("PNG", mode), "image/png") for mode in ("1", "L", "LA", "P", "RGBA")),
        *((raster("JPEG", mode), "image/jpeg") for mode in ("RGB", "L")),
    ],
)
def test_a_sound_picture_is_kept_to_the_byte(content: bytes, media_type: str) -> None:
    picture = picture_of(content)
    assert (picture.content, picture.media_type) == (content, media_type)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (raster("GIF", "P"), "it is neither PNG nor JPEG"),
        (raster(size=(200, 200))[:-40], "cannot be read as PNG or JPEG"),
        (raster("JPEG", size=(200, 200))[:-200], "cannot be read as PNG or JPEG"),
        (raster("JPEG", "CMYK"), "its colours are CMYK; save it as 8-bit RGB"),
        *((huge_png(side), "more than 20,000,000 pixels") for side in (5_000, 100_000)),
        (b"\0" * (MAX_BYTES + 1), "5.0 MiB, and the most is 5 MiB"),
    ],
)
def test_a_raster_that_is_damaged_foreign_or_too_large_is_refused(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint sets it
    with pytest.raises(PictureError) as caught:
        picture_of(content)
    assert why in str(caught.value)
    assert ImageFile.LOAD_TRUNCATED_IMAGES
